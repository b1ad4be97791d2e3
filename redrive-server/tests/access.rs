//! Who comes in over TCP, and who over the socket.

mod support;

use axum::http::Request;
use bytes::Bytes;
use support::{World, call, get, over_tcp, post};

#[tokio::test]
async fn a_call_over_tcp_needs_the_token() {
    let world = World::new();
    let listening = world.listen().await;
    let host = listening.address().to_string();
    let ask = |token: Option<&'static str>| {
        let mut request = Request::get("/v1/queues").header("host", &host);
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        over_tcp(listening.address(), request.body(Bytes::new()).unwrap())
    };
    let none = ask(None).await;
    assert_eq!(none.problem(), (401, "RD-API-05".into()));
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    for wrong in [
        "Bearer",
        "Bearer ",
        "Bearer a-secret-of-the-test",
        "Bearer a-secret-of-the-testX",
        "Basic a-secret-of-the-tests",
        "a-secret-of-the-tests",
        "Bearer a-secret-of-the-tests x",
    ] {
        assert_eq!(ask(Some(wrong)).await.problem(), (401, "RD-API-05".into()), "{wrong}");
    }
    assert_eq!(ask(Some("Bearer a-secret-of-the-tests")).await.status(), 200);
    assert_eq!(ask(Some("bearer a-secret-of-the-tests")).await.status(), 200);
}

#[tokio::test]
async fn what_is_not_there_is_not_told_without_a_token() {
    let world = World::new();
    let listening = world.listen().await;
    let request = Request::get("/v1/nothing").header("host", "localhost").body(Bytes::new()).unwrap();
    assert_eq!(over_tcp(listening.address(), request).await.problem().0, 401);
    assert_eq!(listening.send(get("/v1/nothing")).await.problem(), (404, "RD-API-07".into()));
}

#[tokio::test]
async fn health_is_open_to_anyone_and_figures_on_loopback() {
    let world = World::new();
    let listening = world.listen().await;
    for path in ["/healthz", "/readyz"] {
        let request = Request::get(path).header("host", "any.example").body(Bytes::new()).unwrap();
        assert_eq!(over_tcp(listening.address(), request).await.status(), 200, "{path}");
    }
    let metrics = |host: &str| {
        let request = Request::get("/metrics").header("host", host).body(Bytes::new()).unwrap();
        over_tcp(listening.address(), request)
    };
    let open = metrics("localhost").await;
    assert_eq!(open.status(), 200);
    assert!(open.text().contains("redrive_dead{flow=\"orders\"} 1\n"), "{}", open.text());
    assert!(open.text().contains("redrive_alarm{flow=\"orders\",name=\"breaker_open\"} 1\n"));
    // A page that points its own name at this machine must not read them.
    assert_eq!(metrics("rebound.example").await.problem().0, 403);
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_even_with_the_token() {
    let world = World::new();
    let listening = world.listen().await;
    let port = listening.address().port();
    for host in ["evil.example", "127.0.0.1.evil.example", "", "user@localhost"] {
        let mut request = get("/v1/queues");
        request.headers_mut().insert("host", host.parse().unwrap());
        assert_eq!(listening.send(request).await.problem(), (403, "RD-API-06".into()), "{host}");
    }
    for (origin, status) in [
        (format!("http://127.0.0.1:{port}"), 201),
        ("http://127.0.0.1:3000".to_owned(), 403),
        ("https://evil.example".to_owned(), 403),
        ("null".to_owned(), 403),
    ] {
        let mut request = post("/v1/queues/orders/messages", "{}");
        request.headers_mut().insert("origin", origin.parse().unwrap());
        assert_eq!(listening.send(request).await.status(), status, "{origin}");
    }
    let preflight = Request::options("/v1/queues").header("origin", "https://evil.example");
    let answer = listening.send(preflight.body(Bytes::new()).unwrap()).await;
    assert_eq!(answer.problem().0, 403);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(world.store.queued("orders").len(), 1);
}

#[tokio::test]
async fn the_host_of_an_absolute_address_counts_too() {
    let world = World::new();
    let listening = world.listen().await;
    let request = |uri: &str| Request::get(uri).body(Bytes::new()).unwrap();
    assert_eq!(listening.send(request("http://evil.example/v1/queues")).await.problem().0, 403);
    assert_eq!(listening.send(request("http://localhost/v1/queues")).await.status(), 200);
}

#[tokio::test]
async fn the_socket_and_the_process_itself_need_no_token() {
    let world = World::new();
    let listening = world.listen().await;
    for (client, id) in [(listening.client().await, "m-1"), (world.client(), "m-2")] {
        let request = post(&format!("/v1/messages/{id}/park"), r#"{"reason":"look at it"}"#);
        let answer = call(&client, request).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    let audit = world.audit().await;
    assert_eq!(audit.iter().map(|line| line.who.as_str()).collect::<Vec<_>>(), ["local", "local"]);
}

#[tokio::test]
async fn the_audit_names_the_token_unless_the_request_names_somebody() {
    let world = World::new();
    let listening = world.listen().await;
    listening.send(post("/v1/messages/m-1/park", r#"{"reason":"a"}"#)).await;
    listening.send(post("/v1/messages/m-2/park", r#"{"reason":"b","by":"ada"}"#)).await;
    let refused = listening.send(post("/v1/messages/m-2/discard", r#"{"reason":"c","by":"a\nb"}"#)).await;
    assert_eq!(refused.problem(), (400, "RD-API-03".into()));
    let audit = world.audit().await;
    let lines: Vec<_> = audit.iter().rev().map(|line| (line.who.as_str(), line.why.as_str())).collect();
    assert_eq!(lines, [("deploy", "a"), ("ada", "b")]);
}

#[tokio::test]
async fn a_router_that_knows_nothing_of_its_caller_asks_for_the_token() {
    use tower::ServiceExt as _;
    let world = World::new();
    let request = Request::get("/v1/queues").header("host", "localhost");
    let response = world.router.oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn no_answer_is_kept_or_guessed_at_by_a_browser() {
    let world = World::new();
    let listening = world.listen().await;
    for path in ["/v1/queues", "/v1/nothing", "/healthz"] {
        let answer = listening.send(get(path)).await;
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}
