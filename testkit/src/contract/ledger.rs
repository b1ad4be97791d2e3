//! What the ledger shows.

use redrive_core::Class;
use redrive_engine::port::{EntryState, Filter, Page, Retention};
use serde_json::json;

use super::stage::{FLOW, in_state, with_headers};
use super::{Fixture, Stage};
use crate::handler::Step;

/// An entry answers what failed, when, how often, whose, and why it stands where it stands.
pub async fn an_entry_answers_the_questions(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": format!("{} x2", stage.ticks(2)) }));
    spec.owner = Some("team-orders".into());
    spec.facts.entity = Some("json:/order".parse().expect("a source"));
    let flow = stage.start(spec).await;
    stage.handler.otherwise(Step::status(503));
    let mut message = with_headers(
        "a",
        &[
            ("type", "OrderPlaced"),
            ("tenant", "acme"),
            ("x-correlation-id", "c-1"),
            ("x-causation-id", "e-7"),
        ],
    );
    message.key = Some("customer-9".into());
    message.content_type = Some("application/json".to_owned());
    let size = message.body.as_ref().map_or(0, bytes::Bytes::len) as u64;
    stage.publish_message(message).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.message.id, "a");
    assert_eq!(entry.message.key.as_deref(), Some("customer-9"));
    assert_eq!(entry.message.kind.as_deref(), Some("OrderPlaced"));
    assert_eq!(entry.message.content_type.as_deref(), Some("application/json"));
    assert_eq!(entry.message.size, size);
    assert_eq!(entry.message.headers.get("tenant").map(String::as_str), Some("acme"));
    assert!(!entry.message.headers.contains_key("x-retry-attempt"), "our own headers are not shown");
    assert_eq!(entry.owner.as_deref(), Some("team-orders"));
    assert_eq!(entry.entity.as_deref(), Some("a"));
    assert_eq!(entry.tenant.as_deref(), Some("acme"));
    assert_eq!(entry.correlation_id.as_deref(), Some("c-1"));
    assert_eq!(entry.causation_id.as_deref(), Some("e-7"));
    assert_eq!(entry.handler_version.as_deref(), Some("scripted-1"));
    assert_eq!(entry.error.message, "the handler answered 503");
    assert!(entry.last_failed_at >= entry.first_failed_at + stage.tick * 4);
    assert!(entry.because.contains("http-unavailable"), "{}", entry.because);
    assert_eq!(stage.ports.ledger.entry(&entry.id.to_string()).await.expect("the ledger"), Some(entry));
    stage.ends(flow).await;
}

/// History keeps every attempt with its decision, the first and the last always, and the success at the end.
pub async fn history_keeps_the_first_and_the_last(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x99", stage.ticks(1)) })).await;
    stage.handler.on("few", [Step::status(503), Step::status(500)]);
    stage.handler.on("many", vec![Step::status(503); 60]);
    stage.publish("few").await;
    stage.publish("many").await;
    let few = stage.stands("few", EntryState::Recovered).await;
    let many = stage.stands("many", EntryState::Recovered).await;
    assert_eq!((few.attempts, many.attempts), (3, 61));
    let lines = stage.ports.ledger.history(few.id).await.expect("history");
    let attempts: Vec<_> =
        lines.iter().filter_map(|line| line.attempt.map(|n| (n, line.http_status))).collect();
    assert_eq!(&attempts[..2], [(1, Some(503)), (2, Some(500))]);
    let first = &lines[0];
    assert_eq!(first.decision.as_deref(), Some("delay"));
    assert!(first.due_at.is_some() && first.because.is_some() && first.error.is_some());
    let lines = stage.ports.ledger.history(many.id).await.expect("history");
    let numbers: Vec<u32> = lines.iter().filter_map(|line| line.attempt).collect();
    assert_eq!(numbers.first(), Some(&1));
    assert!(numbers.contains(&60), "{numbers:?}");
    assert!(lines.len() < 60, "a history is bounded");
    assert!(numbers.is_sorted());
    stage.ends(flow).await;
}

/// Every condition of a filter selects what it says, alone and together.
pub async fn filters_select_what_they_say(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.facts.entity = Some("json:/order".parse().expect("a source"));
    let flow = stage.start(spec).await;
    for (n, (id, kind, tenant, step, state)) in [
        ("a", "order", "acme", Step::status(422), EntryState::Parked),
        ("b", "order", "acme", Step::status(503), EntryState::Dead),
        ("c", "invoice", "acme", Step::status(422), EntryState::Parked),
        ("d", "invoice", "blue", Step::unknown("the moon is full"), EntryState::Parked),
    ]
    .into_iter()
    .enumerate()
    {
        stage.handler.on(id, vec![step; 9]);
        let correlation = format!("c-{n}");
        let headers = [("type", kind), ("tenant", tenant), ("x-correlation-id", correlation.as_str())];
        let mut message = with_headers(id, &headers);
        message.key = Some(format!("key-{id}").into());
        stage.publish_message(message).await;
        stage.stands(id, state).await;
        stage.pass(1).await;
    }
    let c = stage.stands("c", EntryState::Parked).await;
    let any = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    for (filter, ids) in [
        (any(), vec!["d", "c", "b", "a"]),
        (in_state(EntryState::Parked), vec!["d", "c", "a"]),
        (Filter { state: vec![EntryState::Dead, EntryState::Held], ..any() }, vec!["b"]),
        (Filter { flow: text(FLOW), ..any() }, vec!["d", "c", "b", "a"]),
        (Filter { flow: text("other"), ..any() }, vec![]),
        (Filter { class: Some(Class::Transient), ..any() }, vec!["b"]),
        (Filter { reason: Some(c.reason.clone()), ..any() }, vec!["c", "a"]),
        (Filter { group: Some(c.group.clone()), ..any() }, vec!["c"]),
        (Filter { key: text("key-b"), ..any() }, vec!["b"]),
        (Filter { message_type: text("order"), ..any() }, vec!["b", "a"]),
        (Filter { tenant: text("blue"), ..any() }, vec!["d"]),
        (Filter { entity: text("a"), ..any() }, vec!["a"]),
        (Filter { correlation_id: text("c-2"), ..any() }, vec!["c"]),
        (Filter { since: Some(c.last_failed_at), ..any() }, vec!["d", "c"]),
        (Filter { until: Some(c.last_failed_at), ..any() }, vec!["b", "a"]),
        (Filter { text: text("moon"), ..any() }, vec!["d"]),
        (Filter { tenant: text("acme"), ..in_state(EntryState::Parked) }, vec!["c", "a"]),
    ] {
        assert_eq!(stage.found(&filter).await, ids, "{filter:?}");
    }
    stage.ends(flow).await;
}

