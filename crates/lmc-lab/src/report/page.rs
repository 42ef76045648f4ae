//! One self-contained HTML page, light and dark, without scripts and without network.

use super::document::Attachment;
use super::escape;
use super::figure::{self, Figure};
use super::grid::Grid;

const STYLE: &str = "
:root { --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --line: #d8dde4; --faint: #eef1f5; --accent: #0b4f8a;
  --good: #0b62a8; --bad: #c8500a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181e; --line: #2d343e; --faint: #1c222a; --accent: #6db3f2;
    --good: #5aaef0; --bad: #f2914a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 56rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; -webkit-text-size-adjust: 100%; }
body.broad { max-width: 82rem; padding: 2rem clamp(1rem, 3vw, 2.5rem) 5rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .5rem; } h4 { font-size: .9rem; margin: 1.1rem 0 .4rem; color: var(--soft); }
.broad h1 { font-size: 1.75rem; } .broad h2 { font-size: 1.25rem; margin: 3rem 0 .35rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { max-width: 44rem; margin: 0 0 .9rem; } .soft { color: var(--soft); } a { color: var(--accent); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin: 1rem 0 0; font-size: .9rem; } nav a { text-decoration: none; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
tr.total td { font-weight: 600; border-top: 2px solid var(--line); }
/* A shadow at the edge where there is more to scroll to: covers that move with the content hide it at the ends. */
.wide { overflow-x: auto; background: linear-gradient(90deg, var(--paper) 30%, transparent) left / 2.5rem 100% no-repeat local,
  linear-gradient(270deg, var(--paper) 30%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) left / .8rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--line), transparent) right / .8rem 100% no-repeat scroll; }
.chart { width: 100%; height: auto; min-width: 34rem; display: block; }
.maps { display: flex; flex-wrap: wrap; gap: 1.25rem 2rem; } .maps figure { margin: 0; max-width: 100%; overflow-x: auto; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1.5rem 2.5rem; }
.charts figure { margin: 0; min-width: 0; }
figcaption { font-size: .85rem; color: var(--soft); margin-bottom: .3rem; } .charts figcaption { font-weight: 600; }
pre { background: var(--faint); padding: .7rem .9rem; border-radius: 6px; overflow: auto; max-height: 22rem;
  font-size: .85rem; } code { font-size: .9em; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; margin: .4rem 0; } li { margin: .25rem 0; }
.warning { border-left: 3px solid var(--bad); background: var(--faint); padding: .55rem .9rem; border-radius: 0 6px 6px 0; }

table.numbers { border-collapse: separate; border-spacing: 0; width: auto; font-size: .9rem; line-height: 1.3; }
.numbers th, .numbers td { padding: .4rem .42rem; vertical-align: top; text-align: right; }
.numbers .name { position: sticky; left: 0; z-index: 1; background: var(--paper); text-align: left; color: var(--ink);
  min-width: 7rem; max-width: 11rem; padding-left: 0; border-right: 1px solid var(--line); }
.numbers thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; border-bottom: 1px solid var(--soft); }
.numbers .group { text-align: center; color: var(--ink); font-weight: 600; font-size: 1rem; border-bottom: 1px solid var(--line); }
.numbers .edge { border-left: 1px solid var(--line); } .numbers .name + .edge { border-left: 0; }
.numbers tbody tr:hover > * { background: var(--faint); } .numbers i { font-style: normal; color: var(--soft); }
.numbers small { display: block; font-size: .8em; color: var(--soft); font-weight: 400; margin-top: .1rem; }
.numbers b, .legend b { font-weight: 600; border-radius: 3px; padding: 0 .3em; margin-right: .45em; }
.numbers .heading th { padding-top: 1.1rem; font-size: 1rem; } .numbers .heading:hover > * { background: none; }
.numbers .heading th, .numbers .heading:hover th { background: var(--paper); }
.numbers .none { color: var(--soft); } .numbers .remark { color: var(--bad); }
.legend { font-size: .85rem; color: var(--soft); margin: .8rem 0 0; max-width: none; line-height: 1.9; } .legend b { margin: 0 .1em; font-size: .9em; }
.note { font-size: .85rem; color: var(--soft); max-width: 60rem; margin-top: .5rem; }
.numbers thead tr + tr .edge:first-child { border-left: 0; }
.d0 { color: var(--soft); background: var(--faint); }
.up1, .up2, .up3 { color: var(--good); } .down1, .down2, .down3 { color: var(--bad); }
.up1 { background: color-mix(in srgb, var(--good) 10%, var(--paper)); } .down1 { background: color-mix(in srgb, var(--bad) 10%, var(--paper)); }
.up2 { background: color-mix(in srgb, var(--good) 24%, var(--paper)); } .down2 { background: color-mix(in srgb, var(--bad) 24%, var(--paper)); }
.up3 { background: var(--good); color: var(--paper); } .down3 { background: var(--bad); color: var(--paper); }
";

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    title: String,
    head: String,
    body: String,
    /// Anchor and title of each section.
    sections: Vec<(String, String)>,
    broad: bool,
}

