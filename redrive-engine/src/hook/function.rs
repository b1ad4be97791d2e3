//! A Rust function as a hook.

use std::fmt;

use async_trait::async_trait;

use super::{Diverted, Hook};

/// A function from a diversion to a future of `Result<(), E>`.
pub struct FunctionHook<F>(F);

impl<F> FunctionHook<F> {
    /// The function as a hook.
    pub const fn new<Fut, E>(function: F) -> Self
    where
        F: Fn(Diverted) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), E>> + Send,
        E: fmt::Display,
    {
        Self(function)
    }
}

impl<F> fmt::Debug for FunctionHook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionHook(..)")
    }
}

#[async_trait]
impl<F, Fut, E> Hook for FunctionHook<F>
where
    F: Fn(Diverted) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), E>> + Send,
    E: fmt::Display,
{
    async fn told(&self, diverted: &Diverted) -> Result<(), String> {
        (self.0)(diverted.clone()).await.map_err(|error| error.to_string())
    }
}
