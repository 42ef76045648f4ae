//! A machine of its own for each test: an empty home and no data, whatever the real machine has.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

pub struct Machine {
    /// Removed with everything in it when the test ends.
    _root: TempDir,
    home: PathBuf,
}

/// What a command left behind.
#[allow(dead_code)]
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Machine {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        std::fs::create_dir(&home).unwrap();
        Self { _root: root, home }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Runs `lmc` with these words, separated by spaces, in the home of this machine.
    #[allow(dead_code)]
    pub fn lmc(&self, words: &str) -> Outcome {
        self.lmc_with(words, &[])
    }

    #[allow(dead_code)]
    pub fn lmc_with(&self, words: &str, environment: &[(&str, &str)]) -> Outcome {
        let mut command = Command::cargo_bin("lmc").unwrap();
        let home = &self.home;
        command
            .current_dir(home)
            .env_remove("LMC_DATA")
            .env("HOME", home)
            .env("XDG_DATA_HOME", home.join("xdg"));
        command.envs(environment.iter().copied()).args(words.split(' '));
        let Output { status, stdout, stderr } = command.output().unwrap();
        Outcome {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Writes a small PNG of one grey value.
    #[allow(dead_code)]
    pub fn png(&self, name: &str, side: u32, value: u8) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::from_pixel(side, side, image::Luma([value])).save(path).unwrap();
    }
}

/// The folder with real data. Tests that need it are ignored where `LMC_DATA` was not set when they were compiled.
#[allow(dead_code)]
pub fn real_data() -> String {
    let folder = std::env::var("LMC_DATA").unwrap();
    Path::new(&folder).canonicalize().unwrap().display().to_string()
}
