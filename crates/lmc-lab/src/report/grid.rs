//! A table for people, in HTML and in Markdown.

use super::escape;
use super::spread::{Compared, Spread, signed};

/// A table with columns in groups and a name before each row.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Title of the column of names.
    pub corner: String,
    /// Titles of groups of columns, with the number of columns in each; empty if there are no groups.
    pub groups: Vec<(String, usize)>,
    /// Title of each column, and its meaning.
    pub titles: Vec<(String, String)>,
    /// The rows, from top to bottom.
    pub rows: Vec<GridRow>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub enum GridRow {
    /// A title between rows.
    Heading(String),
    /// A name, a remark beneath it, and a cell for each column.
    Cells(String, String, Vec<Cell>),
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Content; empty for a missing number.
    pub text: String,
    /// The paper's number, beneath the content.
    pub paper: String,
    /// Our number less the paper's, coloured by its size; above 0 is better.
    pub difference: Option<f64>,
    /// Whether the difference has no colour, because the two were not measured on the same images.
    pub muted: bool,
    /// Remark beneath the content: runs that are missing.
    pub remark: String,
}

impl Cell {
    /// A cell with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A cell with a number over seeds; empty if there is none.
    pub fn spread(spread: Option<Spread>) -> Self {
        Self::text(spread.map(|spread| spread.text()).unwrap_or_default())
    }

    /// A cell with our number above the paper's, and the difference; without colour if they are not on the same images.
    pub fn compared(compared: &Compared, same_images: bool) -> Self {
        let text = |spread: Option<Spread>| spread.map(|spread| spread.text()).unwrap_or_default();
        Self {
            text: text(compared.ours),
            paper: text(compared.paper),
            difference: compared.difference,
            muted: !same_images,
            ..Self::default()
        }
    }

    fn html(&self) -> String {
        let mut html = match self.text.split_once(" ± ") {
            _ if self.text.is_empty() => "<span class=\"none\" title=\"no finished run\">–</span>".to_owned(),
            Some((mean, deviation)) => {
                format!("{}<i> ± {}</i>", escape(mean), escape(deviation))
            }
            None => escape(&self.text),
        };
        if !self.remark.is_empty() {
            html += &format!("<small class=\"remark\">{}</small>", escape(&self.remark));
        }
        if !self.paper.is_empty() {
            let chip = self.difference.map_or(String::new(), |difference| {
                format!(
                    "<b class=\"{}\" title=\"ours less the paper's\">{}</b>",
                    if self.muted { "d0".to_owned() } else { class(difference) },
                    signed(difference)
                )
            });
            html += &format!("<small>{chip}<span title=\"the paper\">{}</span></small>", escape(&self.paper));
        }
        html
    }

    fn markdown(&self) -> String {
        let mut parts = vec![if self.text.is_empty() { "–".to_owned() } else { plain(&self.text) }];
        if !self.remark.is_empty() {
            parts.push(format!("*{}*", plain(&self.remark)));
        }
        if !self.paper.is_empty() {
            let difference = self.difference.map_or(String::new(), |number| format!(" ({})", signed(number)));
            parts.push(format!("<sub>{}{difference}</sub>", plain(&self.paper)));
        }
        parts.join("<br>")
    }
}

/// Limits between the colours of differences, in points; up to one point a difference is noise.
const STEPS: [f64; 3] = [1.0, 3.0, 6.0];

/// The CSS class that colours a difference.
pub fn class(difference: f64) -> String {
    let size = STEPS.iter().filter(|step| difference.abs() > **step).count();
    match (size, difference > 0.0) {
        (0, _) => "d0".to_owned(),
        (size, true) => format!("up{size}"),
        (size, false) => format!("down{size}"),
    }
}

