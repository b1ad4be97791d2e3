//! A stream as a source: how far it was read is kept elsewhere, and what was read can be read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use lapin::types::AMQPValue;
use redrive_core::Timestamp;
use redrive_engine::port::{Broker as _, Delivery, Outcome, PortError, Room, Settlement, SourceRange};
use redrive_rabbitmq::{Positions, QueueKind, RabbitBroker, RabbitFlow};

use crate::between::{Say, in_front_of};
use crate::stage::{Stage, later, named, publish, receive, settle, subscription, table};

/// Positions that a test can look at, and that can be away.
#[derive(Debug, Default)]
struct InMemory {
    kept: Mutex<BTreeMap<String, String>>,
    away: Mutex<bool>,
}

#[async_trait]
impl Positions for InMemory {
    async fn load(&self, name: &str) -> Result<Option<String>, PortError> {
        Ok(self.kept.lock().unwrap().get(name).cloned())
    }

    async fn keep(&self, name: &str, position: &str) -> Result<(), PortError> {
        if *self.away.lock().unwrap() {
            return Err(PortError::Unavailable("the ledger is away".to_owned()));
        }
        self.kept.lock().unwrap().insert(name.to_owned(), position.to_owned());
        Ok(())
    }
}

async fn stream(stage: &Stage, count: usize) -> RabbitFlow {
    let kind = AMQPValue::LongString("stream".into());
    stage.queue(&stage.name, vec![("x-queue-type", kind)]).await;
    let channel = stage.channel().await;
    for number in 0..count {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let mut flow = stage.flow();
    flow.kind = QueueKind::Stream;
    flow.owned = false;
    flow
}

async fn broker(flow: &RabbitFlow, positions: &Arc<InMemory>) -> RabbitBroker {
    let positions: Arc<dyn Positions> = Arc::clone(positions) as _;
    let broker = RabbitBroker::new(flow.clone()).unwrap().with_positions(positions);
    let plan = broker.plan(&subscription(flow)).await.unwrap();
    broker.apply(&plan).await.unwrap();
    broker
}

fn ids(read: &[Delivery]) -> Vec<&str> {
    read.iter().map(|delivery| &*delivery.message.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_its_oldest_open_message_is_and_gets_nothing_back() {
    let Some(stage) = Stage::shared("stream") else { return };
    let flow = stream(&stage, 5).await;
    let positions: Arc<InMemory> = Arc::default();
    let first = broker(&flow, &positions).await;
    let mut source = first.subscribe(&subscription(&flow)).await.unwrap();
    let read = receive(&mut source, 5).await;
    assert_eq!(ids(&read), ["0", "1", "2", "3", "4"]);
    assert_eq!(read[3].source.offset, Some(3));
    assert!(!read[3].message.headers.contains("x-stream-offset"));
    for place in [0, 1, 3] {
        settle(&first, &read[place], Outcome::Ack).await.unwrap();
    }
    drop((source, first));

    let second = broker(&flow, &positions).await;
    let mut source = second.subscribe(&subscription(&flow)).await.unwrap();
    let read = receive(&mut source, 3).await;
    assert_eq!(ids(&read), ["2", "3", "4"]);
    *positions.away.lock().unwrap() = true;
    let refused = settle(&second, &read[0], Outcome::Ack).await;
    assert!(matches!(refused, Err(PortError::Unavailable(_))), "{refused:?}");
    *positions.away.lock().unwrap() = false;
    settle(&second, &read[0], later(Duration::from_millis(100))).await.unwrap();
    let waited = receive(&mut source, 1).await.remove(0);
    assert_eq!((&*waited.message.id, waited.trail.attempt), ("2", 1));
    for delivery in [&waited, &read[1], &read[2]] {
        settle(&second, delivery, Outcome::Ack).await.unwrap();
    }
    assert_eq!(positions.kept.lock().unwrap().values().collect::<Vec<_>>(), ["5"]);
    stage.publish("body", named("5")).await;
    let next = receive(&mut source, 1).await.remove(0);
    assert_eq!(
        (&*next.message.id, next.source.offset),
        ("5", Some(5)),
        "no copy was written into the stream"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_puts_among_the_copies_does_not_move_the_position() {
    let Some(stage) = Stage::shared("moved") else { return };
    let flow = stream(&stage, 2).await;
    let positions: Arc<InMemory> = Arc::default();
    let broker = broker(&flow, &positions).await;
    let headers = table(vec![("x-stream-offset", AMQPValue::LongLongInt(1_000))]);
    let channel = stage.channel().await;
    publish(&channel, &format!("{}.retry", stage.name), "body", named("a").with_headers(headers)).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for delivery in receive(&mut source, 3).await {
        settle(&broker, &delivery, Outcome::Ack).await.unwrap();
    }
    assert_eq!(positions.kept.lock().unwrap().values().collect::<Vec<_>>(), ["2"]);
}

/// The stream and the queue of copies share a channel and its tags, and each is read when its turn comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_read_yet_is_not_released_with_what_is_settled() {
    const EACH: usize = 2_000;
    let Some(stage) = Stage::shared("tags") else { return };
    let flow = stream(&stage, 0).await;
    let broker = Arc::new(broker(&flow, &Arc::default()).await);
    let copies = format!("{}.retry", stage.name);
    let publishing = async |queue: &str, kind: &str| {
        let channel = stage.channel().await;
        let sent =
            (0..EACH).map(|number| publish(&channel, queue, "body", named(&format!("{kind}{number}"))));
        futures_util::future::join_all(sent.collect::<Vec<_>>()).await;
    };
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let reading = async {
        let (mut settling, mut seen) = (tokio::task::JoinSet::new(), Vec::new());
        while seen.len() < 2 * EACH {
            let mut some = receive(&mut source, 1).await;
            let _ = source.receive(Room::of(64), &mut some).now_or_never();
            seen.extend(some.iter().map(|delivery| delivery.message.id.to_string()));
            let broker = Arc::clone(&broker);
            settling.spawn(async move {
                let done = |delivery: Delivery| Settlement::plain(delivery, Outcome::Ack);
                broker.settle(&some.into_iter().map(done).collect::<Vec<_>>()).await
            });
        }
        for settled in settling.join_all().await.into_iter().flatten() {
            settled.unwrap();
        }
        seen
    };
    let (mut seen, (), ()) = tokio::join!(reading, publishing(&stage.name, "s"), publishing(&copies, "c"));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 2 * EACH, "each came once, so that no channel was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stream_keeps_is_read_again_by_offset_and_by_time() {
    let Some(stage) = Stage::shared("reread") else { return };
    let flow = stream(&stage, 6).await;
    let broker = broker(&flow, &Arc::default()).await;
    let read = async |range: &SourceRange| {
        let mut shelves = broker.reread(&subscription(&flow), range).await.unwrap();
        let mut found = Vec::new();
        loop {
            let some = shelves.next(2).await.unwrap();
            if some.is_empty() {
                return found;
            }
            found.extend(some.into_iter().map(|one| one.delivery));
        }
    };
    assert_eq!(ids(&read(&SourceRange::Offsets(vec![(0, 1, 3)])).await), ["1", "2", "3"]);
    let ever = SourceRange::Since { from: Timestamp::from_millis(0), to: None };
    assert_eq!(read(&ever).await.len(), 6);
    assert_eq!(ids(&read(&SourceRange::Offsets(vec![(0, 4, 90)])).await), ["4", "5"]);
    assert!(read(&SourceRange::Offsets(vec![(0, 6, 90)])).await.is_empty(), "there is nothing yet");
    let wrong = broker.reread(&subscription(&flow), &SourceRange::Offsets(vec![(7, 1, 3)])).await;
    assert!(matches!(wrong.err(), Some(PortError::Refused(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_anybody_who_keeps_its_position_is_refused() {
    let Some(stage) = Stage::shared("unkept") else { return };
    let flow = stream(&stage, 0).await;
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let refused = broker.subscribe(&subscription(&flow)).await.err().expect("a refusal");
    assert!(refused.to_string().contains("is a stream"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_falls_silent_before_the_last_offset_is_not_taken_for_read() {
    let Some(stage) = Stage::shared("silent") else { return };
    // More than are on their way at once.
    let mut flow = stream(&stage, 250).await;
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = broker(&flow, &Arc::default()).await;
    let range = SourceRange::Offsets(vec![(0, 0, 249)]);
    let mut shelves = broker.reread(&subscription(&flow), &range).await.unwrap();
    assert_eq!(shelves.next(1).await.unwrap().len(), 1);
    say.send(Say::Mute).unwrap();
    let silent = loop {
        match shelves.next(50).await {
            Ok(some) => assert!(!some.is_empty(), "it was taken for read"),
            Err(error) => break error,
        }
    };
    assert!(silent.to_string().contains("249"), "{silent}");
}
