//! What an operation is told about the attempt it makes.

use std::time::Duration;

/// One attempt of a call, as the operation sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// How many there may be.
    pub of: u32,
    /// The time it has: what is left until the deadline, at most the timeout of one attempt. Nothing without either.
    ///
    /// An async operation is dropped when that is over. A blocking one cannot be: it has to hand the time on, as the
    /// timeout of its socket.
    pub time: Option<Duration>,
}

impl Attempt {
    /// Whether this is the first.
    pub const fn is_first(&self) -> bool {
        self.number == 1
    }

    /// Whether none may follow.
    pub const fn is_last(&self) -> bool {
        self.number >= self.of
    }
}
