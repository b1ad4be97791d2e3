//! Whatever is sent, the answer is a refusal with a code, never a 500 and never a panic.

mod support;

use axum::http::{Method, Request};
use bytes::Bytes;
use proptest::prelude::*;
use redrive_server::Client;
use support::document::Asked;
use support::{Answer, World};

const PATHS: &[(&str, &str)] = &[
    ("GET", "/v1/messages"),
    ("GET", "/v1/messages/m-1"),
    ("GET", "/v1/messages/m-1/payload"),
    ("GET", "/v1/groups"),
    ("GET", "/v1/groups/g-1"),
    ("GET", "/v1/replays"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/stats"),
    ("GET", "/v1/queues"),
    ("POST", "/v1/messages/act"),
    ("POST", "/v1/messages/m-1/discard"),
    ("POST", "/v1/messages/m-1/reroute"),
    ("POST", "/v1/messages/m-1/copy"),
    ("POST", "/v1/replays"),
    ("POST", "/v1/replays/plan"),
    ("POST", "/v1/replays/00000000-0000-0000-0000-000000000000/pause"),
    ("POST", "/v1/queues/orders/messages"),
];

const KINDS: &[&str] = &["application/json", "application/x-ndjson", "text/plain", ";", "application/json;="];

fn check(client: &Client, request: Request<Bytes>) -> Result<(), TestCaseError> {
    let shown = format!("{} {}", request.method(), request.uri());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = Asked::of(&request);
    let answer = Answer(runtime.block_on(client.call(request)).unwrap());
    asked.check(&answer);
    let status = answer.status().as_u16();
    prop_assert!(status < 500, "{shown}: {status} {}", answer.text());
    if status >= 400 {
        prop_assert!(answer.0.body().len() < 16 * 1024, "{shown}: the answer grows with the request");
        answer.problem();
    }
    Ok(())
}

/// Text that a query can carry: names that are known, signs that mean something, escapes.
fn query() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("flow=".to_owned()),
        Just("state=dead".to_owned()),
        Just("since=".to_owned()),
        Just("until=".to_owned()),
        Just("limit=".to_owned()),
        Just("after=".to_owned()),
        Just("before=".to_owned()),
        Just("delay=".to_owned()),
        Just("id=".to_owned()),
        Just("reason=x".to_owned()),
        Just("&".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u8>().prop_map(|byte| format!("%{byte:02x}")),
        "[ -~&&[^#<>\"`{}|\\\\^ ]]{0,12}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// JSON that is nearly right, and bytes that are not.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("\"dead\"".to_owned()),
        Just("[\"m-1\"]".to_owned()),
        Just("{}".to_owned()),
        Just("{\"state\":\"dead\"}".to_owned()),
        Just("\"park\"".to_owned()),
        Just("1e999".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let name = prop::sample::select(vec![
        "deed",
        "ids",
        "filter",
        "target",
        "reason",
        "by",
        "rate",
        "max",
        "canary",
        "body",
        "body_base64",
        "key",
        "id",
        "headers",
        "delay",
        "other",
    ]);
    let object = prop::collection::vec((name, value), 0..6).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", pairs.join(","))
    });
    prop_oneof![
        prop::collection::vec(object, 1..4).prop_map(|lines| lines.join("\n").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
        (1..3000usize).prop_map(|depth| vec![b'['; depth]),
    ]
}

proptest! {
    #[test]
    fn any_query_is_answered(place in 0..PATHS.len(), query in query()) {
        let (method, path) = PATHS[place];
        let Ok(uri) = format!("{path}?{query}").parse::<axum::http::Uri>() else { return Ok(()) };
        let method: Method = method.parse().unwrap();
        let request = Request::builder().method(method).uri(uri).body(Bytes::new()).unwrap();
        check(&World::new().client(), request)?;
    }

    #[test]
    fn any_body_is_answered(place in 0..PATHS.len(), kind in 0..KINDS.len(), body in body()) {
        let (method, path) = PATHS[place];
        let method: Method = method.parse().unwrap();
        let request = Request::builder().method(method).uri(path).header("content-type", KINDS[kind]);
        check(&World::new().client(), request.body(Bytes::from(body)).unwrap())?;
    }

    #[test]
    fn any_path_is_answered(segments in prop::collection::vec("[!-~&&[^#?<>\"`{}|\\\\^]]{0,20}", 0..6), post: bool) {
        let path = format!("/v1/{}", segments.join("/"));
        let Ok(uri) = path.parse::<axum::http::Uri>() else { return Ok(()) };
        let method = if post { Method::POST } else { Method::GET };
        let request = Request::builder().method(method).uri(uri).body(Bytes::new()).unwrap();
        check(&World::new().client(), request)?;
    }
}

/// Bytes that are no HTTP end the connection, and nothing else.
#[tokio::test]
async fn noise_on_the_line_ends_only_its_own_connection() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::new();
    let listening = world.listen().await;
    for noise in [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET\r\n\r\n", b"\r\n\r\n\0", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let mut stream = tokio::net::TcpStream::connect(listening.address()).await.unwrap();
        stream.write_all(noise).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let fine = answer.is_empty() || answer.starts_with(b"HTTP/1.1 4");
        assert!(fine, "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(listening.send(support::get("/v1/queues")).await.status(), 200);
}
