//! One self-contained HTML page.

use super::escape;

const STYLE: &str = "
:root { --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --line: #d8dde4; --module: #0b4f8a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181e; --line: #2d343e; --module: #6db3f2; }
}
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 56rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
p { max-width: 44rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
tr.total td { font-weight: 600; border-top: 2px solid var(--line); }
.wide { overflow-x: auto; } .chart { width: 100%; height: auto; min-width: 34rem; }
.grid { stroke: var(--line); } .axis { fill: var(--soft); font-size: 12px; } .name { font-size: 13px; }
.module { fill: var(--module); stroke: var(--module); stroke-width: 1; }
.maps { display: flex; flex-wrap: wrap; gap: 1.25rem 2rem; } .maps figure { margin: 0; }
figcaption { font-size: .85rem; color: var(--soft); margin-bottom: .3rem; }
pre { background: color-mix(in srgb, var(--ink) 7%, var(--paper)); padding: .7rem .9rem; border-radius: 6px; overflow-x: auto; }
";

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a title and a sentence beneath it.
    pub fn new(title: &str, about: &str) -> Self {
        let body = format!("<h1>{}</h1><p class=\"soft\">{}</p>", escape(title), escape(about));
        Self { title: title.to_owned(), body }
    }

    /// A section with a sentence that says how to read it.
    pub fn section(&mut self, title: &str, about: &str) {
        self.body += &format!("<h2>{}</h2><p class=\"soft\">{}</p>", escape(title), escape(about));
    }

    /// A picture as wide as the page.
    pub fn picture(&mut self, svg: &str) {
        self.body += &format!("<div class=\"wide\">{svg}</div>");
    }

    /// Small pictures side by side, each with its caption.
    pub fn pictures(&mut self, pictures: &[(String, String)]) {
        self.body += "<div class=\"maps\">";
        for (caption, svg) in pictures {
            self.body += &format!("<figure><figcaption>{}</figcaption>{svg}</figure>", escape(caption));
        }
        self.body += "</div>";
    }

    /// A table; the last row is a total.
    pub fn table(&mut self, titles: &[&str], rows: &[Vec<String>]) {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
        };
        self.body += "<div class=\"wide\"><table><thead><tr>";
        self.body += &cells("th", &mut titles.iter().copied());
        self.body += "</tr></thead><tbody>";
        for (number, row) in rows.iter().enumerate() {
            self.body += if number + 1 == rows.len() { "<tr class=\"total\">" } else { "<tr>" };
            self.body += &cells("td", &mut row.iter().map(String::as_str));
            self.body += "</tr>";
        }
        self.body += "</tbody></table></div>";
    }

    /// Commands to try.
    pub fn commands(&mut self, text: &str) {
        self.body += &format!("<pre>{}</pre>", escape(text));
    }

    /// The whole page.
    pub fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{}</title><style>{STYLE}</style></head><body>{}</body></html>\n",
            escape(&self.title),
            self.body
        )
    }
}
