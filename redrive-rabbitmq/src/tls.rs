//! Encrypted connections, by the same library that the rest of Redrive encrypts with.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{PortError, Refusal};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Tls, streams};

/// Whom the flow trusts, and what it shows of itself.
pub(crate) fn config(tls: &Tls) -> Result<Arc<ClientConfig>, PortError> {
    let wrong = |file: &std::path::Path, why: String| {
        PortError::from(Refusal::Invalid(format!("`{}` cannot be used: {why}", file.display())))
    };
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = &tls.ca_file {
        let before = roots.len();
        for certificate in certificates(file).map_err(|why| wrong(file, why))? {
            roots.add(certificate).map_err(|error| wrong(file, error.to_string()))?;
        }
        if roots.len() == before {
            return Err(wrong(file, "there is no certificate in it".to_owned()));
        }
    }
    let broken = |error: rustls::Error| PortError::from(Refusal::Invalid(format!("no encryption: {error}")));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(broken)?
        .with_root_certificates(roots);
    let config = match (&tls.cert_file, &tls.key_file) {
        (Some(certificate), Some(key_file)) => {
            let own = certificates(certificate).map_err(|why| wrong(certificate, why))?;
            let key =
                PrivateKeyDer::from_pem_file(key_file).map_err(|error| wrong(key_file, error.to_string()))?;
            config.with_client_auth_cert(own, key).map_err(|error| {
                wrong(key_file, format!("{error}; it has to be the key to `{}`", certificate.display()))
            })?
        }
        (None, None) => config.with_no_client_auth(),
        (Some(file), None) | (None, Some(file)) => {
            return Err(wrong(file, "a certificate and its key belong together; name both".to_owned()));
        }
    };
    Ok(Arc::new(config))
}

fn certificates(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    all.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// What a server says that ends an encrypted connection at once. One that does not take the client's certificate tells so
/// when the client has begun to speak, and then its word is lost with the connection, but not on a client that listens.
pub(crate) async fn last_word(
    config: &Arc<ClientConfig>,
    host: &str,
    port: u16,
    within: Duration,
) -> Option<io::Error> {
    let listening = async {
        let mut stream = connect(config, host, port).await?;
        stream.read_u8().await
    };
    tokio::time::timeout(within, listening).await.ok()?.err()
}

/// An encrypted stream to a server.
pub(crate) async fn connect(
    config: &Arc<ClientConfig>,
    host: &str,
    port: u16,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = streams::connect(host, port).await?;
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}
