//! The pure part of Redrive: what a failed message's next step is, and why.
//!
//! This crate has no clock, no socket, no async and no randomness of its own. Time and random numbers are
//! arguments, decisions are values, and everything can be tested without waiting for anything.

#[macro_use]
mod as_text;
mod class;
pub mod classify;
mod decide;
pub mod dialect;
pub mod duration;
mod envelope;
mod facts;
mod failure;
pub mod fingerprint;
pub mod guard;
pub mod headers;
mod history;
mod message;
mod pointer;
pub mod policy;
mod random;
mod reason;
mod redaction;
mod retry_after;
pub mod route;
mod scan;
mod schedule;
mod text;
mod text_error;
mod time;
mod verdict;

pub use class::{Class, Exit, Handling, ParseNameError};
pub use decide::{
    Action, Because, Decision, End, Ending, Explained, Row, StepTaken, WaitBy, decide, explain,
};
pub use envelope::{Envelope, EnvelopeError, MAX_ENVELOPE, MAX_ENVELOPE_HEADERS, Payload, RejectionEvent};
pub use facts::{FactSource, FactSourceError, FactSources, Facts, MAX_FACT, OrderBy, OrderByError};
pub use failure::{ErrorLink, Failure, MAX_CHAIN, MAX_TEXT};
pub use history::History;
pub use message::{Header, HeaderName, Headers, MAX_MESSAGE_ID, Message};
pub use pointer::{Pointer, PointerError};
pub use policy::{Policy, PolicySpec};
pub use random::{Random, SplitMix64};
pub use reason::{CATALOGUE, CatalogueEntry, Reason, ReasonError};
pub use redaction::Redaction;
pub use retry_after::{Advice, MAX_RETRY_AFTER, parse_retry_after};
pub use schedule::{
    Calendar, Date, Delays, Floor, Holidays, Jitter, Limits, Percent, Schedule, ScheduleBuilder,
    ScheduleError, WaitRange,
};
pub use text::Text;
pub use text_error::{TextError, printable};
pub use time::Timestamp;
pub use verdict::{MAX_VERDICT_LEN, Verdict, VerdictError};
