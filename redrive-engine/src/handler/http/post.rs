//! A note for somebody beside the handler: JSON, on the handler's client, by the handler's rules.

use std::fmt;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use redrive_core::Timestamp;

use super::answer::{MAX_EXCERPT, describe, read_body, text};
use super::encoding::encoded_str;
use super::request::{AGENT, IDEMPOTENCY_KEY, put_signature};
use super::target::{Own, Target};
use super::webhook::WebhookSecret;
use super::{HttpHandlerError, HttpOptions};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// How much of a refusal is repeated.
const LONGEST_EXCERPT: usize = 200;

/// Where notes go.
pub(crate) struct Post {
    target: Target,
    own: Own,
    secrets: Vec<WebhookSecret>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("address", &self.target.shown).finish_non_exhaustive()
    }
}

impl Post {
    pub(crate) fn new(address: &str, options: HttpOptions) -> Result<Self, HttpHandlerError> {
        let (target, own) = Target::read(address, &options)?;
        Ok(Self { target, own, secrets: options.secrets })
    }

    /// The address without credentials and query.
    pub(crate) fn address(&self) -> &str {
        &self.target.shown
    }

    /// Posts a note; anything but 2xx is an error. The id is the same however often the note is sent.
    pub(crate) async fn send(&self, id: &str, at: Timestamp, json: Vec<u8>) -> Result<(), String> {
        let mut headers = HeaderMap::with_capacity(8);
        let id = encoded_str(id);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(USER_AGENT, AGENT);
        put_signature(&mut headers, &self.secrets, &id, at, &json);
        headers.insert(IDEMPOTENCY_KEY, id);
        for (name, value) in &self.own {
            headers.insert(name, value.clone());
        }
        let answered = self.target.post(headers, Bytes::from(json)).await;
        let (head, body) = answered.map_err(|failure| failure.message().to_owned())?.into_parts();
        let refused = !head.status.is_success();
        let said = read_body(body, if refused { MAX_EXCERPT } else { 0 }).await;
        if !refused {
            return Ok(());
        }
        let told = describe(head.status, None, &self.target.shown);
        let said: String = text(said).trim().chars().take(LONGEST_EXCERPT).collect();
        Err(if said.is_empty() { told } else { format!("{told}: {said}") })
    }
}
