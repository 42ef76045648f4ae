//! What `lmc streams` promises.
#![allow(clippy::unwrap_used)]

mod machine;

use machine::{Machine, Outcome, real_data};
use serde_json::Value;

fn json(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

/// (data set, train, val, test) of each task.
fn counts(stream: &Value) -> Vec<(String, u64, u64, u64)> {
    let number = |task: &Value, key: &str| task[key].as_u64().unwrap();
    let of = |task: &Value| {
        let name = task["dataset"].as_str().unwrap().to_owned();
        (name, number(task, "train"), number(task, "val"), number(task, "test"))
    };
    stream["tasks"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn the_list_names_every_stream_of_the_paper() {
    let machine = Machine::new();
    let text = machine.lmc("streams list").out;
    for name in ["s_minus", "s_plus", "s_in", "s_out", "s_pl", "s_long", "s_long30", "cmnist_ood_test"] {
        assert!(text.contains(name), "{name}");
    }
    assert_eq!(json(&machine.lmc("streams list --json")).as_array().unwrap().len(), 11);
}

#[test]
fn a_machine_without_data_shows_generated_images_and_says_so() {
    let machine = Machine::new();
    let shown = machine.lmc("streams show s_pl --sheet s_pl.png");
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.err.contains("not on this machine"), "{}", shown.err);
    assert!(shown.out.contains("Substitution: generated-digits stands in for mnist"), "{}", shown.out);
    let picture = image::open(machine.path("s_pl.png")).unwrap();
    assert!(picture.width() > 1000 && picture.height() > 500);
    let full = machine.lmc("streams show s_pl --variant full");
    assert_eq!(full.code, 2);
    assert!(full.err.contains("lmc data get mnist"), "{}", full.err);
    assert_eq!(full.err.lines().count(), 1, "{}", full.err);
}

#[test]
fn every_stream_exists_in_a_generated_variant() {
    let machine = Machine::new();
    let tasks = [
        ("s_minus", 6),
        ("s_plus", 6),
        ("s_in", 6),
        ("s_out", 6),
        ("s_pl", 5),
        ("s_long", 100),
        ("s_long30", 30),
        ("cmnist_ood_train", 5),
        ("cmnist_ood_test", 30),
        ("plug_and_play_1", 3),
        ("plug_and_play_2", 3),
    ];
    for (name, expected) in tasks {
        let stream = json(&machine.lmc(&format!("streams show {name} --variant generated-mini --json")));
        assert_eq!(stream["tasks"].as_array().unwrap().len(), expected, "{name}");
        assert_eq!(stream["name"], name);
    }
    let stream = json(&machine.lmc("streams show s_minus --variant generated --json"));
    let expected = [
        ("generated-objects", 4000, 2000, 2000),
        ("generated-digits", 400, 200, 2000),
        ("generated-textures", 400, 200, 2000),
        ("generated-garments", 400, 200, 2000),
        ("generated-plates", 400, 200, 2000),
        ("generated-objects", 400, 200, 2000),
    ];
    assert_eq!(counts(&stream), expected.map(|(name, train, val, test)| (name.to_owned(), train, val, test)));
    let classes = |task: usize| stream["tasks"][task]["classes"].clone();
    assert_eq!(classes(0), classes(5), "the first task returns with the same labels");
}

#[test]
fn the_picture_does_not_depend_on_threads_and_another_seed_gives_another() {
    let machine = Machine::new();
    let picture = |file: &str, seed: u64, threads: &str| {
        let words = format!("streams show s_in --variant generated-mini --seed {seed} --sheet {file}");
        let outcome = machine.lmc_with(&words, &[("RAYON_NUM_THREADS", threads)]);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        std::fs::read(machine.path(file)).unwrap()
    };
    let one = picture("a.png", 5, "1");
    assert_eq!(one, picture("b.png", 5, "2"));
    assert_eq!(one, picture("c.png", 5, "8"));
    assert_ne!(one, picture("d.png", 6, "2"));
}

#[test]
fn a_stream_of_ones_own_folders() {
    let machine = Machine::new();
    for class in ["apple", "pear", "plum"] {
        for number in 0..10 {
            machine.png(&format!("fruit/{class}/{number}.png"), 40, number * 9);
        }
    }
    let text = "name = \"garden\"\n\n[[task]]\ndata = \"fruit\"\nclasses = [\"plum\", \"apple\"]\ntrain = 3\n\n\
                [[task]]\ndata = \"generated-digits\"\nclasses = 4\ntrain = 5\nval = 2\ntest = 3\n\
                transform = \"rainbow red\"\n";
    std::fs::write(machine.path("garden.toml"), text).unwrap();
    let stream = json(&machine.lmc("streams show garden.toml --json"));
    assert_eq!(stream["name"], "garden");
    assert_eq!(stream["tasks"][0]["classes"], serde_json::json!(["plum", "apple"]));
    // Ten images a class without splits: 2 for test, 4 for validation, 4 to learn from.
    assert_eq!(
        [&stream["tasks"][0]["train"], &stream["tasks"][0]["val"], &stream["tasks"][0]["test"]],
        [6, 8, 4]
    );
    assert_eq!(stream["tasks"][1]["train"], 20);
    assert_eq!(stream["tasks"][1]["transform"], "rainbow red");

    let kind = json(&machine.lmc("streams show s_minus --from fruit,generated-plates --json"));
    assert_eq!(counts(&kind).iter().map(|(_, train, ..)| *train).collect::<Vec<_>>(), [12, 400, 12]);
}

#[test]
fn the_draws_from_own_data_do_not_depend_on_how_a_path_is_written() {
    let machine = Machine::new();
    // A folder of one's own may be called like a known set; as a path it is one's own.
    for class in ["a", "b", "c"] {
        for number in 0..12 {
            machine.png(&format!("own/mnist/{class}/{number}.png"), 32, number * 20);
        }
    }
    let picture = |from: &str| {
        let outcome = machine.lmc(&format!("streams show s_minus --from {from} --sheet sheet.png"));
        assert_eq!(outcome.code, 0, "{from}: {}", outcome.err);
        std::fs::read(machine.path("sheet.png")).unwrap()
    };
    let first = picture("own/mnist");
    for other in ["./own/mnist", "own/mnist/", "own/../own/mnist"] {
        assert!(first == picture(other), "{other}");
    }
    let tasks = |data: &str| {
        let text = format!("[[task]]\ndata = \"{data}\"\nclasses = 2\n");
        std::fs::write(machine.path("own/my.toml"), text).unwrap();
        json(&machine.lmc("streams show own/my.toml --json"))["tasks"].clone()
    };
    assert_eq!(tasks("mnist")[0]["dataset"], "generated-digits", "a known name is the known set");
    assert_eq!(
        tasks("./mnist")[0]["train"],
        10,
        "twelve a class: 2 for test, 5 for validation, 5 to learn from"
    );
}

#[test]
fn tasks_that_nothing_can_be_learned_from_are_refused() {
    let machine = Machine::new();
    machine.png("one/cat/1.png", 8, 1);
    machine.png("two/cat/1.png", 8, 1);
    machine.png("two/dog/1.png", 8, 1);
    for number in 0..3 {
        machine.png(&format!("three/rose - red/{number}.png"), 8, number);
        machine.png(&format!("three/rose - white/{number}.png"), 8, number);
    }
    let file = |text: &str| std::fs::write(machine.path("my.toml"), text).unwrap();
    let refused = |words: &str, part: &str| {
        let outcome = machine.lmc(words);
        assert_eq!(outcome.code, 2, "{words}: {}", outcome.out);
        assert!(outcome.err.contains(part) && outcome.err.lines().count() == 1, "{words}: {}", outcome.err);
    };
    refused("streams show s_minus --from one", "two classes or more");
    refused("streams show s_minus --from two", "no image for");
    assert_eq!(machine.lmc("streams show s_minus --from three").code, 0);
    file("[[task]]\ndata = \"three\"\nclasses = 3\n");
    refused("streams show my.toml", "my.toml: data set");
    file("[[task]]\ndata = \"three\"\nclasses = [\"rose - red\", \"rose - pink\"]\n");
    refused("streams show my.toml", "no class called 'rose - pink'");
    file("image_size = 64\n[[task]]\ndata = \"three\"\n[[task]]\ndata = \"generated-digits\"\n");
    refused("streams show my.toml", "64 x 64 pixels");
    refused("streams show s_minus --from three --variant generated", "leave one of the two out");
}

#[test]
fn wrong_words_get_one_line_with_the_nearest_name() {
    let machine = Machine::new();
    for (words, parts) in [
        ("streams show s_minsu", ["no stream called 's_minsu'", "did you mean 's_minus'"]),
        (
            "streams show s_minus --from mnits",
            ["no data set, folder or file called 'mnits'", "did you mean 'mnist'"],
        ),
        ("streams show cmnist_ood_train --from mnist,svhn", ["2 given", "1 roles"]),
        ("streams show missing.toml", ["missing.toml", "No such file"]),
        (
            "streams show s_minus --variant generated --sheet no/such/folder.png",
            ["folder.png", "no such folder"],
        ),
        ("--data-dir nowhere streams show s_minus", ["nowhere", "no such data folder"]),
    ] {
        let outcome = machine.lmc(words);
        assert_eq!(outcome.code, 2, "{words}: {}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 1, "{words}: {}", outcome.err);
        assert!(parts.iter().all(|part| outcome.err.contains(part)), "{words}: {}", outcome.err);
    }
}

#[test]
fn an_unknown_key_in_a_stream_file_is_named_with_its_line() {
    let machine = Machine::new();
    std::fs::write(machine.path("my.toml"), "[[task]]\ndata = \"mnist\"\nclases = 3\n").unwrap();
    let outcome = machine.lmc("streams show my.toml");
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("my.toml, line 3") && outcome.err.contains("clases"), "{}", outcome.err);
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn the_real_streams_have_the_papers_counts() {
    let data = real_data();
    let machine = Machine::new();
    let show = |words: &str| json(&machine.lmc(&format!("--data-dir {data} streams show {words} --json")));
    let stream = show("s_minus");
    let expected = [
        ("cifar10", 4000, 2000, 10_000),
        ("mnist", 400, 200, 9786),
        ("dtd", 400, 200, 400),
        ("fashion-mnist", 400, 200, 10_000),
        ("svhn", 400, 200, 10_000),
        ("cifar10", 400, 200, 10_000),
    ];
    assert_eq!(counts(&stream), expected.map(|(name, train, val, test)| (name.to_owned(), train, val, test)));
    if !std::path::Path::new(&data).join("dtd").exists() {
        let text = stream["tasks"][2]["substitution"].as_str().unwrap();
        assert!(text.starts_with("dtd10 stands in for dtd"), "{text}");
    }
    let mini = show("s_minus --variant mini");
    assert_eq!(counts(&mini)[0], ("cifar10".to_owned(), 400, 200, 1000));
    let other = show("s_minus --seed 7");
    assert_eq!(counts(&other)[0], ("cifar10".to_owned(), 4000, 2000, 10_000));
    assert_ne!(other["tasks"][0]["classes"], stream["tasks"][0]["classes"]);
    let long = show("s_long30");
    assert_eq!(counts(&long).len(), 30);
    assert_eq!(counts(&long)[1], ("mnist".to_owned(), 5000, 2500, 4894));
}
