//! What the benchmarks share: how far rounds lie apart, and a report of what was measured.
//!
//! Figures live here and never as an assertion in a test: they depend on the machine. An aim that is missed is
//! marked in the report, and the run still succeeds.

mod arguments;
pub mod numbered;
mod place;
pub mod process;
mod report;
pub mod side;
mod spread;
mod tally;
pub mod timers;

pub use arguments::{Asked, Part};
pub use place::Place;
pub use report::{Aim, Figure, Report, Unit};
pub use spread::Spread;
pub use tally::Tally;

/// What a measurement gives, or why there is none.
pub type Measured<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
