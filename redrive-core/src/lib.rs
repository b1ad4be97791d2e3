//! The pure part of Redrive: what a failed message's next step is, and why.
//!
//! This crate has no clock, no socket, no async and no randomness of its own. Time and random numbers are
//! arguments, decisions are values, and everything can be tested without waiting for anything.

mod class;
mod random;
mod reason;
mod time;

pub use class::{Class, Exit, Handling, ParseNameError};
pub use random::{Random, SplitMix64};
pub use reason::{CATALOGUE, CatalogueEntry, Reason, ReasonError};
pub use time::Timestamp;
