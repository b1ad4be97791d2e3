//! Every call that reads or changes the ledger.

mod support;

use axum::http::Request;
use bytes::Bytes;
use redrive_engine::port::{EntryState, Ledger as _, NewMessage, PortError};
use serde_json::{Value, json};
use support::{World, call, get, post, post_as, text};

#[tokio::test]
async fn entries_are_filtered_and_paged() {
    let world = World::new();
    let client = world.client();
    let ids = |answer: Value| -> Vec<String> {
        let entries = answer["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["message"]["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = call(&client, get("/v1/messages")).await.json();
    assert_eq!(ids(all.clone()).len(), 4);
    assert_eq!(all["next"], Value::Null);
    let some = call(&client, get("/v1/messages?state=dead,parked&flow=orders&since=2h")).await.json();
    assert_eq!(ids(some), ["topic/0/7", "m-1"], "the one that failed last first");
    let first = call(&client, get("/v1/messages?limit=3")).await.json();
    let rest = call(&client, get(&format!("/v1/messages?limit=3&after={}", first["next"].as_str().unwrap())));
    assert_eq!(ids(rest.await.json()), ["m-1"]);
}

#[tokio::test]
async fn a_wrong_filter_is_refused_by_name() {
    let world = World::new();
    let client = world.client();
    for (query, status, code) in [
        ("flows=orders", 400, "RD-API-02"),
        ("state=deed", 400, "RD-API-03"),
        ("state=", 400, "RD-API-03"),
        ("class=transient", 400, "RD-API-03"),
        ("since=500", 400, "RD-API-03"),
        ("limit=0", 400, "RD-API-03"),
        ("limit=1001", 400, "RD-API-03"),
        ("limit=ten", 400, "RD-API-03"),
        ("flow=a&flow=b", 400, "RD-API-03"),
        ("flow=%ff", 400, "RD-API-01"),
        ("after=nowhere", 422, "RD-API-15"),
    ] {
        let answer = call(&client, get(&format!("/v1/messages?{query}"))).await;
        assert_eq!(answer.problem(), (status, code.into()), "{query}");
    }
}

#[tokio::test]
async fn an_entry_is_found_by_either_id_with_its_history() {
    let world = World::new();
    let client = world.client();
    let shown = call(&client, get("/v1/messages/topic%2F0%2F7")).await.json();
    assert_eq!(shown["state"], "parked");
    assert_eq!(shown["history"][0]["what"], "attempt");
    let same = call(&client, get(&format!("/v1/messages/{}", shown["id"].as_str().unwrap()))).await.json();
    assert_eq!(same, shown);
    assert_eq!(call(&client, get("/v1/messages/none")).await.problem(), (404, "RD-API-08".into()));
    assert_eq!(call(&client, get("/v1/messages/m-1?full=1")).await.problem(), (400, "RD-API-02".into()));
}

#[tokio::test]
async fn a_payload_is_handed_out_and_never_shown() {
    let world = World::new();
    let client = world.client();
    assert_eq!(call(&client, get("/v1/messages/m-4/payload")).await.problem(), (404, "RD-API-08".into()));
    let html = "<script>alert(1)</script>";
    let of = |message: NewMessage, kind: &str| NewMessage { content_type: Some(kind.into()), ..message };
    world.store.leave("orders", of(text("page", html), "text/html"), EntryState::Dead);
    let none = NewMessage { body: None, ..text("gone", "") };
    world.store.leave("orders", of(none, "a\r\nset-cookie: b"), EntryState::Parked);
    let page = call(&client, get("/v1/messages/page/payload")).await;
    assert_eq!(page.text(), html);
    assert_eq!(page.header("content-type"), Some("text/html"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(page.header("content-disposition").unwrap().starts_with("attachment"));
    assert!(page.header("content-security-policy").unwrap().contains("sandbox"));
    assert_eq!(page.header("redrive-tombstone"), None);
    let tombstone = call(&client, get("/v1/messages/gone/payload")).await;
    assert_eq!(tombstone.header("redrive-tombstone"), Some("true"));
    assert_eq!(tombstone.header("content-type"), Some("application/octet-stream"));
    assert_eq!(tombstone.header("set-cookie"), None);
}

#[tokio::test]
async fn every_deed_is_done_and_written_down() {
    let world = World::new();
    let client = world.client();
    let deeds = ["retry-now", "cancel", "discard", "restore", "retry-now", "park", "archive", "restore"];
    for deed in deeds {
        let request = post(&format!("/v1/messages/m-1/{deed}"), r#"{"reason":"test","by":"ada"}"#);
        let answer = call(&client, request).await;
        assert_eq!(answer.json(), json!({ "done": 1, "refused": [], "missing": [] }), "{deed}");
    }
    let reroute = post("/v1/messages/m-1/reroute", r#"{"reason":"test","by":"ada","target":"queue:other"}"#);
    assert_eq!(call(&client, reroute).await.status(), 200);
    let audit = call(&client, get("/v1/audit")).await.json();
    let what: Vec<_> =
        audit["lines"].as_array().unwrap().iter().rev().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(what[..8], deeds);
    assert_eq!((what[8], &audit["lines"][0]["subject"]), ("reroute", &json!("m-1")));
    assert_eq!(world.store.queued("other")[0].id.as_deref(), Some("m-1"));
    assert_eq!(audit["next"], Value::Null);
}

#[tokio::test]
async fn a_deed_that_cannot_be_done_says_why() {
    let world = World::new();
    let client = world.client();
    for (path, body, status, code) in [
        ("m-1/discard", "{}", 400, "RD-API-04"),
        ("m-1/discard", r#"{"reason":"  "}"#, 400, "RD-API-04"),
        ("m-1/discard", r#"{"reason":1}"#, 400, "RD-API-03"),
        ("m-1/discard", r#"{"reason":"x","target":"y"}"#, 400, "RD-API-02"),
        ("m-1/discard", r#"{"reason":"x","force":true}"#, 400, "RD-API-02"),
        ("m-1/discard", r#"{"reason":"x""#, 400, "RD-API-01"),
        ("m-1/discard", "\u{feff}{}", 400, "RD-API-01"),
        ("m-1/reroute", r#"{"reason":"x"}"#, 400, "RD-API-04"),
        ("m-1/destroy", r#"{"reason":"x"}"#, 404, "RD-API-07"),
        ("none/discard", r#"{"reason":"x"}"#, 404, "RD-API-08"),
        ("m-4/discard", r#"{"reason":"x"}"#, 409, "RD-API-11"),
    ] {
        let answer = call(&client, post(&format!("/v1/messages/{path}"), body)).await;
        assert_eq!(answer.problem(), (status, code.into()), "{path} {body}");
    }
    let form = post_as("/v1/messages/m-1/discard", "application/x-www-form-urlencoded", "reason=x");
    assert_eq!(call(&client, form).await.problem(), (415, "RD-API-14".into()));
    let method = Request::delete("/v1/messages/m-1").body(Bytes::new()).unwrap();
    assert_eq!(call(&client, method).await.problem(), (405, "RD-API-09".into()));
    assert_eq!(world.state("m-1").await, EntryState::Dead);
}

#[tokio::test]
async fn many_are_dealt_with_at_once() {
    let world = World::new();
    let client = world.client();
    let act = |body: Value| call(&client, post("/v1/messages/act", body.to_string()));
    let report = act(json!({ "deed": "park", "ids": ["m-1", "m-4", "none"], "reason": "x" })).await.json();
    let refused = json!([{ "id": "m-4", "why": "an entry that is recovered does not take `park`" }]);
    assert_eq!(report, json!({ "done": 1, "refused": refused, "missing": ["none"] }));
    let by_filter =
        act(json!({ "deed": "discard", "filter": { "state": ["parked", "waiting"] }, "reason": "x" }));
    assert_eq!(by_filter.await.json()["done"], 3);
    for (body, status, code) in [
        (json!({ "deed": "park", "filter": {}, "reason": "x" }), 422, "RD-API-15"),
        (json!({ "deed": "park", "filter": { "flow": null }, "reason": "x" }), 422, "RD-API-15"),
        (json!({ "deed": "park", "filter": { "flow": "a" }, "ids": ["a"], "reason": "x" }), 422, "RD-API-15"),
        (json!({ "deed": "park", "reason": "x" }), 400, "RD-API-04"),
        (json!({ "deed": "park", "ids": [], "reason": "x" }), 400, "RD-API-04"),
        (json!({ "deed": "park", "ids": ["a"] }), 400, "RD-API-04"),
        (json!({ "ids": ["a"], "reason": "x" }), 400, "RD-API-04"),
        (json!({ "deed": "shred", "ids": ["a"], "reason": "x" }), 400, "RD-API-03"),
        (json!({ "deed": "park", "filter": { "states": "dead" }, "reason": "x" }), 400, "RD-API-02"),
    ] {
        let text = body.to_string();
        assert_eq!(act(body).await.problem(), (status, code.into()), "{text}");
    }
}

#[tokio::test]
async fn an_edited_copy_is_a_new_message() {
    let world = World::new();
    let client = world.client();
    let copy = |path: &str| call(&client, post(path, r#"{"fixed":true}"#));
    let answer = copy("/v1/messages/m-1/copy?reason=typo+fixed&by=ada&key=k").await;
    assert_eq!(answer.status(), 201);
    let made = answer.json()["ids"][0].clone();
    assert_eq!(copy("/v1/messages/m-1/copy").await.problem(), (400, "RD-API-04".into()));
    assert_eq!(copy("/v1/messages/none/copy?reason=x").await.problem(), (404, "RD-API-08".into()));
    let copies = world.store.queued("orders");
    assert_eq!((copies.len(), &json!(copies[0].id)), (1, &made));
    assert_eq!(copies[0].body.as_deref(), Some(&br#"{"fixed":true}"#[..]));
    assert_eq!(copies[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(copies[0].content_type.as_deref(), Some("application/json"));
    assert_eq!(world.audit().await[0].why, "typo fixed");
}

#[tokio::test]
async fn groups_are_listed_and_shown() {
    let world = World::new();
    let client = world.client();
    let groups = call(&client, get("/v1/groups?flow=orders&limit=5")).await.json();
    let id = groups["groups"][0]["id"].as_str().unwrap();
    assert_eq!(
        groups["groups"][0]["counts"],
        json!({ "dead": 1, "parked": 1, "recovered": 1, "waiting": 1 })
    );
    let shown = call(&client, get(&format!("/v1/groups/{id}"))).await.json();
    assert_eq!(shown["groups"][0]["flow"], "orders");
    assert_eq!(shown["entries"].as_array().unwrap().len(), 4);
    assert_eq!(call(&client, get("/v1/groups/none")).await.problem(), (404, "RD-API-08".into()));
    assert_eq!(call(&client, get(&format!("/v1/groups/{id}?flow=other"))).await.problem().0, 404);
}

#[tokio::test]
async fn a_replay_is_planned_begun_watched_and_steered() {
    let world = World::new();
    let client = world.client();
    let dead =
        json!({ "filter": { "state": "dead" }, "rate": "50/s", "max": 10, "reason": "fixed", "by": "ada" });
    let plan = call(&client, post("/v1/replays/plan", dead.to_string())).await.json();
    assert_eq!(plan["count"], 1);
    assert_eq!(world.store.ledger().replays(1).await.unwrap(), []);
    let begun = call(&client, post("/v1/replays", dead.to_string())).await;
    assert_eq!(begun.status(), 201);
    let begun = begun.json();
    assert_eq!((&begun["by"], &begun["rate"]), (&json!("ada"), &json!("50/s")));
    let id = begun["id"].as_str().unwrap();
    assert_eq!(id.as_bytes()[14], b'7', "a UUID of version 7");

    assert_eq!(call(&client, get("/v1/replays")).await.json()["replays"][0]["id"], id);
    assert_eq!(call(&client, get(&format!("/v1/replays/{id}"))).await.json(), begun);
    let items = call(&client, get(&format!("/v1/replays/{id}/items?limit=1"))).await.json();
    assert_eq!((&items["items"][0]["outcome"], &items["next"]), (&json!("pending"), &json!(1)));
    let none = call(&client, get(&format!("/v1/replays/{id}/items?after=1"))).await.json();
    assert_eq!(none, json!({ "items": [], "next": null }));

    for (verb, state) in [("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")] {
        let request = Request::post(format!("/v1/replays/{id}/{verb}")).body(Bytes::new()).unwrap();
        assert_eq!(call(&client, request).await.json()["state"], state);
    }
    let late = call(&client, post(&format!("/v1/replays/{id}/pause"), "{}")).await;
    assert_eq!(late.problem(), (409, "RD-API-11".into()));
    let unknown = call(&client, post(&format!("/v1/replays/{id}/approve"), "{}")).await;
    assert_eq!(unknown.problem(), (404, "RD-API-07".into()));
}

#[tokio::test]
async fn a_replay_that_makes_no_sense_does_not_begin() {
    let world = World::new();
    let client = world.client();
    for (body, status, code) in [
        (json!({ "filter": { "state": "dead" } }), 400, "RD-API-04"),
        (json!({ "filter": {}, "reason": "x" }), 422, "RD-API-15"),
        (json!({ "reason": "x" }), 400, "RD-API-04"),
        (json!({ "ids": ["m-1"], "rate": "fast", "reason": "x" }), 400, "RD-API-03"),
        (json!({ "ids": ["m-1"], "max": 0, "reason": "x" }), 400, "RD-API-03"),
        (json!({ "ids": ["m-1"], "max": -1, "reason": "x" }), 400, "RD-API-03"),
        (json!({ "ids": ["m-1"], "speed": 1, "reason": "x" }), 400, "RD-API-02"),
    ] {
        let answer = call(&client, post("/v1/replays", body.to_string())).await;
        assert_eq!(answer.problem(), (status, code.into()), "{body}");
    }
    let nil = uuid::Uuid::nil();
    for path in ["nonsense".to_owned(), nil.to_string(), format!("{nil}/items")] {
        let answer = call(&client, get(&format!("/v1/replays/{path}"))).await;
        assert_eq!(answer.problem(), (404, "RD-API-08".into()), "{path}");
    }
    let steer = call(&client, post(&format!("/v1/replays/{nil}/pause"), "{}")).await;
    assert_eq!(steer.problem(), (404, "RD-API-08".into()));
    assert_eq!(world.store.ledger().replays(1).await.unwrap(), []);
}

#[tokio::test]
async fn flows_figures_and_the_check_are_shown() {
    let world = World::new();
    let client = world.client();
    let flows = call(&client, get("/v1/flows")).await.json();
    assert_eq!(flows["flows"][0]["state"], "holding");
    assert_eq!(flows["flows"][0]["breaker"], "open");
    assert_eq!(flows["flows"][0]["alarms"][0]["name"], "breaker_open");
    let stats = call(&client, get("/v1/stats")).await.json();
    let states: Vec<_> =
        stats["states"].as_array().unwrap().iter().map(|one| (&one["state"], &one["count"])).collect();
    let one = json!(1);
    let names = ["waiting", "dead", "parked", "recovered"].map(|name| json!(name));
    assert_eq!(states, names.each_ref().map(|name| (name, &one)));
    assert_eq!(stats["queues"][0]["name"], "orders");
    assert_eq!(stats["flows"][0]["name"], "orders");
    let check = call(&client, get("/v1/ledger/check")).await.json();
    assert_eq!(check, json!({ "problems": [] }));
    world.store.lose(world.store.ledger().entry("m-1").await.unwrap().unwrap().id);
    let check = call(&client, get("/v1/ledger/check")).await.json();
    assert_eq!(check["problems"][0]["invariant"], "an open entry has its message");
}

#[tokio::test]
async fn the_audit_is_paged_by_number() {
    let world = World::new();
    let client = world.client();
    for deed in ["park", "discard", "restore", "discard", "restore"] {
        call(&client, post(&format!("/v1/messages/m-1/{deed}"), r#"{"reason":"x"}"#)).await;
    }
    let numbers = |json: &Value| -> Vec<u64> {
        json["lines"].as_array().unwrap().iter().map(|line| line["number"].as_u64().unwrap()).collect()
    };
    let first = call(&client, get("/v1/audit?limit=3")).await.json();
    assert_eq!((numbers(&first), &first["next"]), (vec![5, 4, 3], &json!(3)));
    let rest = call(&client, get("/v1/audit?limit=3&before=3")).await.json();
    assert_eq!((numbers(&rest), &rest["next"]), (vec![2, 1], &Value::Null));
}

#[tokio::test]
async fn a_store_in_trouble_has_its_status() {
    let world = World::new();
    let client = world.client();
    let faults = world.store.faults();
    faults.fail_questions(Some(PortError::Unavailable("the disk is full".into())));
    for path in ["/v1/messages", "/v1/stats", "/readyz", "/metrics"] {
        let answer = call(&client, get(path)).await;
        assert_eq!(answer.problem(), (503, "RD-API-19".into()), "{path}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(call(&client, get("/healthz")).await.status(), 200);
    let open = call(&client, get("/readyz")).await;
    assert!(!open.text().contains("disk"), "anyone may ask: {}", open.text());
    faults.fail_questions(Some(PortError::Broken("the file is damaged".into())));
    assert_eq!(call(&client, get("/v1/messages")).await.problem(), (500, "RD-API-18".into()));
}
