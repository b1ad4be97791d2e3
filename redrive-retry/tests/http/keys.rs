//! What may be repeated, and with which key.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use redrive_retry::Stop;
use redrive_retry::idempotency::IdempotencyKey;

use crate::clients::{ALL, Came, post, quick};
use crate::server::{Fate, OK, Server};

const DOWN: Fate = Fate::Answer(503, &[]);

#[tokio::test]
async fn what_is_not_idempotent_is_not_repeated_without_a_key() {
    for client in ALL {
        for method in ["POST", "PATCH", "BREW"] {
            for fate in [DOWN, Fate::Reset] {
                let server = Server::start([fate, OK]).await;
                let request =
                    Request::builder().method(method).uri(server.url()).body(Full::from("{}")).unwrap();
                let came = client.send(request, quick(), false).await;
                match came {
                    Came::Answer { status: 503, gave_up: Some((1, Stop::NotRepeatable)), .. } => {}
                    Came::Nothing(why) => {
                        assert!(why.contains("it cannot be repeated: it has no idempotency key"), "{why}");
                    }
                    came @ Came::Answer { .. } => panic!("{client:?} {method}: {came:?}"),
                }
                assert_eq!(server.count(), 1, "{client:?} {method}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_idempotent_is_repeated_without_one() {
    for client in ALL {
        for method in ["GET", "OPTIONS", "PUT", "DELETE"] {
            let server = Server::start([Fate::Reset, OK]).await;
            let request = Request::builder().method(method).uri(server.url()).body(Full::default()).unwrap();
            assert_eq!(client.send(request, quick(), true).await, Came::ok(0), "{client:?} {method}");
            let received = server.received();
            assert!(received.len() == 2 && received.iter().all(|request| request.key.is_none()));
        }
    }
}

#[tokio::test]
async fn a_key_is_made_once_and_kept_over_all_attempts() {
    for client in ALL {
        let server = Server::start([DOWN, Fate::Reset, Fate::Close, OK]).await;
        let came = client.send(post(&server.url(), "an order"), quick(), true).await;
        assert_eq!(came, Came::ok(8), "{client:?}");
        let received = server.received();
        assert_eq!(received.len(), 4);
        let key = received[0].key.clone().unwrap();
        assert!(key.parse::<IdempotencyKey>().is_ok());
        assert!(received.iter().all(|request| request.key.as_ref() == Some(&key)));
        assert!(received.iter().all(|request| request.body == b"an order"));
        // The next call has another.
        client.send(post(&server.url(), "an order"), quick(), true).await;
        assert_ne!(server.received()[4].key.as_ref(), Some(&key));
    }
}

#[tokio::test]
async fn a_key_of_the_callers_own_is_kept() {
    for client in ALL {
        let key = IdempotencyKey::derived("order-771", "charge");
        for keys in [false, true] {
            let server = Server::start([DOWN, OK]).await;
            let mut request: Request<Full<Bytes>> = post(&server.url(), "{}");
            request.headers_mut().insert("idempotency-key", key.as_str().parse().unwrap());
            assert_eq!(client.send(request, quick(), keys).await, Came::ok(2), "{client:?}");
            let received = server.received();
            assert_eq!(received.len(), 2);
            assert!(received.iter().all(|request| request.key.as_deref() == Some(key.as_str())));
        }
    }
}

#[tokio::test]
async fn a_header_that_is_no_key_makes_nothing_repeatable() {
    for client in ALL {
        for (text, keys) in [("", false), ("two words", false), ("two words", true)] {
            let server = Server::start([DOWN, OK]).await;
            let mut request: Request<Full<Bytes>> = post(&server.url(), "{}");
            request.headers_mut().insert("idempotency-key", text.parse().unwrap());
            let came = client.send(request, quick(), keys).await;
            let Came::Answer { status: 503, gave_up: Some((1, Stop::NotRepeatable)), .. } = came else {
                panic!("{client:?} {text:?}: {came:?}");
            };
            assert_eq!(server.count(), 1, "{client:?} {text:?}");
        }
        let server = Server::start([DOWN, OK]).await;
        let mut request: Request<Full<Bytes>> = post(&server.url(), "{}");
        request.headers_mut().insert("idempotency-key", "".parse().unwrap());
        assert_eq!(client.send(request, quick(), true).await, Came::ok(2), "{client:?}: it gets one");
        assert!(server.received().iter().all(|request| request.key.as_deref() != Some("")));
    }
}
