//! Settings in the spelling of the first version, so that runs of all versions can be compared.
//!
//! Since then LMC has got the setting `budget`, whose default is what runs did before, and `prediction.head_choice` says
//! `task_gaussian` for what was called `familiarity`. Method configurations read both spellings.

use toml::{Table, Value};

/// Settings that came later, with the default that runs of before had.
const LATER: [(&str, &str); 1] = [("budget", "fixed")];

/// Values that were called something else: table, key, name now, name then.
const RENAMED: [(&str, &str, &str, &str); 1] =
    [("prediction", "head_choice", "task_gaussian", "familiarity")];

/// Spells the settings of a method as the first version would have.
pub fn first_spelling(mut learner: Table) -> Table {
    for (key, default) in LATER {
        if learner.get(key).and_then(Value::as_str) == Some(default) {
            learner.remove(key);
        }
    }
    for (table, key, now, then) in RENAMED {
        let value = learner.get_mut(table).and_then(|table| table.get_mut(key));
        if let Some(value) = value.filter(|value| value.as_str() == Some(now)) {
            *value = Value::String(then.to_owned());
        }
    }
    learner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one() {
        let old: Table = toml::from_str("epochs = 5\n[prediction]\nhead_choice = 'familiarity'").unwrap();
        let new = "epochs = 5\nbudget = 'fixed'\n[prediction]\nhead_choice = 'task_gaussian'";
        assert_eq!(first_spelling(toml::from_str(new).unwrap()), old);
        let by_images: Table = toml::from_str("budget = 'by_images'").unwrap();
        assert_eq!(first_spelling(by_images.clone()), by_images);
    }
}