/// Pages follow each other without a gap or a repetition, while new entries come in.
pub async fn pages_follow_each_other(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.otherwise(Step::status(422));
    let ids: Vec<String> = (0..25).map(|n| format!("m{n:02}")).collect();
    for id in &ids {
        stage.publish(id).await;
    }
    for id in &ids {
        stage.stands(id, EntryState::Parked).await;
    }
    let mut seen = Vec::new();
    let mut page = Page { limit: 10, after: None };
    loop {
        let found = stage.ports.ledger.search(&Filter::default(), &page).await.expect("a search");
        assert!(found.entries.len() <= 10);
        seen.extend(found.entries.into_iter().map(|entry| entry.message.id));
        // What fails later stands before the first page and disturbs nobody.
        let newer = format!("newer-{}", seen.len());
        stage.pass(1).await;
        stage.publish(&newer).await;
        stage.stands(&newer, EntryState::Parked).await;
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ids);
    assert!(
        stage
            .ports
            .ledger
            .search(&Filter::default(), &Page { limit: 10, after: Some("no such place".to_owned()) })
            .await
            .is_err()
    );
    stage.ends(flow).await;
}

/// Failures of one kind are one group, and counts are kept along with every change.
pub async fn groups_and_counts_keep_up(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    for n in 0..3 {
        let id = format!("m{n}");
        let text = format!("order {n} is not known");
        stage.handler.on(&id, [Step::Fail(redrive_core::Failure::from_message(text).with_status(422))]);
        stage.publish(&id).await;
        stage.stands(&id, EntryState::Parked).await;
    }
    stage.handler.on("x", vec![Step::status(503); 2]);
    stage.publish("x").await;
    stage.stands("x", EntryState::Dead).await;
    let ledger = &stage.ports.ledger;
    let groups = ledger.groups(Some(FLOW), 10).await.expect("groups");
    let sizes: Vec<_> = groups.iter().map(|group| group.counts.values().sum::<u64>()).collect();
    assert_eq!(sizes, [3, 1], "the largest first");
    assert_eq!(groups[0].counts.get("parked"), Some(&3));
    assert_eq!(groups[0].class, Class::PermanentTechnical);
    assert!(groups[0].example.contains("is not known"));
    assert!(ledger.groups(Some("other"), 10).await.expect("groups").is_empty());
    assert_eq!(ledger.groups(None, 1).await.expect("groups").len(), 1);
    assert_eq!(ledger.count(FLOW, EntryState::Parked).await.expect("a count"), 3);

    stage.done(redrive_engine::port::Deed::RetryNow, "m0").await;
    stage.stands("m0", EntryState::Recovered).await;
    assert_eq!(ledger.count(FLOW, EntryState::Parked).await.expect("a count"), 2);
    assert_eq!(ledger.count(FLOW, EntryState::Recovered).await.expect("a count"), 1);
    let counts = ledger.counts().await.expect("counts");
    let of =
        |state| counts.states.iter().find(|one| one.flow == FLOW && one.state == state).map(|one| one.count);
    assert_eq!(of(EntryState::Parked), Some(2));
    assert_eq!(of(EntryState::Dead), Some(1));
    assert_eq!(of(EntryState::Waiting).unwrap_or(0), 0);
    stage.ends(flow).await;
}

/// Retention takes what is finished and old, in steps, and never what a person has to see.
pub async fn retention_takes_only_what_is_finished(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    for n in 0..5 {
        let id = format!("r{n}");
        stage.handler.on(&id, [Step::status(503)]);
        stage.publish(&id).await;
        stage.stands(&id, EntryState::Recovered).await;
    }
    stage.handler.on("p", [Step::status(422)]);
    stage.publish("p").await;
    stage.stands("p", EntryState::Parked).await;
    let ledger = &stage.ports.ledger;
    let retention = Retention::default();
    assert_eq!(ledger.tidy(&retention, 100, stage.now()).await.expect("tidy"), 0);
    let later = stage.now() + std::time::Duration::from_secs(15 * 86_400);
    assert_eq!(ledger.tidy(&retention, 2, later).await.expect("tidy"), 2);
    assert_eq!(ledger.tidy(&retention, 100, later).await.expect("tidy"), 3);
    assert_eq!(stage.found(&Filter::default()).await, ["p"]);
    assert_eq!(ledger.count(FLOW, EntryState::Recovered).await.expect("a count"), 0);
    stage.ends(flow).await;
}
