//! A partition that stands still for one of its messages.

use redrive_engine::port::{Broker as _, Outcome};

use crate::stage::{Seat, Stage, numbers};

/// While a partition stands, all of the others' messages come, however many lie in it; then its own come in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_stands_keeps_no_other_from_going_on() {
    let Some(stage) = Stage::shared("stands") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..200).await;
    stage.produce(&stage.name, 1, 200..400).await;
    let mut seat = Seat::new(stage.flow()).await;
    let first = seat.take(1).await.remove(0);
    seat.broker.gate(first.tag.stream, true);
    let others = seat.take(200).await;
    assert!(others.iter().all(|one| one.tag.stream != first.tag.stream), "nothing of the one that stands");
    assert!(seat.take_now(10).await.is_empty());
    seat.end(&others, &Outcome::Ack).await;

    seat.broker.gate(first.tag.stream, false);
    let rest = seat.take(199).await;
    let begins = if first.source.partition == Some(0) { 1 } else { 201 };
    assert_eq!(numbers(&rest), (begins..begins + 199).collect::<Vec<_>>());
    seat.end(&rest, &Outcome::Ack).await;
    seat.end(&[first], &Outcome::Ack).await;
    seat.leave().await;
}