impl Page {
    /// A page with a title and a sentence beneath it.
    pub fn new(title: &str, about: &str) -> Self {
        let head = format!("<h1>{}</h1><p class=\"soft\">{}</p>", escape(title), escape(about));
        Self { title: title.to_owned(), head, body: String::new(), sections: Vec::new(), broad: false }
    }

    /// A page for wide tables, with links to its sections.
    pub fn broad(title: &str, about: &str) -> Self {
        Self { broad: true, ..Self::new(title, about) }
    }

    /// Adds a section with a sentence that says how to read it.
    pub fn section(&mut self, title: &str, about: &str) {
        let address = format!("s{}", self.sections.len() + 1);
        self.body +=
            &format!("<h2 id=\"{address}\">{}</h2><p class=\"soft\">{}</p>", escape(title), escape(about));
        self.sections.push((address, title.to_owned()));
    }

    /// Adds a title within a section; `level` is 3 or 4.
    pub fn heading(&mut self, level: usize, title: &str) {
        self.body += &format!("<h{level}>{}</h{level}>", escape(title));
    }

    /// Adds a remark that must not be overlooked.
    pub fn warning(&mut self, text: &str) {
        self.body += &format!("<p class=\"warning\">{}</p>", escape(text));
    }

    /// Adds a remark.
    pub fn paragraph(&mut self, text: &str) {
        self.body += &format!("<p class=\"note\">{}</p>", escape(text));
    }

    /// Adds a figure as wide as the page.
    pub fn figure(&mut self, figure: &Figure) {
        self.body += &format!("<div class=\"wide\">{}</div>", figure.inline());
    }

    /// Adds wide figures with captions, two in a row where there is room.
    pub fn charts(&mut self, figures: &[(String, Figure)]) {
        self.body += "<div class=\"charts\">";
        for (caption, figure) in figures {
            self.body += &format!(
                "<figure><figcaption>{}</figcaption><div class=\"wide\">{}</div></figure>",
                escape(caption),
                figure.inline()
            );
        }
        self.body += "</div>";
    }

    /// Adds small figures side by side, each with its caption.
    pub fn figures(&mut self, figures: &[(String, Figure)]) {
        self.body += "<div class=\"maps\">";
        for (caption, figure) in figures {
            let svg = figure.inline();
            self.body += &format!("<figure><figcaption>{}</figcaption>{svg}</figure>", escape(caption));
        }
        self.body += "</div>";
    }

    /// Adds a table of numbers whose first column stays in sight.
    pub fn grid(&mut self, grid: &Grid) {
        self.body += &grid.html();
    }

    /// Adds a text, and the legend of the colours of differences.
    pub fn legend(&mut self, text: &str) {
        let chips = [
            ("down3", "−7"),
            ("down2", "−4"),
            ("down1", "−2"),
            ("d0", "±1"),
            ("up1", "+2"),
            ("up2", "+4"),
            ("up3", "+7"),
        ]
        .map(|(class, text)| format!("<b class=\"{class}\">{text}</b>"));
        self.body += &format!(
            "<p class=\"legend\">{} Our number less the paper's is coloured by its size: {}</p>",
            escape(text),
            chips.concat()
        );
    }

    /// Adds a list; each item begins with a name.
    pub fn list(&mut self, items: &[(String, String)]) {
        self.body += "<ul>";
        for (name, text) in items {
            self.body += &format!("<li><code>{}</code> {}</li>", escape(name), escape(text));
        }
        self.body += "</ul>";
    }

    /// Adds links to files, whose content is inside the page.
    pub fn attachments(&mut self, files: &[Attachment]) {
        self.body += "<ul>";
        for Attachment { name, about, content } in files {
            self.body += &format!(
                "<li><a download=\"{0}\" href=\"data:text/csv;charset=utf-8,{1}\">{0}</a> {2}</li>",
                escape(name),
                percent_encoded(content),
                escape(about)
            );
        }
        self.body += "</ul>";
    }

    /// Adds a table whose last row is a total.
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

    /// Adds commands to try.
    pub fn commands(&mut self, text: &str) {
        self.body += &format!("<pre>{}</pre>", escape(text));
    }

    /// Writes the page.
    pub fn html(&self) -> String {
        let links: String = self
            .sections
            .iter()
            .map(|(address, title)| format!("<a href=\"#{address}\">{}</a>", escape(title)))
            .collect();
        let (class, links) = match self.broad {
            true => (" class=\"broad\"", format!("<nav>{links}</nav>")),
            false => ("", String::new()),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{}</title><style>{STYLE}{}</style></head><body{class}>{}{links}{}</body></html>\n",
            escape(&self.title),
            figure::STYLE,
            self.head,
            self.body
        )
    }
}

/// Encodes a text for a URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_inside_the_page() {
        let mut page = Page::new("title", "about");
        page.attachments(&[Attachment { name: "a.csv", about: "both", content: "x,\"y\"\n±".into() }]);
        let html = page.html();
        assert!(
            html.contains("download=\"a.csv\" href=\"data:text/csv;charset=utf-8,x,%22y%22%0A%C2%B1\""),
            "{html}"
        );
    }
}
