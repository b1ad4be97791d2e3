//! What people order flows to do, over HTTP.

mod support;

use redrive_engine::port::{Actor, Ledger as _, Order};
use serde_json::{Value, json};
use support::{Answer, World, call, get, post};

const WHY: &str = "stock count";

async fn order(world: &World, path: &str, body: Value) -> Answer {
    call(&world.client(), post(path, body.to_string())).await
}

#[tokio::test]
async fn a_flow_is_paused_and_resumed_once() {
    let world = World::new();
    let signed = json!({ "reason": WHY, "by": "ada" });
    let paused = order(&world, "/v1/flows/orders/pause", signed.clone()).await;
    assert_eq!(paused.status(), 200);
    let paused = paused.json();
    assert_eq!(
        (&paused["flow"], &paused["running"], &paused["released"]),
        (&json!("orders"), &json!(true), &json!(0))
    );
    assert_eq!(
        paused["controls"],
        json!([{ "flow": "orders", "kind": "pause", "target": "", "by": "ada", "reason": WHY,
                 "at": "2026-07-01T09:00:04Z", "held": 0 }])
    );
    let flow = call(&world.client(), get("/v1/flows")).await.json()["flows"][0].clone();
    assert_eq!((&flow["state"], &flow["holding"]), (&json!("paused"), &json!("breaker open")));
    assert_eq!(flow["controls"], paused["controls"]);

    let again = order(&world, "/v1/flows/orders/pause", signed.clone()).await;
    assert_eq!(again.problem(), (409, "RD-API-11".into()));
    assert_eq!(again.json()["message"], "flow `orders` is paused already");
    let retries = json!({ "retries": true, "reason": WHY });
    let both = order(&world, "/v1/flows/orders/pause", retries.clone()).await.json();
    assert_eq!(both["controls"].as_array().unwrap().len(), 2);
    let left = order(&world, "/v1/flows/orders/resume", signed.clone()).await.json();
    assert_eq!(left["controls"][0]["kind"], "pause-retries");
    assert_eq!(order(&world, "/v1/flows/orders/resume", retries).await.json()["controls"], json!([]));
    assert_eq!(order(&world, "/v1/flows/orders/resume", signed).await.problem().0, 409);

    let lines = call(&world.client(), get("/v1/audit")).await.json();
    let told: Vec<_> = lines["lines"].as_array().unwrap().iter().rev().map(|line| &line["what"]).collect();
    assert_eq!(told, ["pause", "pause --retries", "resume", "resume --retries"]);
    assert_eq!(lines["lines"][0]["who"], "local");
}

#[tokio::test]
async fn messages_are_kept_back_and_let_go() {
    let world = World::new();
    let acme = json!({ "flow": "orders", "target": "tenant=acme", "reason": WHY });
    let kept = order(&world, "/v1/quarantines", acme.clone()).await;
    assert_eq!((kept.status().as_u16(), &kept.json()["controls"][0]["kind"]), (201, &json!("quarantine")));
    assert_eq!(order(&world, "/v1/quarantines", acme.clone()).await.problem(), (409, "RD-API-11".into()));
    let list = |path: &'static str| async { call(&world.client(), get(path)).await.json() };
    let listed = list("/v1/quarantines?flow=orders").await;
    assert_eq!((&listed["total"], &listed["quarantines"][0]["held"]), (&json!(1), &json!(0)));
    assert_eq!(list("/v1/quarantines?flow=mails").await, json!({ "quarantines": [], "total": 0 }));
    let released = order(&world, "/v1/quarantines/release", acme.clone()).await;
    assert_eq!((released.status().as_u16(), &released.json()["released"]), (200, &json!(0)));
    assert_eq!(order(&world, "/v1/quarantines/release", acme).await.problem(), (409, "RD-API-11".into()));
    let line = list("/v1/audit?limit=1").await["lines"][0].clone();
    assert_eq!(
        (&line["what"], &line["subject"], &line["count"]),
        (&json!("quarantine rm"), &json!("orders tenant=acme"), &json!(0))
    );
}

