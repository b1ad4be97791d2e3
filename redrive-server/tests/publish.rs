//! Publishing: one opaque body, or a batch of lines.

mod support;

use axum::http::Request;
use bytes::Bytes;
use redrive_server::Limits;
use serde_json::json;
use support::{World, call, get, post_as};

const NDJSON: &str = "application/x-ndjson";
const ORDERS: &str = "/v1/queues/orders/messages";

#[tokio::test]
async fn an_opaque_body_stays_as_it_is() {
    let world = World::new();
    let listening = world.listen().await;
    let body: Vec<u8> = (0..=255).collect();
    let request = Request::post(format!("{ORDERS}?key=k%2F1&id=order-1&delay=5m"))
        .header("content-type", "application/vnd.own")
        .header("redrive-header-type", "OrderPlaced")
        .header("redrive-header-x", vec_header(b"\xc3\xa4"))
        .header("x-other", "not the message's")
        .body(Bytes::from(body.clone()))
        .unwrap();
    let answer = listening.send(request).await;
    assert_eq!(answer.status(), 201, "{}", answer.text());
    assert_eq!(answer.json(), json!({ "ids": ["order-1"] }));
    let message = &world.store.queued("orders")[0];
    assert_eq!(message.body.as_deref(), Some(&body[..]));
    assert_eq!(message.key.as_deref(), Some(&b"k/1"[..]));
    assert_eq!(message.content_type.as_deref(), Some("application/vnd.own"));
    assert_eq!(message.due.unwrap().to_string(), "2026-07-01T09:05:04Z");
    let mut headers: Vec<_> =
        message.headers.iter().map(|h| (h.name.as_str(), h.value.clone().unwrap())).collect();
    headers.sort();
    assert_eq!(headers, [("type", Bytes::from("OrderPlaced")), ("x", Bytes::from("ä"))]);
}

fn vec_header(bytes: &[u8]) -> axum::http::HeaderValue {
    axum::http::HeaderValue::from_bytes(bytes).unwrap()
}

#[tokio::test]
async fn an_empty_body_is_no_tombstone() {
    let world = World::new();
    let client = world.client();
    let send = |tombstone: bool, body: &'static str| {
        let mut request = Request::post(ORDERS);
        if tombstone {
            request = request.header("redrive-tombstone", "true");
        }
        call(&client, request.body(Bytes::from(body)).unwrap())
    };
    assert_eq!(send(false, "").await.status(), 201);
    assert_eq!(send(true, "").await.status(), 201);
    assert_eq!(send(true, "x").await.problem(), (400, "RD-API-03".into()));
    let queued = world.store.queued("orders");
    assert_eq!(
        queued.iter().map(|message| message.body.clone()).collect::<Vec<_>>(),
        [Some(Bytes::new()), None]
    );
}

#[tokio::test]
async fn lines_are_published_in_their_order() {
    let world = World::new();
    let listening = world.listen().await;
    let lines = "{\"body\":\"a\",\"id\":\"1\"}\n\n{\"body_base64\":\"/w\",\"key\":\"k\"}\n";
    let answer = listening.send(post_as(ORDERS, "application/x-ndjson; charset=utf-8", lines)).await;
    let queued = world.store.queued("orders");
    let ids: Vec<_> = queued.iter().map(|message| message.id.clone().unwrap()).collect();
    assert_eq!(answer.json(), json!({ "ids": ids }));
    assert_eq!((ids[0].as_str(), ids.len()), ("1", 2));
    assert_eq!(queued[1].body.as_deref(), Some(&b"\xff"[..]));
}

