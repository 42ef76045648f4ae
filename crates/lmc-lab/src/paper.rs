//! The numbers that the paper reports: its table 1 and its transfer table, over six runs each.

use crate::report::Spread;

/// The numbers as `stream,method,metric,mean,std`, with the names of our streams and methods; in per cent, except M.
const NUMBERS: &str = include_str!("../paper.csv");

/// Number of runs behind each number of the paper.
const RUNS: usize = 6;

/// A metric that the paper reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperMetric {
    /// A: mean accuracy at the end of the stream.
    Accuracy,
    /// F: mean change of accuracy since each task was learned.
    Forgetting,
    /// M: number of modules at the end of the stream.
    Modules,
    /// Accuracy of the first task.
    First,
    /// Accuracy of the last task.
    Last,
    /// T: accuracy of the last task, less that of an expert.
    Transfer,
}

/// The paper's number for a method on a stream; `None` if it reports none.
pub fn published(stream: &str, method: &str, metric: PaperMetric) -> Option<Spread> {
    let names: &[&str] = match metric {
        PaperMetric::Accuracy => &["A"],
        PaperMetric::Forgetting => &["F"],
        PaperMetric::Modules => &["M", "M_fixed"],
        PaperMetric::First => &["first"],
        PaperMetric::Last => &["last"],
        PaperMetric::Transfer => &["T"],
    };
    NUMBERS.lines().skip(1).find_map(|line| match line.split(',').collect::<Vec<_>>()[..] {
        [of, by, name, mean, deviation] if of == stream && by == method && names.contains(&name) => {
            Some(Spread { mean: mean.parse().ok()?, deviation: deviation.parse().ok(), runs: RUNS })
        }
        _ => None,
    })
}

/// Whether the paper marks the number of modules of a method as fixed: the width of one network, counted in modules.
pub fn is_fixed(method: &str) -> bool {
    NUMBERS.lines().any(|line| line.contains(&format!(",{method},M_fixed,")))
}

/// The name of a stream as the paper writes it; for other streams, the last part of the path.
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
        let spread = published("s_minus", "lmc_a", PaperMetric::Accuracy).unwrap();
        assert_eq!((spread.mean, spread.deviation), (67.2, Some(1.5)));
        let fixed = published("s_pl", "finetune_l", PaperMetric::Modules).unwrap();
        assert_eq!((fixed.mean, fixed.deviation), (20.0, None));
        assert_eq!(published("s_out", "lmc_a", PaperMetric::Transfer).unwrap().mean, -1.5);
        assert_eq!(published("s_pl", "lmc_a", PaperMetric::Transfer), None);
        assert_eq!(published("two.toml", "lmc_a", PaperMetric::Accuracy), None);
        assert!(is_fixed("er_a_s") && !is_fixed("lmc_a"));
        assert_eq!(stream_title("streams/two.toml"), "two");
    }

    /// Compares every number of the two tables.
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
                "A" => PaperMetric::Accuracy,
                "F" => PaperMetric::Forgetting,
                "M" | "M_fixed" => PaperMetric::Modules,
                "acc_first_task" => PaperMetric::First,
                "acc_last_task" => PaperMetric::Last,
                _ => PaperMetric::Transfer,
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
