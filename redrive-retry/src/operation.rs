//! What is retried.

use crate::Attempt;

/// Something that can be attempted more than once. Every function from an [`Attempt`] to a future of a result is one.
pub trait Operation {
    /// What it gives.
    type Value;
    /// How it fails.
    type Error;
    /// One attempt under way.
    type Future: Future<Output = Result<Self::Value, Self::Error>>;

    /// Begins an attempt.
    fn start(&mut self, attempt: Attempt) -> Self::Future;

    /// Whether it may be attempted again; asked after an attempt that failed.
    fn is_repeatable(&self) -> bool {
        true
    }
}

impl<F, Fut, T, E> Operation for F
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Value = T;
    type Error = E;
    type Future = Fut;

    #[inline]
    fn start(&mut self, attempt: Attempt) -> Fut {
        self(attempt)
    }
}
