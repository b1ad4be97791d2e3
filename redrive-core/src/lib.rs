//! The pure part of Redrive: what a failed message's next step is, and why.
//!
//! This crate has no clock, no socket, no async and no randomness of its own. Time and random numbers are
//! arguments, decisions are values, and everything can be tested without waiting for anything.

mod class;
pub mod duration;
mod envelope;
mod facts;
pub mod headers;
mod message;
mod pointer;
mod random;
mod reason;
mod scan;
mod schedule;
mod redaction;
mod retry_after;
mod text;
mod text_error;
mod time;

pub use class::{Class, Exit, Handling, ParseNameError};
pub use envelope::{Envelope, EnvelopeError, MAX_ENVELOPE, MAX_ENVELOPE_HEADERS, Payload, RejectionEvent};
pub use facts::{FactSource, FactSourceError, FactSources, Facts, MAX_FACT};
pub use message::{Header, HeaderName, Headers, MAX_MESSAGE_ID, Message};
pub use pointer::{Pointer, PointerError};
pub use random::{Random, SplitMix64};
pub use reason::{CATALOGUE, CatalogueEntry, Reason, ReasonError};
pub use schedule::{
    Calendar, Date, Delays, Floor, Holidays, Jitter, Limits, Percent, Schedule, ScheduleBuilder,
    ScheduleError, WaitRange,
};
pub use redaction::Redaction;
pub use retry_after::{MAX_RETRY_AFTER, parse_retry_after};
pub use text::Text;
pub use text_error::TextError;
pub use time::Timestamp;
