//! Generated sets.
