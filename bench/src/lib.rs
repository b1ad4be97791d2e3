//! What the benchmarks share: how far rounds lie apart, and a report of what was measured.
//!
//! Figures live here and never as an assertion in a test: they depend on the machine. An aim that is missed is
//! marked in the report, and the run still succeeds.

mod report;
mod spread;

pub use report::{Aim, Figure, Report, Unit};
pub use spread::Spread;
