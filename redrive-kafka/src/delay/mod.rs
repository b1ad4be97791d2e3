//! How messages wait in topics.
//!
//! A topic is read in its order, so what waits in it has to come due in about that order. Each level is a topic whose
//! records wait equally long, but for a little slack; a delay of any length is a way through a few of them. A record's
//! due time is absolute and travels with it: every hop plans again, so the lateness of one does not add to the next.

mod ladder;
pub(crate) mod names;
mod plan;
mod window;

pub(crate) use plan::{Delays, Step};
pub(crate) use window::{Waiting, Window};
