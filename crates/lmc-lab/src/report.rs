//! Reports: tables and figures of the metrics of many runs.
//!
//! - [`run_table`] sorts [`RunRecords`](crate::RunRecords): a row for each method, a column for each stream, all seeds in
//!   a cell;
//! - [`table1`] and [`transfer`] are the paper's tables; [`protocols`] and [`cost`] are ours; [`grid`] shows them all;
//! - [`metric`] has the numbers of a run by name, and [`runs`] the file with all of them;
//! - [`curve`], [`matrix`], [`module_usage`] and [`growth`] are figures;
//! - [`document`] writes the same content as an HTML [`page`] and as Markdown; [`write()`] writes the whole report.

pub mod cost;
pub mod curve;
pub mod document;
mod figure;
pub mod grid;
pub mod growth;
pub mod matrix;
pub mod metric;
pub mod module_usage;
pub mod page;
pub mod protocols;
pub mod run_table;
pub mod runs;
#[cfg(test)]
mod samples;
mod sections;
mod settings;
mod spread;
pub mod table1;
pub mod transfer;
mod writer;

pub use figure::Figure;
#[cfg(test)]
pub(crate) use samples::record as sample_run;
pub use spread::{Compared, Spread, signed};
pub use writer::{ReportFiles, check_folder, shell_quoted, write};

/// Escapes a text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
