//! Which headers of a message an HTTP handler gets under their own name.
//!
//! A message's headers come from whoever could publish it, and an HTTP server believes much of what stands in a
//! header: who calls, for which host, with which rights, how long the body is. So what is believed is never passed.

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// How many headers of a message are passed.
pub(super) const MAX_COUNT: usize = 64;
/// The longest value that is passed, in bytes. A longer one is left out: cut, it would be another value.
pub(super) const MAX_VALUE: usize = 4 * 1024;
/// How much is passed in all, names included. Servers refuse a head of more than 8 to 16 KB.
pub(super) const MAX_TOTAL: usize = 8 * 1024;
const MAX_NAME: usize = 128;

/// Names that Redrive or the HTTP library sets, or that a server or proxy believes.
const RESERVED: &[&str] = &[
    "authorization",
    "cf-connecting-ip",
    "client-ip",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "cookie2",
    "date",
    "expect",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "max-forwards",
    "origin",
    "range",
    "referer",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "user-agent",
    "via",
    "www-authenticate",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-csrf-token",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-remote-user",
    "x-rewrite-url",
];
const RESERVED_PREFIXES: &[&str] = &[
    "accept",
    "access-control-",
    "ce-",
    "if-",
    "proxy-",
    "redrive-",
    "sec-",
    "webhook-",
    "x-forwarded",
    "x-redrive-",
];

/// Whether a name is kept from messages. CGI and WSGI servers cannot tell `_` from `-`, so neither does this.
pub(super) fn is_reserved(name: &str) -> bool {
    if name.contains('_') {
        return is_reserved(&name.replace('_', "-"));
    }
    RESERVED.binary_search(&name).is_ok() || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// What may still be passed.
#[derive(Debug)]
pub(super) struct Allowance {
    count: usize,
    bytes: usize,
}

impl Allowance {
    pub(super) fn new() -> Self {
        Self { count: MAX_COUNT, bytes: MAX_TOTAL }
    }

    /// Adds a header unless it is there already or does not fit.
    pub(super) fn add(&mut self, headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
        let size = name.as_str().len() + value.len();
        if self.count == 0 || size > self.bytes || value.len() > MAX_VALUE || headers.contains_key(&name) {
            return;
        }
        self.count -= 1;
        self.bytes -= size;
        headers.insert(name, value);
    }

    /// Passes a header of the message under its own name, if that is harmless.
    pub(super) fn pass(&mut self, headers: &mut HeaderMap, name: &str, value: &Bytes) {
        if self.count == 0 || name.len() > MAX_NAME || value.len() > MAX_VALUE || !is_text(value) {
            return;
        }
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { return };
        if is_reserved(name.as_str()) {
            return;
        }
        if let Ok(value) = HeaderValue::from_maybe_shared(value.clone()) {
            self.add(headers, name, value);
        }
    }
}

/// Printable ASCII with blanks: the only text that every server reads the same way.
pub(super) fn is_text(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn what_servers_believe_is_not_passed() {
        for name in [
            "host",
            "Content-Length",
            "authorization",
            "Cookie",
            "transfer-encoding",
            "TE",
            "proxy-authorization",
            "x-forwarded-for",
            "X_Forwarded_For",
            "content_length",
            "redrive-attempt",
            "redrive_attempt",
            "x-redrive-mac",
            "webhook-signature",
            "ce-id",
            "idempotency_key",
            "x-http-method-override",
            "if-match",
        ] {
            assert!(is_reserved(&name.to_lowercase()), "{name}");
        }
        for name in ["x-correlation-id", "x-original-topic", "tenant", "content-encoding", "message-id"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_passes_that_is_no_header(name: String, value: Vec<u8>) {
            let mut headers = HeaderMap::new();
            Allowance::new().pass(&mut headers, &name, &Bytes::from(value.clone()));
            if let Some((name, value)) = headers.iter().next() {
                prop_assert!(!is_reserved(name.as_str()) && is_text(value.as_bytes()));
            }
        }
    }
}
