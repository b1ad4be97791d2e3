//! Why a request has no answer, as far as the error of a client tells.
//!
//! What never left the client for a fault of its own would fail alike another time, and says nothing about the endpoint.
//! Neither does what a guard of this side's own refused. Errors of a client that is not known here are taken for what may
//! pass.

use std::any::Any;
use std::error::Error;

use crate::Cause;
use crate::guard::{BreakerOpen, BulkheadFull, RateSpent};

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Another time it may have one.
    MayPass,
    /// The endpoint sent it elsewhere, and that led nowhere.
    #[cfg(feature = "reqwest")]
    LedAstray,
    /// The request itself is wrong, its body came to no end, or a guard refused: it was not sent, or not to its end.
    NotSent,
}

/// Why a request has no answer, where the client's error tells.
pub(super) fn unanswered<E: 'static>(error: &E) -> Unanswered {
    let error: &dyn Any = error;
    #[cfg(feature = "reqwest")]
    if let Some(error) = known::<reqwest::Error>(error) {
        return by_causes(error);
    }
    #[cfg(feature = "reqwest-middleware")]
    if let Some(error) = known::<reqwest_middleware::Error>(error) {
        return match error {
            reqwest_middleware::Error::Reqwest(error) => by_causes(error),
            reqwest_middleware::Error::Middleware(error) => by_causes(error.as_ref()),
        };
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = known::<hyper_util::client::legacy::Error>(error) {
        return by_causes(error);
    }
    // Layers that hide what is inside of them.
    if let Some(error) = known::<Box<dyn Error + Send + Sync>>(error) {
        return by_causes(error.as_ref());
    }
    Unanswered::MayPass
}

/// An error of this kind, as it is or through a [`TimeoutLayer`](crate::tower::TimeoutLayer).
fn known<T: 'static>(error: &dyn Any) -> Option<&T> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Cause<T>>()?.error())
}

/// Looks through the causes for what tells that the request was not sent, or where it was sent to.
fn by_causes(error: &(dyn Error + 'static)) -> Unanswered {
    let mut links = std::iter::successors(Some(error), |link| (*link).source()).take(redrive_core::MAX_CHAIN);
    links.find_map(said_by).unwrap_or(Unanswered::MayPass)
}

fn said_by(link: &(dyn Error + 'static)) -> Option<Unanswered> {
    if link.is::<BulkheadFull>() || link.is::<RateSpent>() || link.is::<BreakerOpen>() {
        return Some(Unanswered::NotSent);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = link.downcast_ref::<reqwest::Error>() {
        if error.is_builder() {
            return Some(Unanswered::NotSent);
        }
        return error.is_redirect().then_some(Unanswered::LedAstray);
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = link.downcast_ref::<hyper_util::client::legacy::Error>() {
        return is_request_refused(error).then_some(Unanswered::NotSent);
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = link.downcast_ref::<hyper::Error>() {
        return is_body_broken(error).then_some(Unanswered::NotSent);
    }
    None
}

/// Whether the client does not send such a request: a method, a version or an address that it does not know.
#[cfg(feature = "hyper")]
fn is_request_refused(error: &hyper_util::client::legacy::Error) -> bool {
    // Which kind of error it is can be read, and not asked for. The tests hold these texts against the client.
    const CLIENT: &str = "client error (User";
    const CONNECTORS: [&str; 3] = ["invalid URL", "unsupported scheme", "missing scheme"];
    if !error.is_connect() {
        return error.to_string().starts_with(CLIENT);
    }
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    CONNECTORS.iter().any(|text| said.starts_with(text))
}

/// Whether the body of the request failed, or ended before its length.
#[cfg(feature = "hyper")]
fn is_body_broken(error: &hyper::Error) -> bool {
    if error.is_user() {
        // A task that is gone is called the user's fault too. It may have sent the request before.
        return error.to_string() != "dispatch task is gone";
    }
    // Over HTTP/2 it shows as a stream that this side has reset.
    error.source().is_some_and(|cause| cause.to_string().starts_with("stream error sent by user"))
}
