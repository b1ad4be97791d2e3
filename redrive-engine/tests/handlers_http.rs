//! What an HTTP endpoint gets.

mod endpoint;

use std::sync::atomic::Ordering;

use bytes::Bytes;
use endpoint::{Endpoint, call, context, message, with_headers};
use hyper::{Method, Version};
use redrive_core::{Headers, Message};
use redrive_engine::handler::Handler;
use redrive_engine::handler::http::{HttpHandler, HttpOptions};

#[tokio::test]
async fn a_message_is_a_post_of_its_bytes_with_what_it_is_about() {
    let endpoint = Endpoint::answering(204, &[]).await;
    let handler = endpoint.handler();
    let mut context = context();
    context.attempt = 3;
    context.will_retry = false;
    context.calls_left = Some(7);
    context.diverted = vec!["o-0".to_owned(), "a b,c".to_owned()];
    context.source = "kafka://localhost:9092/orders".into();
    let mut message = message("{\"id\": 1 }");
    message.id = "orders/3/42".into();
    message.content_type = Some("application/json".into());
    assert!(handler.call(&message, context).await.result.is_ok());

    let received = endpoint.only();
    assert_eq!((received.method.clone(), received.path.as_str()), (Method::POST, "/orders"));
    assert_eq!(received.body, "{\"id\": 1 }");
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-length", "10"),
        ("ce-id", "orders/3/42"),
        ("ce-source", "kafka://localhost:9092/orders"),
        ("ce-type", "redrive.message"),
        ("ce-specversion", "1.0"),
        ("idempotency-key", "orders/3/42"),
        ("redrive-flow", "orders"),
        ("redrive-attempt", "3"),
        ("redrive-will-retry", "false"),
        ("redrive-calls-left", "7"),
        ("redrive-deadline", "2026-07-01T09:00:30Z"),
        ("redrive-diverted", "o-0, a%20b%2Cc"),
    ] {
        assert_eq!(received.header(name), Some(value), "{name}");
    }
    for name in ["redrive-tombstone", "ce-time", "traceparent", "webhook-signature"] {
        assert_eq!(received.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn bodies_arrive_as_they_are() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let handler = endpoint.handler();
    let large: Bytes = (0..10 * 1024 * 1024_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().into();
    let bodies = [None, Some(Bytes::new()), Some(Bytes::from_static(&[0xff, 0, 0xfe])), Some(large)];
    for body in &bodies {
        let sent = Message { body: body.clone(), ..message("") };
        assert!(call(&handler, &sent).await.result.is_ok());
    }
    for (body, received) in bodies.iter().zip(endpoint.received()) {
        assert!(received.body == body.clone().unwrap_or_default());
        assert_eq!(received.header("redrive-tombstone"), body.is_none().then_some("true"));
    }
    assert_eq!(endpoint.connections.load(Ordering::SeqCst), 1, "one connection serves them all");
}

#[tokio::test]
async fn cloudevents_attributes_of_the_message_are_kept() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let sent = with_headers(&[
        ("ce_id", b"o-1"),
        ("ce_source", b"https://shop/orders"),
        ("ce_type", "Größe".as_bytes()),
        ("ce_time", b"2026-06-30T09:00:00Z"),
        ("ce_subject", b"a b\r\nx: y"),
        ("cloudEvents:tenant", b"acme"),
        ("ce_data-x", b"no attribute"),
        ("ce_raw", &[0xff]),
        ("ce_datacontenttype", b"text/plain"),
    ]);
    assert!(call(&endpoint.handler(), &sent).await.result.is_ok());
    let received = endpoint.only();
    for (name, value) in [
        ("ce-id", Some("o-1")),
        ("ce-source", Some("https://shop/orders")),
        ("ce-type", Some("Gr%C3%B6%C3%9Fe")),
        ("ce-time", Some("2026-06-30T09:00:00Z")),
        ("ce-subject", Some("a%20b%0D%0Ax:%20y")),
        ("ce-tenant", Some("acme")),
        ("ce-data-x", None),
        ("ce-raw", None),
        ("x", None),
        ("content-type", Some("text/plain")),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn type_and_time_come_from_the_message_when_it_has_them() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let handler = endpoint.handler();
    let sent = with_headers(&[("type", b"OrderPlaced"), ("x-original-timestamp", b"1782896400000")]);
    assert!(call(&handler, &sent).await.result.is_ok());
    let mut told = context();
    told.message_type = Some("order.placed".into());
    assert!(handler.call(&sent, told).await.result.is_ok());
    let received = endpoint.received();
    assert_eq!(received[0].header("ce-type"), Some("OrderPlaced"));
    assert_eq!(received[0].header("ce-time"), Some("2026-07-01T09:00:00Z"));
    assert_eq!(received[1].header("ce-type"), Some("order.placed"));
}

#[tokio::test]
async fn harmless_headers_pass_and_no_other() {
    const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let endpoint = Endpoint::answering(200, &[]).await;
    let sent = with_headers(&[
        ("x-correlation-id", b"c-1"),
        ("Tenant", b"old"),
        ("tenant", b"acme"),
        ("traceparent", PARENT),
        ("tracestate", b"a=1"),
        ("host", b"evil"),
        ("content-length", b"0"),
        ("Transfer-Encoding", b"chunked"),
        ("authorization", b"Bearer stolen"),
        ("x_forwarded_for", b"127.0.0.1"),
        ("redrive-attempt", b"99"),
        ("redrive_will_retry", b"maybe"),
        ("webhook-signature", b"v1,x"),
        ("injected", b"a\r\nx-evil: 1"),
        ("bad name", b"1"),
        ("x:y\r\nx-evil", b"1"),
        ("umlaut", "ä".as_bytes()),
        ("bytes", &[0xff, 0]),
    ]);
    assert!(call(&endpoint.handler(), &sent).await.result.is_ok());
    let received = endpoint.only();
    assert_eq!(received.body, "{}");
    assert_eq!(received.header("x-correlation-id"), Some("c-1"));
    assert_eq!(received.header("tenant"), Some("acme"));
    assert_eq!(received.header("traceparent").map(str::as_bytes), Some(PARENT));
    assert_eq!(received.header("tracestate"), Some("a=1"));
    assert_eq!(received.header("redrive-attempt"), Some("1"));
    assert_eq!(received.header("host"), Some(&*endpoint.address.to_string()));
    assert_eq!(received.header("content-length"), Some("2"));
    for name in [
        "authorization",
        "x_forwarded_for",
        "redrive_will_retry",
        "webhook-signature",
        "transfer-encoding",
        "injected",
        "x-evil",
        "umlaut",
        "bytes",
    ] {
        assert_eq!(received.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_bounded() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let mut headers = Headers::new();
    for number in 0..10_000 {
        headers.push(format!("h-{number}"), "x".repeat(100));
    }
    headers.push("large", vec![b'x'; 1024 * 1024]);
    headers.push("ce_large", vec![b'x'; 1024 * 1024]);
    headers.push("traceparent", vec![b'0'; 1024 * 1024]);
    let sent = Message { headers, ..message("{}") };
    assert!(call(&endpoint.handler(), &sent).await.result.is_ok());
    let received = endpoint.only();
    let passed = received.headers.keys().filter(|name| name.as_str().starts_with("h-")).count();
    assert_eq!(passed, 64);
    assert_eq!(received.header("h-9999").map(str::len), Some(100));
    for name in ["large", "ce-large", "traceparent"] {
        assert_eq!(received.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn own_headers_and_credentials_are_sent() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let options = HttpOptions { headers: vec![("x-tenant".into(), "own".into())], ..HttpOptions::default() };
    let url = format!("http://me:secret@{}/orders?token=t", endpoint.address);
    let handler = HttpHandler::new(&url, options).unwrap();
    assert!(call(&handler, &with_headers(&[("x-tenant", b"theirs")])).await.result.is_ok());
    let received = endpoint.only();
    assert_eq!(received.path, "/orders?token=t");
    assert_eq!(received.header("authorization"), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(received.header("x-tenant"), Some("own"));
}

#[tokio::test]
async fn messages_are_signed_with_every_secret() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let secrets =
        vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap(), "the one before".parse().unwrap()];
    let options = HttpOptions { secrets, ..HttpOptions::default() };
    let handler = HttpHandler::new(&endpoint.url(), options).unwrap();
    // The vector of the scheme's own libraries: the attempt begins at its second.
    let mut context = context();
    context.deadline = redrive_core::Timestamp::from_millis(1_614_265_330_000) + context.timeout;
    let sent = Message { id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into(), ..message(r#"{"test": 2432232314}"#) };
    assert!(handler.call(&sent, context).await.result.is_ok());
    let received = endpoint.only();
    assert_eq!(received.header("webhook-id"), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
    assert_eq!(received.header("webhook-timestamp"), Some("1614265330"));
    let signatures: Vec<_> = received.header("webhook-signature").unwrap().split(' ').collect();
    assert_eq!(signatures[0], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!((signatures.len(), &signatures[1][..3]), (2, "v1,"));
}

#[tokio::test]
async fn http2_from_the_first_byte_when_asked() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let options = HttpOptions { http2_only: true, ..HttpOptions::default() };
    let handler = HttpHandler::new(&endpoint.url(), options).unwrap();
    let sent = message("{}");
    let (first, second) = tokio::join!(call(&handler, &sent), call(&handler, &sent));
    assert!(first.result.is_ok() && second.result.is_ok());
    assert!(endpoint.received().iter().all(|received| received.version == Version::HTTP_2));
}
