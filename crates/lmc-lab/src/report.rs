//! Pictures and pages: what came out of runs, for people who would rather look.
//!
//! - [`Records`](crate::Records) are sorted by [`arrangement`]: a row per method, a column per stream, a cell with all seeds;
//! - [`table1`] and [`transfer`] are the paper's tables, [`cost`] and [`asking`] are ours; all are shown by [`grid`];
//! - [`metric`]: the numbers of a run by name, any of which can be asked for;
//! - [`curve`]: lines over the stream; [`matrix`]: accuracy of each task after each; [`selection`]: which modules each task
//!   uses, the paper's figure;
//! - [`page`]: one self-contained HTML page, light and dark, without scripts and without network;
//! - [`document`]: the same content as a page and as Markdown; [`whole`]: the content itself.

pub mod arrangement;
pub mod asking;
pub mod cost;
pub mod curve;
pub mod document;
pub mod grid;
pub mod matrix;
pub mod metric;
pub mod page;
mod picture;
pub mod runs;
#[cfg(test)]
mod samples;
pub mod selection;
mod settings;
mod spread;
pub mod table1;
pub mod transfer;
pub mod whole;

pub use picture::Picture;
#[cfg(test)]
pub(crate) use samples::record as sample_run;
pub use spread::{Compared, Spread, signed};

/// Text inside HTML or SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
