use std::time::Duration;

use proptest::prelude::*;
use redrive_core::headers::{Origin, Spelling};
use redrive_core::{Message, headers};
use redrive_engine::port::{Carried, DeliveryParts, SourceRef, Tag};

use super::*;
use crate::facts::TopicFact;

const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

fn flow() -> KafkaFlow {
    let mut flow = KafkaFlow::new("orders", "localhost:9092", "orders", "worker");
    flow.steps = [10, 60, 300, 1_800].map(Duration::from_secs).to_vec();
    flow
}

fn facts(partitions: i32, max_bytes: usize) -> Arc<TopicFacts> {
    let facts = TopicFacts::default();
    for topic in
        ["orders.retry.10s", "orders.retry.1m", "orders.retry.5s", "orders.dlq", "orders.parking", "other"]
    {
        facts.set(topic, TopicFact { partitions, max_bytes: Some(max_bytes) });
    }
    Arc::new(facts)
}

fn delivery(body: Option<&'static [u8]>) -> Delivery {
    let mut all = Headers::new();
    all.push("type", "OrderCreated");
    all.push_header("nothing", None);
    all.push("type", "again");
    Delivery::from(DeliveryParts {
        tag: Tag { stream: 3, epoch: 0, number: 42 },
        message: Message {
            id: "orders/3/42".into(),
            key: Some(Bytes::from_static(b"customer-1")),
            body: body.map(Bytes::from_static),
            headers: all,
            content_type: None,
        },
        trail: Carried::default(),
        source: SourceRef { kind: KIND.into(), name: "orders".into(), partition: Some(3), offset: Some(42) },
        ready_at: NOW,
        redelivered: false,
    })
}

fn trail() -> Trail {
    Trail {
        attempt: 1,
        origin: Origin {
            topic: Some("orders".into()),
            partition: Some(3),
            offset: Some(42),
            timestamp: Some(NOW),
        },
        entry_id: Some("0190-entry".into()),
        ..Trail::default()
    }
}

fn settlement(outcome: Outcome, body: Option<&'static [u8]>) -> Settlement {
    Settlement { trail: Some(Box::new(trail())), ..Settlement::plain(delivery(body), outcome) }
}

fn only(mut copies: Vec<Copy>) -> Copy {
    assert_eq!(copies.len(), 1);
    copies.remove(0)
}

#[test]
fn what_leaves_no_copy_writes_nothing() {
    let copies = Copies::new(&flow(), facts(8, 1 << 20));
    for outcome in [Outcome::Ack, Outcome::Return, Outcome::Discard] {
        assert_eq!(copies.of(&settlement(outcome, Some(b"x")), NOW), Ok(Vec::new()));
    }
    let hold = Outcome::Hold { lane: redrive_engine::port::LaneName::of_key(b"k") };
    assert!(matches!(copies.of(&settlement(hold, None), NOW), Err(Refusal::Invalid(_))));
}

#[test]
fn a_plain_step_goes_to_its_own_level_in_its_partition() {
    let copies = Copies::new(&flow(), facts(8, 1 << 20));
    // Settling takes a moment: less than the whole step is left.
    for late in [0, 1, 900] {
        let until = NOW + Duration::from_secs(10);
        let now = NOW + Duration::from_millis(late);
        let copy = only(copies.of(&settlement(Outcome::Delay { until }, Some(b"bytes")), now).unwrap());
        assert_eq!((&*copy.topic, copy.partition), ("orders.retry.10s", Some(3)));
        assert_eq!(copy.key.as_deref(), Some(&b"customer-1"[..]));
        assert_eq!(copy.body.as_deref(), Some(&b"bytes"[..]));
        let read = headers::decode(&copy.headers, Spelling::Default).trail;
        assert_eq!(read, Trail { process_after: Some(until), ..trail() });
        // The headers of others stay, the null one and both of one name.
        assert_eq!(copy.headers.iter().filter(|header| header.name.as_str() == "type").count(), 2);
        assert_eq!(copy.headers.get_header("nothing").map(|header| header.value.clone()), Some(None));
    }
}

#[test]
fn a_tombstone_stays_one() {
    let mut flow = flow();
    for mode in [DelayMode::Cascade, DelayMode::Pointer, DelayMode::Single, DelayMode::Tiered] {
        flow.delay = mode;
        let copies = Copies::new(&flow, facts(8, 1 << 20));
        let until = NOW + Duration::from_secs(10);
        let copy = only(copies.of(&settlement(Outcome::Delay { until }, None), NOW).unwrap());
        assert_eq!(copy.body, None);
        assert!(!copy.headers.contains(BODY_AT), "{mode:?}");
        let copy = only(copies.of(&settlement(Outcome::DeadLetter, None), NOW).unwrap());
        assert_eq!(copy.body, None);
    }
}

