//! The pooled client of one endpoint: TCP, TLS, HTTP/1.1 and HTTP/2.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

use super::private::Resolver;
use super::{HttpHandlerError, HttpOptions};

/// How long an idle connection is kept: less than the 5 s after which common servers close theirs, so that a
/// request seldom meets a connection that is being closed.
const IDLE: Duration = Duration::from_secs(4);
/// How often a busy HTTP/2 connection is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(20);
/// The longest head of an answer over HTTP/1.1.
const MAX_ANSWER_HEAD: usize = 64 * 1024;

pub(super) type Client = Pool<TimedConnector, Full<Bytes>>;

pub(super) fn client(options: &HttpOptions) -> Result<Client, HttpHandlerError> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver::new(options.refuse_private));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(60)));
    let versions = HttpsConnectorBuilder::new().with_tls_config(tls(options)?).https_or_http();
    let https = if options.http2_only {
        versions.enable_http2().wrap_connector(tcp)
    } else {
        versions.enable_http1().enable_http2().wrap_connector(tcp)
    };
    let connector = TimedConnector { connector: https, limit: options.connect_timeout };
    Ok(Pool::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http1_max_buf_size(MAX_ANSWER_HEAD)
        .http2_only(options.http2_only)
        .http2_keep_alive_interval(PING_EVERY)
        .build(connector))
}

fn tls(options: &HttpOptions) -> Result<ClientConfig, HttpHandlerError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = &options.ca_file {
        let refuse = |why: String| HttpHandlerError::CaFile { path: path.clone(), why };
        let before = roots.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))? {
            let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
            roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(refuse("there is no certificate in it".into()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| HttpHandlerError::Tls(error.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// A connector that gives up after its time: name, TCP and TLS together.
#[derive(Clone)]
pub(super) struct TimedConnector {
    connector: HttpsConnector<HttpConnector<Resolver>>,
    limit: Duration,
}

/// No connection in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {}", redrive_core::duration::print(*.0))]
pub(super) struct ConnectTimeout(Duration);

impl fmt::Debug for TimedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedConnector").field("limit", &self.limit).finish_non_exhaustive()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for TimedConnector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let limit = self.limit;
        let connecting = self.connector.call(target);
        Box::pin(
            async move { tokio::time::timeout(limit, connecting).await.map_err(|_| ConnectTimeout(limit))? },
        )
    }
}
