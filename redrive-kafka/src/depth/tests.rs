use redrive_core::Headers;

use super::*;
use crate::look::tests::Place;
use crate::position::Position;

fn of<'a>(queues: &'a [QueueInfo], name: &str) -> &'a QueueInfo {
    queues.iter().find(|queue| queue.name == name).unwrap_or_else(|| panic!("{name} in {queues:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_finished_is_counted_and_marks_are_not() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let source = place.flow.topics[0].clone();
    let (level, dead) = (format!("{}.retry.10s", place.flow.flow), place.flow.dead_letter.topic.clone());
    place.topic(&level, 1, &[]).await;
    place.topic(&dead, 1, &[]).await;
    let look = place.look();
    let empty = queues(&look).await.unwrap();
    assert!(empty.iter().all(|queue| queue.depth == Depth::default()), "{empty:?}");
    assert_eq!(empty.len(), 3, "what is not there has no depth: {empty:?}");

    place.write(&source, 0, vec![(Some("x"), Headers::new()); 150]).await;
    place.write(&source, 1, vec![(Some("x"), Headers::new()); 5]).await;
    for _ in 0..3 {
        place.write_in_transaction(&level, 0, "waits").await;
    }
    place.write_in_transaction(&dead, 0, "dead").await;
    place.commit(&place.flow.groups.main, &source, 0, &Position { lowest: 2, beyond: vec![(3, 5)] }).await;
    place.commit(&place.flow.groups.main, &source, 1, &Position { lowest: 1, beyond: vec![(4, 5)] }).await;
    let found = queues(&look).await.unwrap();
    assert_eq!(of(&found, &source).depth, Depth { ready: 146 + 3, waiting: 0 });
    assert_eq!(of(&found, &level).depth, Depth { ready: 0, waiting: 3 });
    assert_eq!(of(&found, &dead).depth, Depth { ready: 1, waiting: 0 });

    // Of three records that wait one is finished; the mark behind the last one is not a fourth.
    place.commit(&place.flow.groups.retry, &level, 0, &Position { lowest: 1, beyond: vec![] }).await;
    let now = waiting(&look).await.unwrap();
    let lag = now.iter().find(|lag| *lag.topic == *level).unwrap();
    assert_eq!(lag.records, 2);
    place.commit(&place.flow.groups.retry, &level, 0, &Position { lowest: 5, beyond: vec![] }).await;
    let now = waiting(&look).await.unwrap();
    let lag = now.iter().find(|lag| *lag.topic == *level).unwrap();
    assert_eq!(lag.records, 0);
}

/// What lies there is looked at until 8 MB of it have come; offsets stand for the rest, and marks count with them.
#[tokio::test(flavor = "multi_thread")]
async fn large_records_are_not_all_read_to_be_counted() {
    const LARGE: usize = 3_000_000;
    let Some(place) = Place::new() else { return };
    let topic = place.flow.dead_letter.topic.clone();
    place.topic(&topic, 2, &[("max.message.bytes", "4000000")]).await;
    let body = "x".repeat(LARGE);
    for _ in 0..6 {
        place.write_in_transaction(&topic, 0, &body).await;
    }
    let look = place.look();
    let counted = of(&queues(&look).await.unwrap(), &topic).depth.ready;
    // Three of them are 9 MB. Each of the others has the mark of its transaction behind it.
    assert_eq!(counted, 3 + 1 + 3 * 2);

    let (inner, name) = (Arc::clone(&look), topic.clone());
    let counted = look.ask(move |consumer| {
        let spans = spans(consumer, &name, vec![None; 2])?;
        let pile = Pile { topic: name.as_str().into(), spans, waits: false };
        let carver = || Carver::new(HeaderRules::default(), inner.flow());
        let member = || inner.consumer(&inner.flow().groups.ledger);
        let counted = ReadBack::new(member()?, carver(), vec![pile.clone()]).count(8 << 20)?;
        let mut reading = ReadBack::new(member()?, carver(), vec![pile]);
        let mut read = Vec::new();
        loop {
            match reading.next(200, |_, _, _| {})?.len() {
                0 => return Ok((counted, read)),
                some => read.push(some),
            }
        }
    });
    let (counted, read) = counted.await.unwrap();
    assert_eq!((counted.records, counted.bytes), (3, 3 * (LARGE + "key".len())));
    assert_eq!(read, [3, 3], "no more than 8 MB are in hand at once");
}

/// However large a record is, it is read.
#[tokio::test(flavor = "multi_thread")]
async fn one_record_is_always_read() {
    let Some(place) = Place::new() else { return };
    let topic = place.flow.dead_letter.topic.clone();
    place.topic(&topic, 1, &[("max.message.bytes", "15000000")]).await;
    let body = "x".repeat(12_000_000);
    for _ in 0..2 {
        place.write(&topic, 0, vec![(Some(body.as_str()), Headers::new())]).await;
    }
    let look = place.look();
    let mut shelves = crate::shelves::open(&look, None).await.unwrap();
    let mut read = Vec::new();
    loop {
        match redrive_engine::port::Shelves::next(&mut *shelves, 200).await.unwrap().len() {
            0 => break,
            some => read.push(some),
        }
    }
    assert_eq!(read, [1, 1]);
    assert_eq!(of(&queues(&look).await.unwrap(), &topic).depth.ready, 2);
}

#[test]
fn what_is_finished_beyond_is_not_open() {
    let span = Span { partition: 0, next: 5, end: 20, without: vec![(6, 8), (10, 11), (18, 25)] };
    assert_eq!(open(&span), 15 - 2 - 1 - 2);
}
