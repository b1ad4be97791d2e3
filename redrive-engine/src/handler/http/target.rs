//! Where requests go: one address, its client, and what every request to it carries.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use redrive_core::Failure;

use super::client::{self, Client};
use super::encoding::decoded;
use super::{HttpHandlerError, HttpOptions, fault, private};

/// Headers of every request.
pub(super) type Own = Vec<(HeaderName, HeaderValue)>;

/// An address, and the pooled client of its own that requests go through.
pub(super) struct Target {
    client: Client,
    uri: Uri,
    /// The address as failures show it: without credentials and query.
    pub(super) shown: String,
}

impl Target {
    /// Reads an address. Connects to nothing yet.
    pub(super) fn read(address: &str, options: &HttpOptions) -> Result<(Self, Own), HttpHandlerError> {
        let (uri, credentials) = read_address(address)?;
        let host = uri.host().unwrap_or_default();
        if let Ok(ip) = host.trim_matches(['[', ']']).parse()
            && options.refuse_private
            && private::is_private(ip)
        {
            return Err(HttpHandlerError::Private(ip));
        }
        let mut own: Own = credentials.map(|value| (AUTHORIZATION, value)).into_iter().collect();
        for (name, value) in &options.headers {
            own.push(read_header(name, value).ok_or_else(|| HttpHandlerError::Header(name.clone()))?);
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let shown = format!("{}://{authority}{}", uri.scheme_str().unwrap_or_default(), uri.path());
        Ok((Self { client: client::client(options)?, uri, shown }, own))
    }

    /// Posts a body; a failure when there is no answer.
    pub(super) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        self.client.request(request).await.map_err(|error| fault::failure(&error, &self.shown))
    }
}

/// The address to post to, and the credentials that stood in it as the header they are sent in.
fn read_address(address: &str) -> Result<(Uri, Option<HeaderValue>), HttpHandlerError> {
    let uri: Uri = address.parse().map_err(|_| HttpHandlerError::Address)?;
    let mut parts = uri.into_parts();
    if !matches!(parts.scheme.as_ref().map(hyper::http::uri::Scheme::as_str), Some("http" | "https")) {
        return Err(HttpHandlerError::Address);
    }
    let authority = parts.authority.take().ok_or(HttpHandlerError::Address)?;
    let (user, host) = match authority.as_str().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.as_str()),
    };
    let credentials = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let pair = format!("{}:{}", decoded(name), decoded(password));
        format!("Basic {}", STANDARD.encode(pair))
    });
    let credentials = credentials.map(|text| {
        let mut value = HeaderValue::try_from(text).map_err(|_| HttpHandlerError::Address)?;
        value.set_sensitive(true);
        Ok(value)
    });
    let credentials = credentials.transpose()?;
    parts.authority = Some(host.parse().map_err(|_| HttpHandlerError::Address)?);
    let uri = Uri::from_parts(parts).map_err(|_| HttpHandlerError::Address)?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(HttpHandlerError::Address);
    }
    Ok((uri, credentials))
}

/// A header of every request; nothing when it cannot be sent, or when the HTTP library has to set it.
fn read_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    const FRAMING: [&str; 7] =
        ["connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"];
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    if FRAMING.contains(&name.as_str()) {
        return None;
    }
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::super::HttpHandler;
    use super::*;

    #[test]
    fn credentials_leave_the_address() {
        let address = "http://me:p%40ss%3A@host:8080/orders?token=secret";
        let (target, own) = Target::read(address, &HttpOptions::default()).unwrap();
        assert_eq!(target.uri, "http://host:8080/orders?token=secret");
        assert_eq!(target.shown, "http://host:8080/orders");
        assert_eq!(own, [(AUTHORIZATION, HeaderValue::from_static("Basic bWU6cEBzczo="))]);
        let handler = HttpHandler::new(address, HttpOptions::default()).unwrap();
        assert_eq!(format!("{handler:?}"), "HttpHandler { address: \"http://host:8080/orders\", .. }");
    }
}
