//! What is told about each attempt while it happens.

use std::time::Duration;

use crate::{Attempt, Cause, Stop};

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, after this wait.
    Retry(Duration),
    /// Nothing, for this reason.
    Stop(Stop),
}

/// Called as attempts begin and end. Each method does nothing unless it is written.
///
/// A hook runs on the way of the call, so it must not block.
///
/// ```
/// use redrive_retry::{Attempt, Cause, Hooks, Next, Retryer};
///
/// #[derive(Debug)]
/// struct Log;
///
/// impl<E: std::fmt::Display> Hooks<E> for Log {
///     fn failed(&self, attempt: &Attempt, cause: &Cause<E>, next: &Next) {
///         eprintln!("attempt {} of {}: {cause}; {next:?}", attempt.number, attempt.of);
///     }
/// }
///
/// let retryer = Retryer::builder().hooks(Log).build()?;
/// # let done: Result<u8, redrive_retry::RetryError<std::io::Error>> = retryer.call_blocking(|_| Ok(1));
/// # Ok::<(), redrive_retry::BuildError>(())
/// ```
pub trait Hooks<E> {
    /// An attempt begins.
    fn starting(&self, _attempt: &Attempt) {}

    /// An attempt failed, and this follows.
    fn failed(&self, _attempt: &Attempt, _cause: &Cause<E>, _next: &Next) {}

    /// An attempt succeeded, so long after the call began.
    fn succeeded(&self, _attempt: &Attempt, _took: Duration) {}
}

/// No hooks: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoHooks;

impl<E> Hooks<E> for NoHooks {}
