//! One call of the handler, with its time and its panics bounded.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use redrive_core::{Failure, Message};

use crate::handler::{Attempted, Context, Handler};

/// Calls the handler once. A call that takes too long is dropped, one that panics is caught: both are failures.
pub(crate) async fn attempt(handler: &dyn Handler, message: &Message, context: &Context) -> Attempted {
    let call = AssertUnwindSafe(handler.call(message, context)).catch_unwind();
    match tokio::time::timeout(context.timeout, call).await {
        Ok(Ok(attempted)) => attempted,
        Ok(Err(panic)) => Attempted::failure(Failure::from_panic(panic_text(&*panic))),
        Err(_) => Attempted::failure(Failure::from_timeout(context.timeout)),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the handler panicked with something that is no text").to_owned()
}