#[test]
fn a_pointer_leaves_the_body_where_it_is() {
    let mut flow = flow();
    flow.delay = DelayMode::Pointer;
    let copies = Copies::new(&flow, facts(8, 1 << 20));
    let until = NOW + Duration::from_secs(10);
    let settled = settlement(Outcome::Delay { until }, Some(b"bytes"));
    let copy = only(copies.of(&settled, NOW).unwrap());
    assert_eq!(copy.body, None);
    assert_eq!(copy.headers.get_text(BODY_AT, 99).as_deref(), Some("orders/3/42"));
    // What was not read from a topic of the flow cannot be read there again.
    let mut elsewhere = settled;
    elsewhere.trail.as_mut().unwrap().origin.topic = Some("foreign".into());
    let copy = only(copies.of(&elsewhere, NOW).unwrap());
    assert_eq!(copy.body.as_deref(), Some(&b"bytes"[..]));
    // A dead letter always has it.
    let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(b"bytes")), NOW).unwrap());
    assert_eq!(copy.body.as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn fewer_partitions_are_chosen_by_the_key() {
    let copies = Copies::new(&flow(), facts(2, 1 << 20));
    let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(b"x")), NOW).unwrap());
    assert_eq!(copy.partition, Some(partition::of_key(b"customer-1", 2)));
    let mut flow = flow();
    flow.dead_letter.partition = PartitionBy::Function(|from, _, count| (from + 1) % count);
    let copies = Copies::new(&flow, facts(8, 1 << 20));
    let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(b"x")), NOW).unwrap());
    assert_eq!(copy.partition, Some(4));
}

#[test]
fn a_dead_letter_waits_for_nothing_any_more() {
    let copies = Copies::new(&flow(), facts(8, 1 << 20));
    for (outcome, topic) in [(Outcome::DeadLetter, "orders.dlq"), (Outcome::Park, "orders.parking")] {
        let mut settled = settlement(outcome, Some(b"bytes"));
        let carried = settled.trail.as_mut().unwrap();
        carried.process_after = Some(NOW);
        carried.delay_route = Some("orders.retry.10s".into());
        carried.wait_id = Some("w".into());
        let copy = only(copies.of(&settled, NOW).unwrap());
        assert_eq!(&*copy.topic, topic);
        assert_eq!(headers::decode(&copy.headers, Spelling::Default).trail, trail());
        assert_eq!(copy.body.as_deref(), Some(&b"bytes"[..]));
    }
}

#[test]
fn an_envelope_carries_bytes_and_headers() {
    let mut flow = flow();
    flow.dead_letter.format = DeadLetterFormat::Envelope;
    let copies = Copies::new(&flow, facts(8, 1 << 20));
    let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(b"\xff\x00")), NOW).unwrap());
    let envelope = Envelope::from_json(copy.body.as_deref().unwrap()).unwrap();
    assert_eq!(envelope.payload, Some(redrive_core::Payload::Bytes(Bytes::from_static(b"\xff\x00"))));
    assert_eq!(envelope.headers, Some(delivery(None).message.headers.clone()));
    assert_eq!(envelope.message_type.as_deref(), Some("again"));
}

#[test]
fn a_copy_that_is_too_large_is_refused_with_figures_or_becomes_a_pointer() {
    static LARGE: [u8; 5_000] = [b'x'; 5_000];
    let copies = Copies::new(&flow(), facts(8, 2_000));
    let until = NOW + Duration::from_secs(10);
    for outcome in [Outcome::DeadLetter, Outcome::Park, Outcome::Delay { until }] {
        let Err(Refusal::Limit(text)) = copies.of(&settlement(outcome, Some(&LARGE)), NOW) else {
            panic!("it cannot be written");
        };
        assert!(
            text.contains("`orders.") && text.contains("2000") && text.contains("max.message.bytes"),
            "{text}"
        );
    }
    let mut flow = flow();
    flow.ledger = true;
    let copies = Copies::new(&flow, facts(8, 2_000));
    let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(&LARGE)), NOW).unwrap());
    let envelope = Envelope::from_json(copy.body.as_deref().unwrap()).unwrap();
    assert_eq!((envelope.payload, envelope.headers), (None, None));
    let origin = headers::decode(&copy.headers, Spelling::Default).trail.origin;
    assert_eq!(
        (origin.topic.as_deref(), origin.partition, origin.offset),
        (Some("orders"), Some(3), Some(42))
    );
    // Only what is at its end has its body in the ledger alone.
    assert!(copies.of(&settlement(Outcome::Delay { until }, Some(&LARGE)), NOW).is_err());
}

