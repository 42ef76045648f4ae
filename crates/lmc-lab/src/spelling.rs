//! Settings in the spelling of the first version, so that runs of all versions can be compared.
//!
//! Since then LMC has got settings whose defaults are what runs did before, and `prediction.head_choice` says
//! `task_gaussian` for what was called `familiarity`. Method configurations read both spellings.

use toml::{Table, Value};

/// Settings that came later, with the default that runs of before had: table, key, value as TOML.
const LATER: [(&str, &str, &str); 9] = [
    ("", "budget", "'fixed'"),
    ("prediction", "negligible_weight", "0.005"),
    ("statistics", "source", "'training'"),
    ("statistics", "scale_partial_batches", "false"),
    ("expansion", "timing", "'every_batch'"),
    ("expansion", "test_spread", "false"),
    ("expansion", "restart_best_epoch", "false"),
    ("expansion", "only_with_gain", "false"),
    ("expansion", "drop_margin", "1.0"),
];

/// Values that were called something else: table, key, name now, name then.
const RENAMED: [(&str, &str, &str, &str); 1] =
    [("prediction", "head_choice", "task_gaussian", "familiarity")];

/// Spells the settings of a method as the first version would have.
pub fn first_spelling(mut learner: Table) -> Table {
    for (table, key, default) in LATER {
        let settings = match table {
            "" => Some(&mut learner),
            table => learner.get_mut(table).and_then(Value::as_table_mut),
        };
        if let Some(settings) = settings
            && settings.get(key).is_some_and(|value| value.to_string() == default.replace('\'', "\""))
        {
            settings.remove(key);
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

    /// Whoever adds a setting of LMC adds it above, or finished runs are not found again.
    #[test]
    fn the_settings_of_a_preset_are_those_of_the_first_version() {
        let learner = Table::try_from(lmc::Preset::SMinus.learner()).unwrap();
        let keys = |table: &Table| table.keys().cloned().collect::<Vec<_>>().join(" ");
        let first = first_spelling(learner);
        let below = |name: &str| keys(first[name].as_table().unwrap());
        assert_eq!(below("prediction"), "head_choice routing");
        assert_eq!(below("statistics"), "granularity released two_sided window");
        assert_eq!(below("expansion"), "inherit_statistics initialisation outliers threshold");
        assert_eq!(
            keys(&first),
            "adapt_batch_norm batch cache_mib composition epochs epochs_large expansion joint_autoencoder novelty \
             optimiser prediction projection statistics structural_weight"
        );
    }

    #[test]
    fn both_spellings_are_one() {
        let old: Table = toml::from_str("epochs = 5\n[prediction]\nhead_choice = 'familiarity'").unwrap();
        let new = "epochs = 5\nbudget = 'fixed'\n[prediction]\nhead_choice = 'task_gaussian'";
        assert_eq!(first_spelling(toml::from_str(new).unwrap()), old);
        let by_images: Table = toml::from_str("budget = 'by_images'").unwrap();
        assert_eq!(first_spelling(by_images.clone()), by_images);
    }
}
