use super::*;
use crate::Parking;
use crate::look::tests::Place;

async fn planned(place: &Place) -> (Arc<Look>, TopicFacts, Vec<Topology>) {
    let (look, facts) = (place.look(), TopicFacts::default());
    let topology = plan(&look, &facts).await.unwrap();
    (look, facts, topology)
}

fn named<'a>(topology: &'a [Topology], name: &str) -> &'a Topology {
    topology.iter().find(|topic| topic.name == name).unwrap_or_else(|| panic!("{name} is not planned"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_made_once_and_as_planned() {
    let Some(place) = Place::new() else { return };
    place.topic(&place.flow.topics[0], 3, &[("max.message.bytes", "2000000")]).await;
    let flow = place.flow.flow.to_string();
    let (look, facts, topology) = planned(&place).await;
    assert!(named(&topology, &format!("{flow}.source")).exists);
    let missing: Vec<&str> =
        topology.iter().filter(|topic| !topic.exists).map(|topic| topic.name.as_str()).collect();
    for suffix in [".retry.5s", ".retry.10s", ".retry.30s", ".dlq", ".parking", ".resolved"] {
        assert!(missing.contains(&format!("{flow}{suffix}").as_str()), "{suffix} in {missing:?}");
    }
    let level = named(&topology, &format!("{flow}.retry.10s"));
    assert_eq!(level.settings["partitions"], "3");
    assert_eq!(level.settings["message.timestamp.type"], "LogAppendTime");
    assert_eq!(level.settings["max.message.bytes"], (2_000_000 + HEADERS).to_string());
    assert_eq!(named(&topology, &format!("{flow}.resolved")).settings["cleanup.policy"], "compact");
    assert_eq!(named(&topology, &format!("{flow}.dlq")).settings["retention.ms"], "-1");

    // Two members that start at once both succeed.
    let (one, other) = tokio::join!(apply(&look, &facts, &topology), apply(&look, &facts, &topology));
    one.unwrap();
    other.unwrap();
    assert_eq!(facts.get(&format!("{flow}.retry.10s")).unwrap().partitions, 3);
    let (_, facts, again) = planned(&place).await;
    assert!(again.iter().all(|topic| topic.exists && topic.drift.is_empty()), "{again:?}");
    let level = facts.get(&format!("{flow}.retry.10s")).unwrap();
    assert_eq!(level.max_bytes, Some(2_000_000 + HEADERS as usize));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_not_there_is_not_made() {
    let Some(place) = Place::new() else { return };
    let (look, facts, topology) = planned(&place).await;
    let error = apply(&look, &facts, &topology).await.unwrap_err();
    assert!(matches!(error, PortError::Refused(Refusal::NotFound { .. })), "{error}");
    assert!(error.to_string().contains(&place.flow.topics[0]), "{error}");
    let (_, _, again) = planned(&place).await;
    assert!(again.iter().all(|topic| !topic.exists), "nothing was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_named_and_what_loses_messages_is_refused() {
    let Some(mut place) = Place::new() else { return };
    place.flow.new_topics.keeps = Some(Duration::from_secs(30 * 86_400));
    place.source(4).await;
    let flow = place.flow.flow.to_string();
    let dead = place.flow.dead_letter.topic.clone();
    place.topic(&dead, 2, &[("max.message.bytes", "1000"), ("retention.ms", "3600000")]).await;
    let (look, facts, topology) = planned(&place).await;
    let drift = named(&topology, &dead).drift.join("\n");
    for part in [
        "partitions is 2 and the source has 4",
        "max.message.bytes is 1000",
        "retention.ms keeps a message for 1h",
    ] {
        assert!(drift.contains(part), "{part} in {drift}");
    }
    // It loses no message: the flow may start, and what exists stays as it is.
    apply(&look, &facts, &topology).await.unwrap();
    let (_, facts, topology) = planned(&place).await;
    assert_eq!(named(&topology, &dead).drift.len(), 3);
    assert_eq!(facts.get(&dead), Some(TopicFact { partitions: 2, max_bytes: Some(1_000) }));

    let compacted = format!("{flow}.compacted");
    place.topic(&compacted, 4, &[("cleanup.policy", "compact")]).await;
    place.flow.parking = Parking::Topic(compacted.clone());
    let (look, facts, topology) = planned(&place).await;
    let error = apply(&look, &facts, &topology).await.unwrap_err();
    assert!(
        error.to_string().contains(&compacted) && error.to_string().contains("cleanup.policy"),
        "{error}"
    );
}

/// A topic with fewer copies than are wanted, by the source or by the flow, is lost with fewer brokers.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_fewer_copies_is_named() {
    let Some(mut place) = Place::new() else { return };
    place.source(1).await;
    let (look, facts, topology) = planned(&place).await;
    apply(&look, &facts, &topology).await.unwrap();
    place.flow.new_topics.replication = Some(3);
    let (look, facts, topology) = planned(&place).await;
    for topic in &topology[1..] {
        assert!(
            topic.drift.iter().any(|why| why.starts_with("replication is 1 and should be 3")),
            "{topic:?}"
        );
    }
    // It loses no message as long as its broker is there.
    apply(&look, &facts, &topology).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_topic_that_forgets_too_early_is_refused() {
    let Some(mut place) = Place::new() else { return };
    place.flow.delay = DelayMode::Single;
    place.flow.longest_delay = Duration::from_secs(7_200);
    place.source(1).await;
    let single = format!("{}-retry", place.flow.flow);
    place.topic(&single, 1, &[("retention.ms", "3600000")]).await;
    let (look, facts, topology) = planned(&place).await;
    let drift = named(&topology, &single).drift.join("\n");
    assert!(drift.contains("keeps a message for 1h and it waits here for up to 2h"), "{drift}");
    assert!(drift.contains("LogAppendTime"), "{drift}");
    let error = apply(&look, &facts, &topology).await.unwrap_err();
    assert!(error.to_string().contains(&single), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_forgets_before_a_pointer_is_read_is_named() {
    let Some(mut place) = Place::new() else { return };
    place.flow.delay = DelayMode::Pointer;
    place.flow.longest_delay = Duration::from_secs(7_200);
    place.topic(&place.flow.topics[0], 1, &[("retention.ms", "3600000")]).await;
    let (_, _, topology) = planned(&place).await;
    let drift = named(&topology, &place.flow.topics[0]).drift.join("\n");
    assert!(drift.contains("its body is gone by then"), "{drift}");
}

#[test]
fn the_ledger_mode_has_no_delay_topics() {
    let mut flow = KafkaFlow::new("orders", "localhost:9092", "orders", "worker");
    flow.delay = DelayMode::Ledger;
    flow.parking = Parking::Same;
    let names: Vec<String> = purposes(&flow).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["orders", "orders.dlq", "orders.resolved"]);
}

#[test]
fn the_options_of_a_dead_letter_topic_are_its_own() {
    let mut flow = KafkaFlow::new("orders", "localhost:9092", "orders", "worker");
    flow.dead_letter.options.insert("retention.ms".to_owned(), "1000".to_owned());
    flow.dead_letter.options.insert("linger.ms".to_owned(), "5".to_owned());
    let like = Like { partitions: 1, replication: 1, max_bytes: 1_000 };
    let settings = wanted(&flow, "orders.dlq", Purpose::Shelf, like);
    assert_eq!(settings["retention.ms"], "1000");
    assert!(!settings.contains_key("linger.ms"));
}
