#![doc = include_str!("http.md")]

mod answer;
mod client;
mod encoding;
mod fault;
mod passing;
mod private;
mod request;
mod webhook;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use redrive_core::Message;

pub use webhook::{WebhookSecret, WebhookSecretError};

use self::client::Client;
use self::request::Head;
use super::{Attempted, Context, Handler};

/// How an endpoint is called.
///
/// The defaults: 3 s to connect, HTTP/1.1 or what TLS agrees on, public certificate authorities, every address
/// allowed, nothing signed.
#[derive(Clone)]
pub struct HttpOptions {
    /// How long a connection may take to come about: name, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Speaks HTTP/2 from the first byte, also without TLS.
    pub http2_only: bool,
    /// A PEM file of certificate authorities that are trusted beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// Refuses loopback, private, link-local and other addresses that are not on the public Internet.
    pub refuse_private: bool,
    /// Secrets to sign with, the newest first; a receiver needs to know one of them.
    pub secrets: Vec<WebhookSecret>,
    /// Headers for every request, such as the endpoint's credentials. They win over every other.
    pub headers: Vec<(String, String)>,
    /// The handler's version, for the ledger and the headers.
    pub version: Option<Arc<str>>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(3),
            http2_only: false,
            ca_file: None,
            refuse_private: false,
            secrets: Vec::new(),
            headers: Vec::new(),
            version: None,
        }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Credentials are among the headers.
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("http2_only", &self.http2_only)
            .field("ca_file", &self.ca_file)
            .field("refuse_private", &self.refuse_private)
            .field("secrets", &self.secrets)
            .field("headers", &names)
            .field("version", &self.version)
            .finish()
    }
}

/// Why there can be no handler for an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpHandlerError {
    /// The address cannot be read. It is not repeated, since it may hold a password.
    #[error("the address of an HTTP handler is http:// or https://, a host and a path")]
    Address,
    /// The address is a private one, and these are refused.
    #[error("{0} is a private address, and these are refused here")]
    Private(IpAddr),
    /// A header to be sent has a name or a value that cannot stand in one.
    #[error("`{0}` cannot be sent as a header of every request")]
    Header(String),
    /// The certificate authorities cannot be read.
    #[error("the certificate authorities in {} cannot be used: {why}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// An HTTP endpoint as a handler.
pub struct HttpHandler {
    client: Client,
    uri: Uri,
    /// The address as failures show it: without credentials and query.
    shown: String,
    head: Head,
    version: Option<Arc<str>>,
    ignored: AtomicU64,
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").field("address", &self.shown).finish_non_exhaustive()
    }
}

impl HttpHandler {
    /// A handler that posts to an address. Connects to nothing yet.
    ///
    /// ```
    /// use redrive_engine::handler::http::{HttpHandler, HttpOptions};
    ///
    /// let options = HttpOptions { refuse_private: true, ..HttpOptions::default() };
    /// assert!(HttpHandler::new("https://orders.example/events", options.clone()).is_ok());
    /// assert!(HttpHandler::new("http://169.254.169.254/latest", options).is_err());
    /// ```
    pub fn new(address: &str, options: HttpOptions) -> Result<Self, HttpHandlerError> {
        let (uri, credentials) = read_address(address)?;
        let host = uri.host().unwrap_or_default();
        if let Ok(ip) = host.trim_matches(['[', ']']).parse()
            && options.refuse_private
            && private::is_private(ip)
        {
            return Err(HttpHandlerError::Private(ip));
        }
        let mut own: Vec<_> = credentials.map(|value| (AUTHORIZATION, value)).into_iter().collect();
        for (name, value) in &options.headers {
            own.push(read_header(name, value).ok_or_else(|| HttpHandlerError::Header(name.clone()))?);
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let shown = format!("{}://{authority}{}", uri.scheme_str().unwrap_or_default(), uri.path());
        Ok(Self {
            client: client::client(&options)?,
            shown,
            uri,
            head: Head::new(own, options.secrets),
            version: options.version,
            ignored: AtomicU64::new(0),
        })
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn call(&self, message: &Message, context: &Context) -> Attempted {
        let began = tokio::time::Instant::now();
        let mut request = Request::new(Full::new(message.body.clone().unwrap_or_default()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.head.build(message, context);
        match self.client.request(request).await {
            Ok(response) => {
                let now = context.started_at() + began.elapsed();
                answer::read(response, &self.shown, now, &self.ignored).await
            }
            Err(error) => Attempted::failure(fault::failure(&error, &self.shown)),
        }
    }

    fn version(&self) -> Option<Arc<str>> {
        self.version.clone()
    }

    fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
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
        let pair = format!("{}:{}", encoding::decoded(name), encoding::decoded(password));
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
    use super::*;

    #[test]
    fn credentials_leave_the_address() {
        let address = "http://me:p%40ss%3A@host:8080/orders?token=secret";
        let handler = HttpHandler::new(address, HttpOptions::default()).unwrap();
        assert_eq!(handler.uri, "http://host:8080/orders?token=secret");
        assert_eq!(handler.shown, "http://host:8080/orders");
        let (_, credentials) = read_address(address).unwrap();
        assert_eq!(credentials.unwrap(), "Basic bWU6cEBzczo=");
        assert_eq!(format!("{handler:?}"), "HttpHandler { address: \"http://host:8080/orders\", .. }");
    }

    #[test]
    fn refuses_what_is_no_endpoint() {
        let new = |address: &str| HttpHandler::new(address, HttpOptions::default()).map(|_| ());
        for address in
            ["", "/orders", "orders", "ftp://host/", "http://", "http:///x", "http://a b/", "exec:./x"]
        {
            assert_eq!(new(address), Err(HttpHandlerError::Address), "{address}");
        }
        let options = |name: &str, value: &str| HttpOptions {
            headers: vec![(name.into(), value.into())],
            ..HttpOptions::default()
        };
        for (name, value) in [("a b", "x"), ("x", "a\r\nb"), ("Content-Length", "3")] {
            let error = HttpHandler::new("http://host/", options(name, value)).map(|_| ()).unwrap_err();
            assert_eq!(error, HttpHandlerError::Header(name.into()));
        }
        assert!(HttpHandler::new("http://host/", options("authorization", "Bearer x")).is_ok());
    }

    #[test]
    fn private_literals_are_refused_at_once() {
        let options = HttpOptions { refuse_private: true, ..HttpOptions::default() };
        for address in
            ["http://127.0.0.1/", "http://[::1]:80/", "https://[::ffff:10.0.0.1]/", "http://u:p@10.1.1.1/"]
        {
            let error = HttpHandler::new(address, options.clone()).map(|_| ()).unwrap_err();
            assert!(matches!(error, HttpHandlerError::Private(_)), "{address}: {error}");
        }
    }
}
