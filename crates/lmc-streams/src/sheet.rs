//! Contact sheets.
