//! What the benchmarks share: measuring one thing, and a table of what was measured.
//!
//! Figures live here and never as an assertion in a test: they depend on the machine. An aim that is missed is
//! marked in the table, and the run still succeeds.

mod measure;
mod table;

pub use measure::{Measured, measure, measure_awaited};
pub use table::{Aim, Table};
