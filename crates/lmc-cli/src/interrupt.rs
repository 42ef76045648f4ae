//! Ctrl-C, or a signal that ends programs: the first one asks to save the state after the training step and to stop, the
//! second stops at once.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::output::say;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that Ctrl-C stopped, as shells have it.
pub const EXIT_CODE: u8 = 130;

/// From now on Ctrl-C asks.
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_CODE));
        }
        say("");
        say("stopping: the state is saved after this step; Ctrl-C again stops at once");
    })
    .context("cannot listen for Ctrl-C")
}

/// Whether somebody asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// The flag that is set when somebody asks to stop.
pub fn flag() -> &'static AtomicBool {
    &ASKED
}

/// The end of standard input asks too: whoever started this program is gone, or wants it to stop.
pub fn listen_to_input() {
    std::thread::spawn(|| {
        let mut ignored = [0; 256];
        while std::io::stdin().read(&mut ignored).is_ok_and(|bytes| bytes > 0) {}
        ASKED.store(true, Ordering::SeqCst);
    });
}
