//! A Rust function as a handler.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use redrive_core::{Failure, Message};

use super::{Attempted, Context, Handler};

/// A function from a message to a future of `Result<(), E>`, with any error type.
///
/// The error's whole cause chain is kept and classified.
///
/// ```
/// use redrive_engine::handler::{Context, FunctionHandler, Handler};
/// use redrive_core::Message;
///
/// let handler = FunctionHandler::new(|message: Message, _cx: Context| async move {
///     let _order: u64 = message.json()?;
///     Ok::<(), serde_json::Error>(())
/// });
/// assert_eq!(handler.version(), None);
/// ```
pub struct FunctionHandler<F> {
    function: F,
    version: Option<Arc<str>>,
}

impl<F> FunctionHandler<F> {
    /// The function as a handler.
    pub fn new<Fut, E>(function: F) -> Self
    where
        F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self { function, version: None }
    }

    /// Names the handler's version, for the ledger and the headers.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<Arc<str>>) -> Self {
        self.version = Some(version.into());
        self
    }
}

impl<F> fmt::Debug for FunctionHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionHandler").field("version", &self.version).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F, Fut, E> Handler for FunctionHandler<F>
where
    F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        match (self.function)(message.clone(), context).await {
            Ok(()) => Attempted::success(),
            Err(error) => Attempted::failure(Failure::from_error(error)),
        }
    }

    fn version(&self) -> Option<Arc<str>> {
        self.version.clone()
    }
}

/// Runs a call of a handler and turns a panic in it into a failure.
///
/// The future is not polled again after it panicked, so nothing can see what the panic left half done in it.
///
/// ```
/// use redrive_engine::handler::{Attempted, catch};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let attempted = catch(async { panic!("no such warehouse") }).await;
/// let failure = attempted.result.unwrap_err();
/// assert!(failure.panicked());
/// assert_eq!(failure.message(), "no such warehouse");
/// # });
/// ```
pub async fn catch<F: Future<Output = Attempted>>(call: F) -> Attempted {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => Poll::Ready(Attempted::failure(Failure::from_panic(
            panic_text(payload.as_ref()).unwrap_or("the handler panicked with a value that is no text"),
        ))),
    })
    .await
}

/// What a panic said, when it was text. The failure cuts it to its own bound.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
