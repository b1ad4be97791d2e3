//! HTTP endpoints behind TLS.

mod endpoint;

use std::io::Write;
use std::sync::Arc;

use endpoint::{Endpoint, answer, call, classify, failure, message};
use hyper::Version;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use redrive_core::{Class, Reason};
use redrive_engine::handler::http::{HttpHandler, HttpHandlerError, HttpOptions};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

/// A server with a certificate of its own, and the file by which it can be trusted.
async fn server(protocols: &[&str]) -> (Endpoint, NamedTempFile) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(cert.pem().as_bytes()).unwrap();
    let endpoint =
        Endpoint::start_with(Some(TlsAcceptor::from(Arc::new(config))), |_| answer(200, &[], "")).await;
    (endpoint, file)
}

fn handler(endpoint: &Endpoint, ca_file: Option<&NamedTempFile>) -> HttpHandler {
    let options =
        HttpOptions { ca_file: ca_file.map(|file| file.path().to_owned()), ..HttpOptions::default() };
    HttpHandler::new(&format!("https://localhost:{}/", endpoint.address.port()), options).unwrap()
}

#[tokio::test]
async fn speaks_what_both_sides_know() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (endpoint, file) = server(protocols).await;
        let attempted = call(&handler(&endpoint, Some(&file)), &message("{}")).await;
        assert!(attempted.result.is_ok(), "{attempted:?}");
        let received = endpoint.only();
        assert_eq!((received.version, &received.body[..]), (version, &b"{}"[..]));
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_no_message_s_fault() {
    let (endpoint, _file) = server(&["http/1.1"]).await;
    let found = failure(call(&handler(&endpoint, None), &message("{}")).await);
    let class = classify(&found);
    assert_eq!((class.class, class.reason), (Class::Transient, Reason::CONNECTION_FAILED));
    assert!(found.message().contains("certificate"), "{found:?}");
    assert_eq!(endpoint.received().len(), 0);
}

#[test]
fn a_file_without_certificates_is_refused() {
    for text in ["", "no PEM at all"] {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let options = HttpOptions { ca_file: Some(file.path().to_owned()), ..HttpOptions::default() };
        let error = HttpHandler::new("https://localhost/", options).unwrap_err();
        assert!(matches!(error, HttpHandlerError::CaFile { .. }), "{error}");
    }
    let options = HttpOptions { ca_file: Some("no/such/file".into()), ..HttpOptions::default() };
    assert!(HttpHandler::new("https://localhost/", options).is_err());
}
