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
    assert!(lag.oldest.is_some_and(|at| at.as_millis() > 1_700_000_000_000));
    place.commit(&place.flow.groups.retry, &level, 0, &Position { lowest: 5, beyond: vec![] }).await;
    let now = waiting(&look).await.unwrap();
    let lag = now.iter().find(|lag| *lag.topic == *level).unwrap();
    assert_eq!((lag.records, lag.oldest), (0, None));
}

#[test]
fn what_is_finished_beyond_is_not_open() {
    let span = Span { partition: 0, next: 5, end: 20, without: vec![(6, 8), (10, 11), (18, 25)] };
    assert_eq!(open(&span), 15 - 2 - 1 - 2);
}
