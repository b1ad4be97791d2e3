#![doc = include_str!("http.md")]

mod answer;
mod client;
mod encoding;
mod fault;
mod passing;
pub(crate) mod post;
mod private;
mod request;
mod target;
mod webhook;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::Message;

pub use webhook::{WebhookSecret, WebhookSecretError};

use self::request::Head;
use self::target::Target;
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
    target: Target,
    head: Head,
    version: Option<Arc<str>>,
    ignored: AtomicU64,
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").field("address", &self.target.shown).finish_non_exhaustive()
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
        let (target, own) = Target::read(address, &options)?;
        Ok(Self {
            target,
            head: Head::new(own, options.secrets),
            version: options.version,
            ignored: AtomicU64::new(0),
        })
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        let began = tokio::time::Instant::now();
        let body = message.body.clone().unwrap_or_default();
        match self.target.post(self.head.build(message, &context), body).await {
            Ok(response) => {
                let now = context.started_at() + began.elapsed();
                answer::read(response, &self.target.shown, now, &self.ignored).await
            }
            Err(failure) => Attempted::failure(failure),
        }
    }

    fn version(&self) -> Option<Arc<str>> {
        self.version.clone()
    }

    fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