#[tokio::test]
async fn one_bad_line_publishes_none() {
    let world = World::new();
    let client = world.client();
    for (bad, code) in [
        ("nonsense", "RD-API-01"),
        ("{}", "RD-API-04"),
        (r#"{"body":"b","bodyy":"c"}"#, "RD-API-02"),
        (r#"{"body":"b","delay":"5"}"#, "RD-API-03"),
    ] {
        let lines = format!("{{\"body\":\"a\"}}\n{bad}\n{{\"body\":\"c\"}}\n");
        let answer = call(&client, post_as(ORDERS, NDJSON, lines)).await;
        assert_eq!(answer.problem(), (400, code.into()), "{}", answer.text());
        assert_eq!(answer.json()["line"], 2);
    }
    let with_key = call(&client, post_as(&format!("{ORDERS}?key=k"), NDJSON, "{\"body\":\"a\"}")).await;
    assert_eq!(with_key.problem(), (400, "RD-API-02".into()));
    assert!(world.store.queued("orders").is_empty());
}

#[tokio::test]
async fn what_was_taken_in_part_is_told_line_by_line() {
    let world = World::new();
    let client = world.client();
    call(&client, post_as(&format!("{ORDERS}?id=2"), "text/plain", "x")).await;
    let lines = "{\"body\":\"a\",\"id\":\"1\"}\n\n{\"body\":\"b\",\"id\":\"2\"}\n";
    let answer = call(&client, post_as(ORDERS, NDJSON, lines)).await;
    assert_eq!(answer.problem(), (422, "RD-API-16".into()));
    let told = answer.json();
    assert_eq!(told["lines"][0], json!({ "line": 1, "id": "1" }));
    assert_eq!((&told["lines"][1]["line"], &told["lines"][1]["code"]), (&json!(3), &json!("RD-API-12")));

    let again = call(&client, post_as(ORDERS, NDJSON, lines)).await;
    assert_eq!(again.problem(), (409, "RD-API-12".into()), "nothing was taken: the refusal itself");
}

#[tokio::test]
async fn refusals_of_the_broker_have_their_status() {
    let world = World::new();
    let client = world.client();
    let publish = |queue: &str, id: &str| {
        call(&client, post_as(&format!("/v1/queues/{queue}/messages?id={id}"), "text/plain", "x"))
    };
    assert_eq!(publish("orders", "1").await.status(), 201);
    assert_eq!(publish("orders", "1").await.problem(), (409, "RD-API-12".into()));
    // One that waits lies in the queue too.
    world.store.limit(2);
    let full = publish("orders", "2").await;
    assert_eq!(full.problem(), (429, "RD-API-17".into()));
    assert_eq!(full.header("retry-after"), Some("1"));
    world.store.faults().fail_publishes(1);
    assert_eq!(publish("other", "3").await.problem(), (503, "RD-API-19".into()));
    assert_eq!(publish("%0a", "3").await.problem(), (400, "RD-API-01".into()));
    assert_eq!(publish("%ff", "3").await.problem(), (400, "RD-API-01".into()));
}

#[tokio::test]
async fn what_is_too_large_is_refused_however_it_comes() {
    let limits = Limits { request: 4000, message: 1000, lines: 2, ..Limits::default() };
    let world = World::with_limits(limits);
    let listening = world.listen().await;
    let client = world.client();
    let big = |bytes: usize| post_as(ORDERS, "text/plain", vec![b'x'; bytes]);
    assert_eq!(listening.send(big(1000)).await.status(), 201);
    for bytes in [1001, 4001, 100_000] {
        assert_eq!(listening.send(big(bytes)).await.problem(), (413, "RD-API-13".into()), "{bytes}");
    }
    let line = format!("{{\"body\":\"{}\"}}\n", "x".repeat(1001));
    assert_eq!(call(&client, post_as(ORDERS, NDJSON, line)).await.problem(), (413, "RD-API-13".into()));
    let three = "{\"body\":\"\"}\n".repeat(3);
    assert_eq!(call(&client, post_as(ORDERS, NDJSON, three)).await.problem(), (413, "RD-API-13".into()));
    let deed = post_as("/v1/messages/act", "application/json", vec![b' '; 2_000_000]);
    assert_eq!(call(&client, deed).await.problem(), (413, "RD-API-13".into()));
    assert_eq!(world.store.queued("orders").len(), 1);
}

#[tokio::test]
async fn queues_are_listed() {
    let world = World::new();
    let answer = call(&world.client(), get("/v1/queues")).await;
    let expected = json!({ "queues": [{ "name": "orders", "ready": 0, "waiting": 1, "limit": null }] });
    assert_eq!(answer.json(), expected);
}
