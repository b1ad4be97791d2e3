//! An encrypted connection, to a server that has none: something in front of it takes the encryption off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{Broker as _, Outcome};
use redrive_rabbitmq::{RabbitBroker, Tls};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::stage::{Stage, later, named, receive, settle, subscription};

/// Takes the encryption off, for a certificate of its own in the name of `localhost`. Answers with its port.
async fn in_front_of(server: String, key: &rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let certificate = CertificateDer::from(key.cert.der().to_vec());
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                let mut encrypted = acceptor.accept(stream).await.ok()?;
                let mut plain = TcpStream::connect(server).await.ok()?;
                tokio::io::copy_bidirectional(&mut encrypted, &mut plain).await.ok()
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_reads_and_settles_over_an_encrypted_connection_with_an_authority_of_its_own() {
    let Some(stage) = Stage::shared("encrypted") else { return };
    let plain = stage.login();
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let port = in_front_of(format!("{}:{}", plain.host, plain.port), &key).await;
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, key.cert.pem()).unwrap();

    let mut flow = stage.flow();
    flow.login.host = "localhost".to_owned();
    flow.login.port = port;
    flow.login.tls = Some(Tls::default());
    let stranger = RabbitBroker::new(flow.clone()).unwrap();
    let refused = stranger.plan(&subscription(&flow)).await.expect_err("nobody vouches for it");
    assert!(refused.to_string().contains("not to be trusted"), "{refused}");
    assert!(refused.to_string().contains("cacertfile"), "{refused}");

    flow.login.tls = Some(Tls { ca_file: Some(authority), ..Tls::default() });
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let first = receive(&mut source, 1).await.remove(0);
    settle(&broker, &first, later(Duration::from_millis(100))).await.unwrap();
    let second = receive(&mut source, 1).await.remove(0);
    settle(&broker, &second, Outcome::DeadLetter).await.unwrap();
    stage.holds(&format!("{}.dlq", stage.name), 1).await;
}

/// Somebody who vouches for certificates.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = of_name(name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: rcgen::Issuer::new(params, key) }
    }

    /// Writes a certificate and its key into a folder; answers with the files.
    fn vouches_for(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = of_name(name).signed_by(&key, &self.issuer).unwrap();
        let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}

fn of_name(name: &str) -> rcgen::CertificateParams {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_the_clients_certificate_takes_the_right_one_alone() {
    let Some(stage) = Stage::shared("certified") else { return };
    if !stage.server.ours_to_order() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, ours.certificate.pem()).unwrap();
    let (certificate, key) = ours.vouches_for(folder.path(), "server");
    let port = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
    let begin = format!(
        "rabbit_networking:ensure_ssl(), rabbit_networking:start_ssl_listener({{\"127.0.0.1\", {port}}}, \
         [{{cacertfile, {authority:?}}}, {{certfile, {certificate:?}}}, {{keyfile, {key:?}}}, \
         {{verify, verify_peer}}, {{fail_if_no_peer_cert, true}}], 1)."
    );
    let said = tokio::task::block_in_place(|| stage.server.tool(&["eval", &begin]));
    assert_eq!(said.trim(), "ok");

    let mut flow = stage.flow();
    flow.login.host = "localhost".to_owned();
    flow.login.port = port;
    let mut refused = async |shown: Option<(PathBuf, PathBuf)>| {
        let (cert_file, key_file) = shown.unzip();
        flow.login.tls = Some(Tls { ca_file: Some(authority.clone()), cert_file, key_file });
        let broker = RabbitBroker::new(flow.clone()).unwrap();
        broker.plan(&subscription(&flow)).await.expect_err("it is let in").to_string()
    };
    let without = refused(None).await;
    assert!(without.contains("does not take the client's certificate"), "{without}");
    assert!(without.contains("certfile") && without.contains(&format!("localhost:{port}")), "{without}");
    let strange = refused(Some(theirs.vouches_for(folder.path(), "stranger"))).await;
    assert!(strange.contains("does not take the client's certificate"), "{strange}");

    let (cert_file, key_file) = ours.vouches_for(folder.path(), "client");
    let tls = Tls { ca_file: Some(authority), cert_file: Some(cert_file), key_file: Some(key_file) };
    let mut mixed = flow.clone();
    mixed.login.tls = Some(Tls { key_file: Some(folder.path().join("stranger.key")), ..tls.clone() });
    let mixed = RabbitBroker::new(mixed).expect_err("another's key").to_string();
    assert!(mixed.contains("stranger.key") && mixed.contains("client.pem"), "{mixed}");

    flow.login.tls = Some(tls);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let first = receive(&mut source, 1).await.remove(0);
    settle(&broker, &first, later(Duration::from_millis(100))).await.unwrap();
    let second = receive(&mut source, 1).await.remove(0);
    settle(&broker, &second, Outcome::DeadLetter).await.unwrap();
    stage.holds(&format!("{}.dlq", stage.name), 1).await;
    let end = format!("rabbit_networking:stop_tcp_listener({{\"127.0.0.1\", {port}}}), ok.");
    tokio::task::block_in_place(|| stage.server.tool(&["eval", &end]));
}

#[test]
fn a_file_that_cannot_be_used_is_named_at_once() {
    let mut flow = redrive_rabbitmq::RabbitFlow::new(
        "orders",
        redrive_rabbitmq::Login::new("localhost", 5671),
        "orders",
    );
    flow.login.tls = Some(Tls { ca_file: Some("nowhere.pem".into()), ..Tls::default() });
    let refused = RabbitBroker::new(flow.clone()).expect_err("a file that is not there");
    assert!(refused.to_string().contains("nowhere.pem"), "{refused}");
    flow.login.tls = Some(Tls { key_file: Some("key.pem".into()), ..Tls::default() });
    let refused = RabbitBroker::new(flow).expect_err("a key alone");
    assert!(refused.to_string().contains("belong together"), "{refused}");
}