#[test]
fn a_message_goes_elsewhere_as_a_fresh_one() {
    let copies = Copies::new(&flow(), facts(8, 1 << 20));
    let elsewhere = Outcome::Reroute { target: "kafka://elsewhere:9092/other".to_owned() };
    assert!(matches!(copies.of(&settlement(elsewhere, Some(b"bytes")), NOW), Err(Refusal::Invalid(_))));
    let own = format!("kafka://{}/other?x=y", flow().client.bootstrap);
    for target in ["other", "kafka://main/other", &own] {
        let outcome = Outcome::Reroute { target: target.to_owned() };
        let copy = only(copies.of(&settlement(outcome, Some(b"bytes")), NOW).unwrap());
        assert_eq!(&*copy.topic, "other");
        assert_eq!(copy.partition, Some(partition::of_key(b"customer-1", 8)));
        assert_eq!(headers::decode(&copy.headers, Spelling::Default).trail, Trail::default());
        let reject = Outcome::Reject { event: Bytes::from_static(b"{}"), target: target.to_owned() };
        let copy = only(copies.of(&settlement(reject, Some(b"bytes")), NOW).unwrap());
        assert_eq!((&*copy.topic, copy.body.as_deref()), ("other", Some(&b"{}"[..])));
    }
}

#[test]
fn copies_are_signed_and_believed_again() {
    let rules =
        HeaderRules::new(Spelling::Plain).signed(headers::Keyring::new(headers::Key::generate([7; 32])));
    let shared: Arc<Rules> = Arc::default();
    shared.set(&rules);
    let mut flow = flow();
    let until = NOW + Duration::from_secs(3_000);
    for (mode, format) in [
        (DelayMode::Cascade, DeadLetterFormat::Raw),
        (DelayMode::Single, DeadLetterFormat::Envelope),
        (DelayMode::Pointer, DeadLetterFormat::Raw),
    ] {
        flow.delay = mode;
        flow.dead_letter.format = format;
        let copies = Copies::new(&flow, facts(8, 1 << 20)).with_rules(Arc::clone(&shared));
        for outcome in [Outcome::Delay { until }, Outcome::DeadLetter, Outcome::Park] {
            let copy = only(copies.of(&settlement(outcome, Some(b"bytes")), NOW).unwrap());
            let read = rules.read(&copy.headers, copy.body.as_deref());
            assert_eq!((read.doubt(), read.attempt), (None, 1), "{mode:?}");
            let forged = rules.read(&copy.headers, Some(b"other bytes"));
            assert!(forged.doubt().is_some());
            // What is not believed waits as long as its level.
            let level = Duration::from_secs(10);
            let stay =
                Copies::new(&self::flow(), facts(8, 1)).delays().stay("orders.retry.10s", NOW, &forged);
            assert_eq!((stay.until, stay.last), (NOW + level, true));
        }
    }
}

proptest! {
    /// Every way ends: not before the message is due, hardly after, and within eight hops for a week.
    #[test]
    fn every_way_ends_in_time(
        wait in prop_oneof![0..120_000_u64, 0..7 * 86_400_000_u64],
        steps in proptest::collection::vec(1..86_400_000_u64, 0..8),
        late in proptest::collection::vec(0..2_000_u64, 12),
        tiered in any::<bool>(),
    ) {
        let mut flow = flow();
        flow.steps = steps.into_iter().map(Duration::from_millis).collect();
        flow.longest_delay = Duration::from_secs(7 * 86_400);
        flow.delay = if tiered { DelayMode::Tiered } else { DelayMode::Cascade };
        let copies = Copies::new(&flow, Arc::new(TopicFacts::default()));
        let due = NOW + Duration::from_millis(wait);
        let settled = settlement(Outcome::Delay { until: due }, Some(b"bytes"));
        let mut copy = only(copies.of(&settled, NOW).unwrap());
        let mut now = NOW;
        for (hop, late) in late.into_iter().enumerate() {
            prop_assert!(hop < 8, "a ninth hop");
            prop_assert!(copies.delays().waits_in(&copy.topic));
            let appended = now + Duration::from_millis(late);
            let mut found = delivery(None);
            found.message.body = copy.body.clone();
            found.message.headers = copy.headers.clone();
            found.trail = headers::decode(&copy.headers, Spelling::Default).trail.into();
            found.source.name = Arc::clone(&copy.topic);
            prop_assert_eq!(found.trail.process_after, Some(due));
            prop_assert_eq!(found.message.body.as_deref(), Some(&b"bytes"[..]));
            now = appended;
            let next = loop {
                match copies.hop(&found, appended, now).unwrap() {
                    Hop::Wait(until) => {
                        prop_assert!(until > now && until <= due, "{until} after {due}");
                        now = until;
                    }
                    other => break other,
                }
            };
            match next {
                Hop::Ready => {
                    prop_assert!(now >= due);
                    // Later only by what the appends took.
                    prop_assert!(now <= due.max(appended));
                    return Ok(());
                }
                Hop::Move(next) => copy = next,
                Hop::Wait(_) => unreachable!(),
            }
        }
        prop_assert!(false, "it never ended");
    }

    /// A header that anybody may write neither hands a record out at once nor keeps it for ever.
    #[test]
    fn a_claimed_due_time_is_bounded(due in any::<Option<i64>>(), topic in 0..6_usize) {
        let copies = Copies::new(&flow(), Arc::new(TopicFacts::default()));
        let topics = copies.delays().topics();
        let (topic, level) = &topics[topic % topics.len()];
        let trail = Trail { process_after: due.map(Timestamp::from_millis), ..Trail::default() };
        let stay = copies.delays().stay(topic, NOW, &trail.into());
        prop_assert!(stay.until <= NOW + Duration::from_secs(7 * 86_400));
        if due.is_none() {
            prop_assert_eq!(stay.until, NOW + level.unwrap());
        }
    }
}

