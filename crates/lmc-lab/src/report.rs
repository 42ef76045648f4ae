//! Pictures and pages: what came out of a run, for people who would rather look.
//!
//! - [`curve`]: accuracy of each task over the stream;
//! - [`selection`]: which modules each task uses, the paper's figure;
//! - [`page`]: one self-contained HTML page, light and dark, without scripts and without network.

pub mod curve;
pub mod page;
pub mod selection;

/// Text inside HTML or SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