impl Grid {
    /// Writes the table as HTML, in a box of its own that scrolls.
    pub fn html(&self) -> String {
        let starts = self.starts();
        let edge = |at: usize| if starts.contains(&at) { " class=\"edge\"" } else { "" };
        let mut html = String::from("<div class=\"wide\"><table class=\"numbers\"><thead>");
        let corner = escape(&self.corner);
        if self.groups.is_empty() {
            html += &format!("<tr><th class=\"name\" scope=\"col\">{corner}</th>");
        } else {
            html += &format!("<tr><th class=\"name\" scope=\"col\" rowspan=\"2\">{corner}</th>");
            for (title, columns) in &self.groups {
                html += &format!(
                    "<th class=\"group edge\" scope=\"colgroup\" colspan=\"{columns}\">{}</th>",
                    escape(title)
                );
            }
            html += "</tr><tr>";
        }
        for (at, (title, about)) in self.titles.iter().enumerate() {
            html +=
                &format!("<th scope=\"col\" title=\"{}\"{}>{}</th>", escape(about), edge(at), escape(title));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            match row {
                GridRow::Heading(text) => {
                    html += &format!(
                        "<tr class=\"heading\"><th class=\"name\" scope=\"rowgroup\">{}</th><td colspan=\"{}\"></td></tr>",
                        escape(text),
                        self.titles.len()
                    );
                }
                GridRow::Cells(name, remark, cells) => {
                    let remark = match remark.as_str() {
                        "" => String::new(),
                        remark => format!("<small>{}</small>", escape(remark)),
                    };
                    html += &format!("<tr><th class=\"name\" scope=\"row\">{}{remark}</th>", escape(name));
                    for (at, cell) in cells.iter().enumerate() {
                        html += &format!("<td{}>{}</td>", edge(at), cell.html());
                    }
                    html += "</tr>";
                }
            }
        }
        html + "</tbody></table></div>"
    }

    /// Writes the table as Markdown.
    pub fn markdown(&self) -> String {
        let mut titles = vec![self.corner.clone()];
        let mut groups = self.groups.iter().flat_map(|(title, columns)| vec![title.as_str(); *columns]);
        titles.extend(self.titles.iter().map(|(title, _)| match groups.next() {
            Some(group) => format!("{group} {title}"),
            None => title.clone(),
        }));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(titles.iter().map(|title| plain(title)).collect());
        text += &format!("| :-- |{}\n", " --: |".repeat(self.titles.len()));
        for row in &self.rows {
            text += &match row {
                GridRow::Heading(title) => {
                    let mut cells = vec![format!("**{}**", plain(title))];
                    cells.resize(titles.len(), String::new());
                    line(cells)
                }
                GridRow::Cells(name, remark, cells) => {
                    let remark =
                        if remark.is_empty() { String::new() } else { format!("<br>*{}*", plain(remark)) };
                    let mut all = vec![format!("{}{remark}", plain(name))];
                    all.extend(cells.iter().map(Cell::markdown));
                    line(all)
                }
            };
        }
        text
    }

    /// Numbers of the first column of each group.
    fn starts(&self) -> Vec<usize> {
        let mut start = 0;
        let first = |(_, columns): &(String, usize)| {
            start += columns;
            start - columns
        };
        self.groups.iter().map(first).collect()
    }
}

/// Escapes a text for Markdown.
pub fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '<' => plain += "&lt;",
            '>' => plain += "&gt;",
            '&' => plain += "&amp;",
            '\n' | '\r' => plain.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => plain.extend(['\\', letter]),
            _ => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_with_the_papers_number() {
        let compared = Compared::new(Spread::of(&[62.0, 64.0, 66.0]), Spread::of(&[67.2]));
        let cell = Cell::compared(&compared, true);
        assert_eq!(cell.markdown(), "64.0 ± 2.0<br><sub>67.2 (−3.2)</sub>");
        assert!(cell.html().contains("<b class=\"down2\" title=\"ours less the paper's\">−3.2</b>"));
        assert!(Cell::compared(&compared, false).html().contains("<b class=\"d0\""));
        let missing = Cell { remark: "1 failed".into(), ..Cell::default() };
        assert_eq!(missing.markdown(), "–<br>*1 failed*");
        assert!(missing.html().contains(">–</span><small class=\"remark\">1 failed</small>"));
    }

    #[test]
    fn colours_by_size() {
        assert_eq!([0.9, -1.0, 1.1, -3.5, 7.0].map(class), ["d0", "d0", "up1", "down2", "up3"]);
    }

    #[test]
    fn names_are_no_markup() {
        let grid = Grid {
            corner: "task".into(),
            titles: vec![("A".into(), String::new())],
            rows: vec![GridRow::Cells("<b>a|b</b>".into(), String::new(), vec![Cell::text("1")])],
            ..Grid::default()
        };
        assert!(grid.html().contains("&lt;b&gt;a|b&lt;/b&gt;"));
        assert!(grid.markdown().contains("&lt;b&gt;a\\|b&lt;/b&gt;"));
    }
}
