//! Which requests may be repeated, and how.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::replay_body::Replayable;
use crate::idempotency::IdempotencyKey;
use crate::tower::Replay;

/// The header that carries the key of a logical call.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request, of whatever client.
pub trait HttpRequest: Sized {
    /// Its method.
    fn method(&self) -> &Method;
    /// Its headers.
    fn headers(&self) -> &HeaderMap;
    /// Its headers, to be changed.
    fn headers_mut(&mut self) -> &mut HeaderMap;
    /// The same request, its body a clone, which shares the bytes if they can be shared; nothing when the body can be
    /// sent once only.
    fn copy(&self) -> Option<Self>;
    /// Whether its body can be sent again.
    fn has_body_left(&self) -> bool {
        true
    }
}

impl<B: Clone> HttpRequest for http::Request<B> {
    fn method(&self) -> &Method {
        self.method()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }

    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn has_body_left(&self) -> bool {
        self.extensions().get::<Replayable>().is_none_or(Replayable::can_replay)
    }
}

/// Whether a method may be repeated without harm, as HTTP defines it.
pub fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}

/// Sends HTTP requests again: those of idempotent methods, and others that have an [`IDEMPOTENCY_KEY`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpReplay {
    pub(crate) generates_keys: bool,
}

impl HttpReplay {
    /// Gives a request that needs a key and has none one of its own. Once for each logical call: every attempt has
    /// the same.
    pub(crate) fn prepare<Req: HttpRequest>(self, request: &mut Req) {
        // One that is there is the caller's, also if it is no key.
        let is_missing = request.headers().get_all(IDEMPOTENCY_KEY).iter().all(HeaderValue::is_empty);
        if self.generates_keys && is_missing && !is_idempotent(request.method()) {
            // A key is visible ASCII, so it is a value for a header.
            if let Ok(key) = HeaderValue::from_str(IdempotencyKey::new().as_str()) {
                request.headers_mut().insert(IDEMPOTENCY_KEY, key);
            }
        }
    }
}

fn is_safe_to_repeat<Req: HttpRequest>(request: &Req) -> bool {
    is_idempotent(request.method()) || has_key(request.headers())
}

/// Whether there is a key by which the other side can tell a repetition.
fn has_key(headers: &HeaderMap) -> bool {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return false };
    key.to_str().is_ok_and(|key| key.parse::<IdempotencyKey>().is_ok())
}

impl<Req: HttpRequest> Replay<Req> for HttpReplay {
    fn copy(&self, request: &Req) -> Option<Req> {
        request.copy()
    }

    fn is_repeatable(&self, request: &Req) -> bool {
        is_safe_to_repeat(request) && request.has_body_left()
    }
}
