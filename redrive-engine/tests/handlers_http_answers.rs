//! What an HTTP endpoint's answers mean.

mod endpoint;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use endpoint::{Endless, Endpoint, answer, call, classify, failure, message};
use http_body_util::BodyExt;
use hyper::Response;
use redrive_core::classify::{Fault, IoKind};
use redrive_core::{Class, Reason, Verdict};
use redrive_engine::handler::http::{HttpHandler, HttpOptions};
use redrive_engine::handler::{Charge, Handler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// An endpoint whose status is the last part of the path.
async fn statuses() -> Endpoint {
    Endpoint::start(|received| {
        let status = received.path.rsplit('/').next().unwrap().parse().unwrap();
        answer(status, &[("location", "/elsewhere")], "")
    })
    .await
}

#[tokio::test]
async fn every_status_has_its_class() {
    let endpoint = statuses().await;
    for (status, class, fault) in [
        (408, Class::Transient, None),
        (425, Class::Transient, None),
        (429, Class::Transient, None),
        (500, Class::Transient, None),
        (502, Class::Transient, None),
        (503, Class::Transient, None),
        (504, Class::Transient, None),
        (599, Class::Transient, None),
        (409, Class::Contention, None),
        (423, Class::Contention, None),
        (400, Class::PermanentTechnical, None),
        (413, Class::PermanentTechnical, None),
        (415, Class::PermanentTechnical, None),
        (418, Class::PermanentTechnical, None),
        (422, Class::PermanentTechnical, None),
        (501, Class::PermanentTechnical, None),
        (505, Class::PermanentTechnical, None),
        (301, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (302, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (304, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (307, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (308, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (401, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (403, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (404, Class::PermanentTechnical, Some(Fault::Unproven)),
        (405, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (407, Class::PermanentTechnical, Some(Fault::Endpoint)),
        (410, Class::PermanentTechnical, Some(Fault::Unproven)),
    ] {
        let url = format!("http://{}/{status}", endpoint.address);
        let handler = HttpHandler::new(&url, HttpOptions::default()).unwrap();
        let failure = failure(call(&handler, &message("{}")).await);
        let found = classify(&failure);
        assert_eq!((found.class, found.fault), (class, fault), "{status}");
        assert_eq!(failure.status(), Some(status));
    }
    assert!(
        endpoint.received().iter().all(|received| received.path != "/elsewhere"),
        "a redirect was followed"
    );
    for status in [200, 201, 202, 204, 299] {
        let handler =
            HttpHandler::new(&format!("http://{}/{status}", endpoint.address), HttpOptions::default())
                .unwrap();
        assert!(call(&handler, &message("{}")).await.result.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn a_failure_names_status_and_address_but_no_secret() {
    let endpoint = Endpoint::start(|_| answer(503, &[], "the warehouse is closed")).await;
    let url = format!("http://me:secret@{}/orders?token=secret", endpoint.address);
    let handler = HttpHandler::new(&url, HttpOptions::default()).unwrap();
    let failure = failure(call(&handler, &message("{}")).await);
    let expected = format!("503 Service Unavailable from POST http://{}/orders", endpoint.address);
    assert_eq!((failure.message(), failure.error_type()), (&*expected, Some("http")));
    assert_eq!(failure.body(), Some("the warehouse is closed"));
}

#[tokio::test]
async fn a_verdict_beats_the_status_both_ways() {
    let acked = Endpoint::answering(500, &[("redrive-verdict", "ack")]).await;
    assert!(call(&acked.handler(), &message("{}")).await.result.is_ok());

    let verdicts = [
        ("retry", Verdict::Retry),
        ("retry-after=30s", Verdict::RetryAfter(Duration::from_secs(30))),
        ("park", Verdict::Park),
        ("dead", Verdict::Dead),
        ("discard", Verdict::Discard),
        ("reject", Verdict::Reject),
        ("follow=o-0", Verdict::Follow("o-0".into())),
        ("follow=a%20b", Verdict::Follow("a b".into())),
    ];
    for (text, verdict) in verdicts {
        let endpoint = Endpoint::start(move |_| {
            answer(200, &[("redrive-verdict", text), ("redrive-reason", "NO_STOCK")], "none left")
        })
        .await;
        let failure = failure(call(&endpoint.handler(), &message("{}")).await);
        assert_eq!(failure.verdict(), Some(&verdict));
        assert_eq!(failure.reason().map(Reason::as_str), Some("NO_STOCK"));
        assert_eq!(failure.body(), Some("none left"));
    }
}

#[tokio::test]
async fn what_is_not_understood_is_counted_and_changes_nothing() {
    let endpoint = Endpoint::answering(
        200,
        &[
            ("redrive-verdict", "maybe"),
            ("redrive-reason", "no code"),
            ("redrive-calls-used", "-3"),
            ("redrive-cost", "1.5"),
        ],
    )
    .await;
    let handler = endpoint.handler();
    let attempted = call(&handler, &message("{}")).await;
    assert!(attempted.result.is_ok());
    assert_eq!((attempted.charge, handler.ignored()), (Charge::default(), 4));
}

#[tokio::test]
async fn charges_are_taken_within_bounds() {
    for (calls, cost, charge) in [
        ("3", "2", Charge { calls: 3, cost: 2 }),
        ("0", "0", Charge { calls: 1, cost: 0 }),
        ("99999999999999999999999", "4294967295", Charge { calls: Charge::MAX, cost: Charge::MAX }),
    ] {
        for status in [200, 503] {
            let endpoint = Endpoint::start(move |_| {
                answer(status, &[("redrive-calls-used", calls), ("redrive-cost", cost)], "")
            })
            .await;
            assert_eq!(call(&endpoint.handler(), &message("{}")).await.charge, charge);
        }
    }
}

#[tokio::test]
async fn retry_after_is_read_as_seconds_and_as_a_date() {
    let endpoint = Endpoint::answering(429, &[("retry-after", "120")]).await;
    let found = failure(call(&endpoint.handler(), &message("{}")).await);
    assert_eq!(found.retry_after(), Some(Duration::from_secs(120)));

    let endpoint = Endpoint::answering(503, &[("retry-after", "Wed, 01 Jul 2026 09:10:00 GMT")]).await;
    let found = failure(call(&endpoint.handler(), &message("{}")).await);
    // Counted from the moment of the answer, which is a little later than the attempt's beginning.
    let wait = found.retry_after().unwrap();
    assert!((Duration::from_secs(590)..=Duration::from_secs(600)).contains(&wait), "{wait:?}");

    let endpoint = Endpoint::answering(503, &[("retry-after", "soon")]).await;
    assert_eq!(failure(call(&endpoint.handler(), &message("{}")).await).retry_after(), None);
}

#[tokio::test]
async fn a_body_is_kept_to_its_beginning() {
    let text = Bytes::from(format!("{}é{}", "x".repeat(4_095), "y".repeat(10 * 1024 * 1024)));
    let endpoint = Endpoint::start(move |_| answer(500, &[], text.clone())).await;
    let handler = endpoint.handler();
    let found = failure(call(&handler, &message("{}")).await);
    assert_eq!(found.body(), Some(&*"x".repeat(4_095)), "the cut goes through no character");

    let endpoint = Endpoint::start(|_| answer(500, &[], vec![b'a', 0xff, b'b'])).await;
    assert_eq!(failure(call(&endpoint.handler(), &message("{}")).await).body(), Some("a\u{fffd}b"));
}

#[tokio::test]
async fn a_small_body_keeps_the_connection_and_a_large_one_does_not_stop_the_next() {
    let endpoint = Endpoint::start(|received| {
        let size = if received.body == "large" { 10 * 1024 * 1024 } else { 32 * 1024 };
        answer(200, &[], vec![b'x'; size])
    })
    .await;
    let handler = endpoint.handler();
    for _ in 0..3 {
        assert!(call(&handler, &message("small")).await.result.is_ok());
    }
    assert_eq!(endpoint.connections.load(Ordering::SeqCst), 1);
    for _ in 0..3 {
        assert!(call(&handler, &message("large")).await.result.is_ok());
    }
}

#[tokio::test]
async fn a_body_that_never_ends_does_not_take_the_answer_back() {
    let endpoint = Endpoint::start(|received| {
        let status = if received.body == "good" { 200 } else { 503 };
        let body = Endless(Some(Bytes::from_static(b"it began"))).boxed_unsync();
        Response::builder().status(status).body(body).unwrap()
    })
    .await;
    let handler = endpoint.handler();
    let (good, bad) = (message("good"), message("bad"));
    let (good, bad) = tokio::join!(call(&handler, &good), call(&handler, &bad));
    assert!(good.result.is_ok());
    let found = failure(bad);
    assert_eq!((found.status(), found.body()), (Some(503), Some("it began")));
}

/// A server below HTTP: each connection is handed to `serve`.
async fn raw<F, Fut>(serve: F) -> String
where
    F: Fn(tokio::net::TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address.to_string()
}

fn to(address: &str) -> HttpHandler {
    HttpHandler::new(address, HttpOptions::default()).unwrap()
}

#[tokio::test]
async fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let found = failure(call(&to(&format!("http://{address}/")), &message("{}")).await);
    assert_eq!(found.io(), Some(IoKind::ConnectionRefused));
    assert!(found.message().starts_with(&format!("no connection to http://{address}/: ")), "{found:?}");
    let class = classify(&found);
    assert_eq!((class.class, class.reason), (Class::Transient, Reason::CONNECTION_FAILED));
}

#[tokio::test]
async fn connections_that_break_are_transient() {
    let silent = raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let reset = raw(|stream| async move {
        let _ = stream.set_zero_linger();
    })
    .await;
    let garbage = raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"this is not HTTP\r\n\r\n").await;
    })
    .await;
    let flood = raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
    })
    .await;
    for address in [silent, reset, garbage, flood] {
        let found = failure(call(&to(&format!("http://{address}/")), &message("{}")).await);
        let class = classify(&found);
        assert_eq!((class.class, class.reason), (Class::Transient, Reason::CONNECTION_FAILED), "{found:?}");
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_transient() {
    let found = failure(call(&to("http://no-such-host.invalid/"), &message("{}")).await);
    assert_eq!(found.io(), Some(IoKind::HostUnreachable));
    assert!(found.message().contains("no-such-host.invalid"), "{found:?}");
    assert_eq!(classify(&found).class, Class::Transient);
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_times_out() {
    // TLS with a server that never says a word.
    let address = raw(|mut stream| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let options = HttpOptions { connect_timeout: Duration::from_millis(50), ..HttpOptions::default() };
    let handler = HttpHandler::new(&format!("https://{address}/"), options).unwrap();
    let found = failure(call(&handler, &message("{}")).await);
    assert!(found.timed_out());
    assert_eq!(found.io(), Some(IoKind::TimedOut));
    assert_eq!(classify(&found).reason, Reason::DOWNSTREAM_TIMEOUT);
}

#[tokio::test]
async fn a_name_of_a_private_address_is_refused_where_it_is_resolved() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let options = HttpOptions { refuse_private: true, ..HttpOptions::default() };
    // The system's resolver reads the old ways to write an address, which no check of the text would know.
    for host in ["localhost", "127.1", "2130706433"] {
        let url = format!("http://{host}:{}/", endpoint.address.port());
        let found = failure(call(&HttpHandler::new(&url, options.clone()).unwrap(), &message("{}")).await);
        let class = classify(&found);
        assert_eq!(
            (class.reason, class.fault),
            (Reason::ENDPOINT_MISCONFIGURED, Some(Fault::Endpoint)),
            "{host}"
        );
        assert!(found.message().contains("private addresses are refused"), "{found:?}");
    }
    assert_eq!(endpoint.connections.load(Ordering::SeqCst), 0);
}