#[tokio::test]
async fn an_order_that_makes_no_sense_is_refused_by_name() {
    let world = World::new();
    for (path, body, status, code) in [
        ("/v1/flows/orders/pause", json!({}), 400, "RD-API-04"),
        ("/v1/flows/orders/pause", json!({ "reason": " " }), 400, "RD-API-04"),
        ("/v1/flows/orders/pause", json!({ "reason": WHY, "retry": true }), 400, "RD-API-02"),
        ("/v1/flows/orders/pause", json!({ "reason": WHY, "retries": "yes" }), 400, "RD-API-03"),
        ("/v1/flows/orders/stop", json!({ "reason": WHY }), 404, "RD-API-07"),
        ("/v1/flows/mails/pause", json!({ "reason": WHY }), 404, "RD-API-08"),
        ("/v1/flows/mails/resume", json!({ "reason": WHY }), 404, "RD-API-08"),
        ("/v1/flows/a%20b/pause", json!({ "reason": WHY }), 404, "RD-API-08"),
        ("/v1/quarantines", json!({ "target": "key=1", "reason": WHY }), 400, "RD-API-04"),
        ("/v1/quarantines", json!({ "flow": "orders", "reason": WHY }), 400, "RD-API-04"),
        ("/v1/quarantines", json!({ "flow": "orders", "target": "key=1" }), 400, "RD-API-04"),
        ("/v1/quarantines", json!({ "flow": "orders", "target": "key", "reason": WHY }), 400, "RD-API-03"),
        ("/v1/quarantines", json!({ "flow": "mails", "target": "key=1", "reason": WHY }), 404, "RD-API-08"),
        ("/v1/quarantines?flow=orders", json!({ "target": "key=1", "reason": WHY }), 400, "RD-API-02"),
    ] {
        let answer = order(&world, path, body.clone()).await;
        assert_eq!(answer.problem(), (status, code.into()), "{path} {body}");
    }
    let unknown = order(&world, "/v1/flows/mails/pause", json!({ "reason": WHY })).await.json();
    assert_eq!(unknown["help"], "this instance runs: orders");
    assert_eq!(call(&world.client(), get("/v1/flows/orders/pause")).await.problem().0, 405);
    assert!(world.audit().await.is_empty());
    assert!(world.store.ledger().controls().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_ordered_of_a_flow_that_is_gone_can_be_ended() {
    let world = World::new();
    let ada = Actor { who: "ada".to_owned(), why: WHY.to_owned() };
    let at = redrive_core::Timestamp::from_millis(1_782_896_400_000);
    world.store.ledger().order("mails", &Order::Pause, &ada, at).await.unwrap();
    let flows = call(&world.client(), get("/v1/flows")).await.json();
    let mails = &flows["flows"][1];
    assert_eq!((&mails["name"], &mails["state"]), (&json!("mails"), &json!("not_running")));
    let more = order(&world, "/v1/flows/mails/pause", json!({ "retries": true, "reason": WHY })).await;
    assert_eq!(more.problem(), (404, "RD-API-08".into()));
    let ended = order(&world, "/v1/flows/mails/resume", json!({ "reason": WHY })).await.json();
    assert_eq!((&ended["running"], &ended["controls"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn a_message_is_skipped_like_any_other_deed() {
    let world = World::new();
    let one = order(&world, "/v1/messages/m-1/skip", json!({ "reason": WHY })).await;
    assert_eq!(one.problem(), (409, "RD-API-11".into()), "it stands in no lane");
    let waiting =
        json!({ "deed": "skip", "filter": { "flow": "orders", "state": "waiting" }, "reason": WHY });
    let report = order(&world, "/v1/messages/act", waiting).await.json();
    assert_eq!((&report["done"], &report["refused"].as_array().map(Vec::len)), (&json!(0), &Some(1)));
    assert_eq!(order(&world, "/v1/messages/none/skip", json!({ "reason": WHY })).await.problem().0, 404);
}

#[tokio::test]
async fn an_alarm_is_told_once_whoever_keeps_the_figures() {
    let samples = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("redrive_alarm")).map(str::to_owned).collect()
    };
    let alone = call(&World::new().client(), get("/metrics")).await;
    assert!(
        samples(alone.text()).contains(&r#"redrive_alarm{flow="orders",name="breaker_open"} 1"#.to_owned())
    );
    let recorder = redrive_server::Recorder::new();
    metrics::with_local_recorder(&recorder, || {
        metrics::gauge!("redrive_alarm", "flow" => "orders", "name" => "breaker_open").set(1.0);
    });
    let world = World::with(|api| api.metrics(recorder.figures()));
    let beside = call(&world.client(), get("/metrics")).await;
    assert_eq!(
        samples(beside.text()).iter().filter(|line| !line.starts_with('#')).count(),
        1,
        "{}",
        beside.text()
    );
    assert_eq!(beside.text().matches("# TYPE redrive_alarm ").count(), 1);
}
