//! Comma-separated values, for spreadsheets and scripts.

/// Writes a file with a line of titles. Fields with commas, quotes or line ends are quoted. A text that a spreadsheet
/// would take for a formula gets a `'` before it; numbers stay as they are.
pub fn csv(titles: &[&str], rows: &[Vec<String>]) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let titles = line(titles.iter().map(|text| field(text)).collect());
    rows.iter().fold(titles, |file, row| file + &line(row.iter().map(|text| field(text)).collect()))
}

fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number(text);
    match formula || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Whether a text is a number of digits, or the `-` that stands for none.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text == "-" || (digits(text) && text.parse::<f64>().is_ok())
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

    #[test]
    fn no_name_is_a_formula() {
        let cells = ["=1+1", "+cmd|' /C calc'!A0", "-a", "@SUM(A1)", "\t=1", "\r=1", "-inf", "a=1"];
        let numbers = ["-0.5", "+1", "-1e-3", "-", "0.5000", ""];
        let file = csv(&["=title"], &[cells.map(String::from).to_vec(), numbers.map(String::from).to_vec()]);
        let expected = "\"'=title\"\n\"'=1+1\",\"'+cmd|' /C calc'!A0\",\"'-a\",\"'@SUM(A1)\",\"'\t=1\",\"'\r=1\",\"'-inf\",a=1\n\
                        -0.5,+1,-1e-3,-,0.5000,\n";
        assert_eq!(file, expected);
    }
}
