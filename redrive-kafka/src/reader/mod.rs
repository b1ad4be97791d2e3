//! Reading: one member per group, polled in one place by a thread of its own.
//!
//! The thread keeps polling whatever the flow does, so a handler may take longer than `max.poll.interval.ms`. Records are
//! held in a bounded buffer; a partition that holds its share is paused, and read again well before that is used up.

mod book;
mod member;
mod roles;
mod source;
mod stream;
mod thread;
mod watch;

pub(crate) use member::{Member, Ties};
pub(crate) use source::KafkaSource;
#[cfg(test)]
pub(crate) use stream::Allowance;
pub(crate) use thread::{Reader, Reading, Waits};
pub(crate) use watch::Watch;
