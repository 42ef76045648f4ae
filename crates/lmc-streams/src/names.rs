//! Names that people give to tasks, classes and experiments: which are allowed, and how to show any text safely.
//!
//! A name ends up in terminals, logs and reports. A control character in it could move the cursor or colour what
//! follows, and an override of the writing direction could make it read as another name.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// The largest number of characters of a name.
const LONGEST: usize = 200;

/// Refuses a name that is empty, longer than 200 characters, or that holds a control character, an override of the
/// writing direction or a separator of lines or paragraphs. `kind` says what is named, for the message: `task`.
pub fn check_name(kind: &'static str, name: &str) -> Result<()> {
    let fail = |problem: String| Err(Error::setting(format!("{kind} name"), problem, "choose another name"));
    if name.trim().is_empty() {
        return fail("it is empty".to_owned());
    }
    let length = name.chars().count();
    if length > LONGEST {
        let beginning: String = name.chars().take(40).collect();
        return fail(format!(
            "'{}…' has {length} characters, and the largest number is {LONGEST}",
            shown(&beginning)
        ));
    }
    match name.chars().find(|&character| is_hidden(character)) {
        Some(character) => {
            let code = u32::from(character);
            fail(format!("'{}' holds the invisible character U+{code:04X}", shown(name)))
        }
        None => Ok(()),
    }
}

/// A text with its invisible characters (see [`check_name`]) written out: an escape is `\u{1b}`, a newline `\u{a}`.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character steers the terminal or the direction of writing instead of being seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_scripts_are_allowed() {
        for name in
            ["flowers", " a b ", "Blumen & <Gräser>", "花", "=1+1", "שלום", "👩‍🌾", &"x".repeat(LONGEST)]
        {
            check_name("task", name).unwrap();
            assert!(matches!(shown(name), Cow::Borrowed(same) if same == name));
        }
    }

    #[test]
    fn names_that_steer_a_terminal_are_refused_in_one_plain_line() {
        let long = "ä".repeat(LONGEST + 1);
        let steering =
            ["\u{1b}[31mred", "a\nb", "a\tb", "a\rb", "\u{7f}", "\u{9b}31m", "a\u{202e}b", "a\u{2066}b"];
        for name in steering.into_iter().chain(["", "  ", "\u{2028}", "a\u{2029}", "a\0", &long]) {
            let error = check_name("task", name).unwrap_err().to_string();
            assert!(error.starts_with("task name: "), "{error}");
            assert!(!error.contains(is_hidden) && error.len() < 400, "{error:?}");
        }
    }

    #[test]
    fn hidden_characters_are_written_out() {
        assert_eq!(shown("\u{1b}[31mred"), "\\u{1b}[31mred");
        assert_eq!(shown("a\nb\tc\r"), "a\\u{a}b\\u{9}c\\u{d}");
        assert_eq!(shown("a\u{202e}b\u{2069}"), "a\\u{202e}b\\u{2069}");
        assert_eq!(shown("plain"), "plain");
    }
}
