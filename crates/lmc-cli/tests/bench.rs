//! What `lmc bench` promises.
#![allow(clippy::unwrap_used)]

mod machine;

use machine::Machine;
use serde_json::Value;

#[test]
fn json_for_scripts() {
    let outcome = Machine::new().lmc("bench --only single,w1 --seconds 0 --threads 1 --json");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(outcome.err, "", "quiet when nobody watches");
    let report: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(report["threads"], 1);
    let results = report["results"].as_array().unwrap();
    let modes: Vec<_> = results
        .iter()
        .map(|row| (row["workload"].as_str().unwrap(), row["mode"].as_str().unwrap()))
        .collect();
    assert_eq!(modes, [("w1", "train"), ("w1", "forward"), ("single", "forward")]);
    for row in results {
        assert!(row["ms"].as_f64().unwrap() > 0.0 && row["gflops"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn signatures_are_measured_for_few_and_for_many_tasks() {
    let outcome = Machine::new().lmc("bench --only signature --seconds 0 --json");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let rows: Value = serde_json::from_str(&outcome.out).unwrap();
    let tasks: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["tasks"].as_u64().unwrap()).collect();
    assert_eq!(tasks, [5, 100]);
    assert!(rows[0]["both_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_table_for_people() {
    let outcome = Machine::new().lmc("bench --only single --seconds 0 --plain");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for word in ["GFLOP/s", "single", "forward", "burn ms", "matrix multiply"] {
        assert!(outcome.out.contains(word), "{word} in {}", outcome.out);
    }
}

#[test]
fn wrong_settings_are_refused_with_a_way_out() {
    let machine = Machine::new();
    for (words, hint) in [
        ("bench --only w9", "w1, w2, w3, w3s, single"),
        ("bench --only signature,w1", "alone"),
        ("bench --threads 0", "1..=1024"),
        ("bench --seconds soon", "between 0 and 600"),
        ("bench --device gpu", "--features wgpu"),
    ] {
        if words.ends_with("gpu") && cfg!(feature = "wgpu") {
            continue;
        }
        let outcome = machine.lmc(words);
        assert_eq!(outcome.code, 2, "{words}");
        assert!(outcome.err.contains(hint), "{words}: {}", outcome.err);
    }
}
