//! Comma-separated values, for spreadsheets and scripts.

/// Writes a file with a line of titles. Fields with commas, quotes or line ends are quoted.
pub fn csv(titles: &[&str], rows: &[Vec<String>]) -> String {
    let field = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let titles = line(titles.iter().map(|text| field(text)).collect());
    rows.iter().fold(titles, |file, row| file + &line(row.iter().map(|text| field(text)).collect()))
}

/// Writes a number with four decimals, and nothing for `None`.
pub fn number(number: Option<f64>) -> String {
    number.map(|number| format!("{number:.4}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must() {
        let rows = [vec!["LMC(A,H)".to_owned(), number(Some(0.5))], vec!["a \"b\"".to_owned(), number(None)]];
        assert_eq!(
            csv(&["method, title", "A"], &rows),
            "\"method, title\",A\n\"LMC(A,H)\",0.5000\n\"a \"\"b\"\"\",\n"
        );
    }
}
