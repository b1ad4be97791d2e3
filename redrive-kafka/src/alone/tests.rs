use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;

use super::*;
use crate::look::tests::{LIMIT, Place};

/// A member, polled on a thread of its own until told to stop.
fn member(place: &Place, instance: &str) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let mut flow = place.flow.clone();
    flow.instance = instance.to_owned();
    let consumer: BaseConsumer = client::consumer(&flow, &flow.groups.main).create().unwrap();
    consumer.subscribe(&[&flow.topics[0]]).unwrap();
    let (stop, stopped) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            consumer.poll(Duration::from_millis(50));
        }
        consumer.unsubscribe();
    });
    (stop, thread)
}

async fn until(look: &Arc<Look>, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = others(look).await.unwrap();
        if enough(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_member_is_named_and_this_one_is_not() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let look = place.look();
    assert_eq!(others(&look).await.unwrap(), Vec::<String>::new());
    let own = member(&place, &place.flow.instance);
    let other = member(&place, "the-other");
    let found = until(&look, |others| !others.is_empty()).await;
    assert!(found.iter().all(|name| name.starts_with("redrive-the-other at")), "{found:?}");
    let error = refuse_others(&look).await.unwrap_err();
    assert!(error.to_string().contains("redrive-the-other"), "{error}");
    other.0.send(()).unwrap();
    until(&look, <[String]>::is_empty).await;
    refuse_others(&look).await.unwrap();
    own.0.send(()).unwrap();
    tokio::task::spawn_blocking(move || (own.1.join(), other.1.join())).await.unwrap().0.unwrap();
}
