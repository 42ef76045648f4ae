//! The paper's own numbers, to stand beside ours: its table 1 and its transfer table, over six runs each.

use crate::report::Spread;

/// `stream,method,metric,mean,std` under our names of streams and methods; per cent, but for M.
const NUMBERS: &str = include_str!("../paper.csv");

/// Runs per cell of the paper's tables.
const RUNS: usize = 6;

/// A number that the paper reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A: mean accuracy at the end.
    Accuracy,
    /// F: mean change of accuracy since each task was learned.
    Forgetting,
    /// M: modules at the end.
    Modules,
    /// Accuracy of the first task.
    First,
    /// Accuracy of the last task.
    Last,
    /// T: accuracy of the last task, less that of an expert.
    Transfer,
}

/// What the paper has for a method on a stream; `None` if it has nothing.
pub fn published(stream: &str, method: &str, metric: Metric) -> Option<Spread> {
    let names: &[&str] = match metric {
        Metric::Accuracy => &["A"],
        Metric::Forgetting => &["F"],
        Metric::Modules => &["M", "M_fixed"],
        Metric::First => &["first"],
        Metric::Last => &["last"],
        Metric::Transfer => &["T"],
    };
    NUMBERS.lines().skip(1).find_map(|line| match line.split(',').collect::<Vec<_>>()[..] {
        [of, by, name, mean, deviation] if of == stream && by == method && names.contains(&name) => {
            Some(Spread { mean: mean.parse().ok()?, deviation: deviation.parse().ok(), runs: RUNS })
        }
        _ => None,
    })
}

/// Whether the paper marks the modules of a method as fixed in number: they are counted by width, not added.
pub fn is_fixed(method: &str) -> bool {
    NUMBERS.lines().any(|line| line.contains(&format!(",{method},M_fixed,")))
}

/// How the paper writes the names of its streams; others by the last part of their path.
pub fn stream_title(name: &str) -> String {
    let title = match name {
        "s_minus" => "S⁻",
        "s_plus" => "S⁺",
        "s_in" => "Sⁱⁿ",
        "s_out" => "Sᵒᵘᵗ",
        "s_pl" => "Sᵖˡ",
        "s_long" => "Sˡᵒⁿᵍ",
        "s_long30" => "Sˡᵒⁿᵍ30",
        _ => {
            let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
            return file.strip_suffix(".toml").unwrap_or(file).to_owned();
        }
    };
    title.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_paper() {
        let spread = published("s_minus", "lmc_a", Metric::Accuracy).unwrap();
        assert_eq!((spread.mean, spread.deviation), (67.2, Some(1.5)));
        let fixed = published("s_pl", "finetune_l", Metric::Modules).unwrap();
        assert_eq!((fixed.mean, fixed.deviation), (20.0, None));
        assert_eq!(published("s_out", "lmc_a", Metric::Transfer).unwrap().mean, -1.5);
        assert_eq!(published("s_pl", "lmc_a", Metric::Transfer), None);
        assert_eq!(published("two.toml", "lmc_a", Metric::Accuracy), None);
        assert!(is_fixed("er_a_s") && !is_fixed("lmc_a"));
        assert_eq!(stream_title("streams/two.toml"), "two");
    }

    /// Every number of the two tables is here, under a method of ours.
    #[test]
    fn as_in_the_file_of_results() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/paper/results.csv");
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("skipped: there is no ../shared/paper/results.csv on this machine");
            return;
        };
        let mut compared = 0;
        for line in text.lines().filter(|line| line.starts_with("ctrl_")) {
            // Titles such as "LMC(A,H)" are quoted.
            let line = line.replace("(A,H)", "(A;H)").replace("(A,S)", "(A;S)").replace('"', "");
            let fields: Vec<&str> = line.split(',').collect();
            let [_, stream, title, metric, mean, deviation] = fields[..] else { panic!("{line}") };
            let stream = match stream {
                "S-" => "s_minus",
                "S+" => "s_plus",
                other => &format!("s_{}", &other[1..]),
            };
            let title = title.replace(';', ",").replace("notA", "¬A");
            let method = lmc_methods::registry::methods().into_iter().find(|entry| entry.title == title);
            let metric = match metric {
                "A" => Metric::Accuracy,
                "F" => Metric::Forgetting,
                "M" | "M_fixed" => Metric::Modules,
                "acc_first_task" => Metric::First,
                "acc_last_task" => Metric::Last,
                _ => Metric::Transfer,
            };
            let found = published(stream, method.expect(&title).name, metric).expect(&line);
            assert_eq!(
                (found.mean, found.deviation),
                (mean.parse().unwrap(), deviation.parse().ok()),
                "{line}"
            );
            compared += 1;
        }
        assert_eq!(compared, NUMBERS.lines().count() - 1);
    }
}
