//! Why a request has no answer, as far as the error of a client tells.
//!
//! What never left the client for a fault of its own would fail alike another time, and says nothing about the endpoint.
//! Errors of a client that is not known here are taken for what may pass.

use std::any::Any;
#[cfg(feature = "hyper")]
use std::error::Error;

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Another time it may have one.
    MayPass,
    /// The endpoint sent it elsewhere, and that led nowhere.
    #[cfg(feature = "reqwest")]
    LedAstray,
    /// The request itself is wrong, or its body came to no end: it was not sent, or not to its end.
    #[cfg(feature = "hyper")]
    NotSent,
}

/// Why a request has no answer, where the client's error tells.
pub(super) fn unanswered<E: 'static>(error: &E) -> Unanswered {
    let error: &dyn Any = error;
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return by_reqwest(error);
    }
    #[cfg(feature = "reqwest-middleware")]
    if let Some(error) = error.downcast_ref::<reqwest_middleware::Error>() {
        return match error {
            reqwest_middleware::Error::Reqwest(error) => by_reqwest(error),
            reqwest_middleware::Error::Middleware(_) => Unanswered::MayPass,
        };
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return by_hyper(error);
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return by_hyper(error.as_ref());
    }
    let _ = error;
    Unanswered::MayPass
}

#[cfg(feature = "reqwest")]
fn by_reqwest(error: &reqwest::Error) -> Unanswered {
    if error.is_builder() {
        Unanswered::NotSent
    } else if error.is_redirect() {
        Unanswered::LedAstray
    } else {
        by_hyper(error)
    }
}

/// Looks through the causes for what the client of `hyper-util` and `hyper` itself blame on the request.
#[cfg(feature = "hyper")]
fn by_hyper(error: &(dyn Error + 'static)) -> Unanswered {
    let mut links = std::iter::successors(Some(error), |link| (*link).source()).take(redrive_core::MAX_CHAIN);
    let is_ours = links.any(|link| {
        if let Some(error) = link.downcast_ref::<hyper_util::client::legacy::Error>() {
            return is_request_refused(error);
        }
        link.downcast_ref::<hyper::Error>().is_some_and(is_body_broken)
    });
    if is_ours { Unanswered::NotSent } else { Unanswered::MayPass }
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
