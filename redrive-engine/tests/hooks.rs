//! Who is told of diversions, against a real server, and what becomes of a hook that fails.

mod endpoint;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use endpoint::{Endpoint, NOW, answer, with_headers};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Method;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redrive_core::{Class, Reason, Redaction};
use redrive_engine::handler::http::{HttpHandlerError, HttpOptions};
use redrive_engine::hook::{Diverted, FunctionHook, Hook, Hooks, WebHook, When, shown};
use redrive_engine::port::{EntryId, EntryState};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;

fn diverted(when: When) -> Diverted {
    let message = with_headers(&[("tenant", b"acme"), ("api-key", b"hunter2"), ("x-retry-attempt", b"2")]);
    let redaction = Redaction::new(["header:api-key".parse().unwrap()]).unwrap();
    Diverted {
        when,
        at: NOW,
        flow: "orders".into(),
        entry_id: EntryId::from_u128(7),
        message: shown(&message, Some("OrderPlaced"), &redaction),
        attempt: 3,
        class: Class::Transient,
        reason: Reason::DOWNSTREAM_TIMEOUT,
        decision: "delay".into(),
        because: "delayed retry 2 of 5".to_owned(),
        state: EntryState::Waiting,
        target: None,
        due_at: Some(NOW + Duration::from_secs(60)),
        error: "503 from the stock service".to_owned(),
        http_status: Some(503),
        problem: None,
    }
}

fn hook(endpoint: &Endpoint, options: HttpOptions) -> WebHook {
    WebHook::new(&endpoint.url(), options).unwrap()
}

#[tokio::test]
async fn an_endpoint_gets_what_happened_as_json() {
    let endpoint = Endpoint::answering(204, &[]).await;
    let hook = hook(&endpoint, HttpOptions::default());
    assert_eq!(hook.told(&diverted(When::Before)).await, Ok(()));
    assert_eq!(hook.told(&diverted(When::After)).await, Ok(()));

    let received = endpoint.received();
    let first = &received[0];
    assert_eq!((first.method.clone(), first.path.as_str()), (Method::POST, "/orders"));
    assert_eq!(first.header("content-type"), Some("application/json"));
    let id = "00000000-0000-0000-0000-000000000007.3.before";
    assert_eq!(first.header("idempotency-key"), Some(id));
    assert_eq!(first.header("webhook-signature"), None);
    let told: Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(
        told,
        json!({
            "when": "before",
            "at": "2026-07-01T09:00:00Z",
            "flow": "orders",
            "entry_id": "00000000-0000-0000-0000-000000000007",
            "message": {
                "id": "o-1", "key": null, "type": "OrderPlaced", "content_type": null, "size": 2,
                "headers": { "tenant": "acme", "api-key": "[redacted]" },
            },
            "attempt": 3,
            "class": "TRANSIENT",
            "reason": "DOWNSTREAM_TIMEOUT",
            "decision": "delay",
            "because": "delayed retry 2 of 5",
            "state": "waiting",
            "target": null,
            "due_at": "2026-07-01T09:01:00Z",
            "error": "503 from the stock service",
            "http_status": 503,
            "problem": null,
        })
    );
    assert_eq!(serde_json::from_slice::<Diverted>(&first.body).unwrap(), diverted(When::Before));
    assert_ne!(first.header("idempotency-key"), received[1].header("idempotency-key"));
    assert_eq!(endpoint.connections.load(Ordering::SeqCst), 1, "one connection serves them all");
}

#[tokio::test]
async fn an_endpoint_with_a_secret_can_tell_who_calls() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let options = HttpOptions {
        secrets: vec!["a secret".parse().unwrap()],
        headers: vec![("authorization".into(), "Bearer x".into())],
        ..HttpOptions::default()
    };
    assert_eq!(hook(&endpoint, options).told(&diverted(When::After)).await, Ok(()));
    let received = endpoint.only();
    let (id, timestamp) =
        (received.header("webhook-id").unwrap(), received.header("webhook-timestamp").unwrap());
    assert_eq!((Some(id), timestamp), (received.header("idempotency-key"), "1782896400"));
    let mut mac = Hmac::<Sha256>::new_from_slice(b"a secret").unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(&received.body);
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(received.header("webhook-signature"), Some(signature.as_str()));
    assert_eq!(received.header("authorization"), Some("Bearer x"));
}