#[test]
fn in_a_topic_of_both_kinds_what_is_parked_says_so() {
    let mut flow = flow();
    flow.parking = Parking::Same;
    // A large one leaves a pointer, which says so too.
    flow.ledger = true;
    for limit in [1 << 20, 1_400] {
        let copies = Copies::new(&flow, facts(8, limit));
        let parked = only(copies.of(&settlement(Outcome::Park, Some(&[b'x'; 2_000])), NOW).unwrap());
        assert_eq!((&*parked.topic, parked.headers.contains(PARKED)), ("orders.dlq", true));
        let dead = only(copies.of(&settlement(Outcome::DeadLetter, Some(&[b'x'; 2_000])), NOW).unwrap());
        assert_eq!((&*dead.topic, dead.headers.contains(PARKED)), ("orders.dlq", false));
    }
    flow.parking = Parking::Topic("orders.parking".to_owned());
    let copies = Copies::new(&flow, facts(8, 1 << 20));
    let mut again = settlement(Outcome::DeadLetter, Some(b"x"));
    again.delivery.message.headers.push(PARKED, "true");
    for (outcome, topic) in [(Outcome::Park, "orders.parking"), (Outcome::DeadLetter, "orders.dlq")] {
        again.outcome = outcome;
        let copy = only(copies.of(&again, NOW).unwrap());
        assert_eq!((&*copy.topic, copy.headers.contains(PARKED)), (topic, false), "what it was is over");
    }
}

/// The limit of a topic is that of what is compressed, which the broker alone knows. Where a ledger takes the body of what is
/// too large, that has to be known before.
#[test]
fn what_is_compressed_is_left_to_the_broker() {
    static LARGE: [u8; 5_000] = [b'x'; 5_000];
    let until = NOW + Duration::from_secs(10);
    let taken = |flow: &KafkaFlow| {
        let copies = Copies::new(flow, facts(8, 4_000));
        [
            Outcome::Delay { until },
            Outcome::DeadLetter,
            Outcome::Park,
            Outcome::Reroute { target: "other".into() },
        ]
        .map(|outcome| {
            copies.of(&settlement(outcome, Some(&LARGE)), NOW).ok().map(|all| only(all).carries_body)
        })
    };
    let mut flow = flow();
    assert_eq!(taken(&flow), [None; 4]);
    flow.client.options.insert("compression.type".to_owned(), "zstd".to_owned());
    assert_eq!(taken(&flow), [Some(true); 4]);
    flow.client.options.insert("compression.type".to_owned(), "none".to_owned());
    assert_eq!(taken(&flow), [None; 4]);
    flow.dead_letter.options.insert("compression.codec".to_owned(), "lz4".to_owned());
    assert_eq!(
        taken(&flow),
        [None, Some(true), Some(true), None],
        "those of dead letters have a producer of their own"
    );
    flow.ledger = true;
    assert_eq!(taken(&flow)[1..3], [Some(false); 2], "the ledger has the body");
}

#[test]
fn a_function_that_panics_or_names_no_partition_leaves_it_to_the_producer() {
    let mut flow = flow();
    for (choose, expected) in [
        ((|from, _, count| count - 1 - from) as fn(i32, Option<&[u8]>, i32) -> i32, Some(4)),
        (|_, key, _| i32::try_from(key.map_or(0, <[u8]>::len)).unwrap_or(0), None),
        (|_, _, _| -1, None),
        (|_, _, _| panic!("somebody else's code"), None),
    ] {
        flow.dead_letter.partition = PartitionBy::Function(choose);
        let copies = Copies::new(&flow, facts(8, 1 << 20));
        let copy = only(copies.of(&settlement(Outcome::DeadLetter, Some(b"x")), NOW).unwrap());
        assert_eq!(copy.partition, expected);
    }
}
