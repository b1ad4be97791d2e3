//! An encrypted connection, to a server that has none: something in front of it takes the encryption off.

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
    assert!(refused.to_string().contains("certificate"), "{refused}");

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