#[tokio::test]
async fn anything_but_2xx_is_an_error_that_names_the_place_and_no_secret() {
    for (status, headers) in
        [(500, vec![]), (404, vec![]), (302, vec![("location", "http://127.0.0.1:1/elsewhere")])]
    {
        let endpoint =
            Endpoint::start(move |_| answer(status, &headers, format!("no{}", "o".repeat(9_000)))).await;
        let address = format!("http://me:hunter2@{}/hook?token=hunter2", endpoint.address);
        let hook = WebHook::new(&address, HttpOptions::default()).unwrap();
        let error = hook.told(&diverted(When::Before)).await.unwrap_err();
        let place = format!("from POST http://{}/hook: nooo", endpoint.address);
        assert!(error.starts_with(&status.to_string()) && error.contains(&place), "{error}");
        assert!(!error.contains("hunter2") && error.len() < 400, "{error}");
        assert!(!format!("{hook:?}").contains("hunter2"));
        assert_eq!(endpoint.only().header("authorization"), Some("Basic bWU6aHVudGVyMg=="));
    }
}

#[tokio::test]
async fn no_answer_is_an_error_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let hook = WebHook::new(&address, HttpOptions::default()).unwrap();
    // The system accepts for the listener, which never answers.
    let silent = hook.with_timeout(Duration::from_millis(50)).told(&diverted(When::Before)).await;
    assert_eq!(silent, Err(format!("no answer from POST {address} within 50ms")));
    drop(listener);
    let hook = WebHook::new(&address, HttpOptions::default()).unwrap();
    let away = hook.told(&diverted(When::Before)).await.unwrap_err();
    assert!(away.starts_with(&format!("no connection to {address}")), "{away}");
}

#[tokio::test]
async fn private_addresses_are_refused_as_a_handlers_are() {
    let endpoint = Endpoint::answering(200, &[]).await;
    let options = HttpOptions { refuse_private: true, ..HttpOptions::default() };
    let literal = WebHook::new(&endpoint.url(), options.clone()).map(|_| ());
    assert!(matches!(literal, Err(HttpHandlerError::Private(_))), "{literal:?}");
    let named = format!("http://localhost:{}/", endpoint.address.port());
    let error = WebHook::new(&named, options).unwrap().told(&diverted(When::Before)).await.unwrap_err();
    assert!(error.contains("private addresses are refused"), "{error}");
    assert!(endpoint.received().is_empty());
    assert!(matches!(WebHook::new("exec:./x", HttpOptions::default()), Err(HttpHandlerError::Address)));
}

/// Counts under the name and labels of a figure.
#[derive(Default)]
struct Counts(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Counts {
    fn of(&self, hook: &str) -> u64 {
        let key = format!("redrive_hook_failures_total flow=orders hook={hook}");
        self.0.lock().unwrap().get(&key).map_or(0, |count| count.load(Ordering::SeqCst))
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_counted_and_stops_nothing() {
    let counts = Counts::default();
    let _counting = metrics::set_default_local_recorder(&counts);
    let says_no = FunctionHook::new(|_: Diverted| async { Err("no room in the channel") });
    let panics = FunctionHook::new(|diverted: Diverted| async move {
        assert_eq!(diverted.attempt, 1, "only first attempts");
        Ok::<(), Infallible>(())
    });
    let hooks = Hooks { before: Some(Arc::new(says_no)), after: Some(Arc::new(panics)) };
    assert_eq!(hooks.tell(&diverted(When::Before)).await, Err("no room in the channel".to_owned()));
    assert_eq!((counts.of("before"), counts.of("after")), (1, 0));
    let panicked = hooks.tell(&diverted(When::After)).await.unwrap_err();
    assert!(
        panicked.starts_with("the hook panicked") && panicked.contains("only first attempts"),
        "{panicked}"
    );
    assert_eq!((counts.of("before"), counts.of("after")), (1, 1));
    assert_eq!(hooks.tell(&Diverted { attempt: 1, ..diverted(When::After) }).await, Ok(()));

    let hangs = FunctionHook::new(|_: Diverted| std::future::pending::<Result<(), Infallible>>());
    let hooks = Hooks { before: Some(Arc::new(hangs)), after: None };
    assert_eq!(hooks.tell(&diverted(When::Before)).await, Err("the hook took longer than 10s".to_owned()));
    assert_eq!(hooks.tell(&diverted(When::After)).await, Ok(()), "nobody is there to be told");
    assert_eq!((counts.of("before"), counts.of("after")), (2, 1));
    assert!(Hooks::default().is_empty() && !hooks.is_empty());
}
