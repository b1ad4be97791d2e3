use rdkafka::consumer::BaseConsumer;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{Carried, Delivery, DeliveryParts, Tag};
use tokio::sync::{Notify, mpsc as channel};

use super::*;
use crate::look;
use crate::look::tests::Place;

use crate::reader::{Allowance, Ties, Watch};
use crate::record::{self, Spot};
use crate::{SettleMode, client};

/// More than what a broker takes as a commit's text can hold, where every second one is finished.
const MANY: i64 = 40_000;

/// A member of two partitions that is asked to hand out more than can be written down in a commit.
async fn member(place: &Place) -> Arc<Member> {
    place.source(2).await;
    let (config, group) = (client::consumer(&place.flow, &place.flow.groups.main), &place.flow.groups.main);
    let consumer: BaseConsumer<Watch> = config.create_with_context(Watch::default()).unwrap();
    let ties = Ties {
        arrived: Arc::new(Notify::new()),
        revoked: channel::unbounded_channel().0,
        epochs: Arc::default(),
        first_stream: 0,
        metadata_room: 1 << 20,
    };
    Arc::new(Member::new(group, false, Arc::new(consumer), ties))
}

/// Hands out everything up to an offset.
fn hand_out(member: &Member, spot: &Spot, offsets: std::ops::Range<i64>) -> Vec<Tag> {
    let read = |offset: i64| {
        let tag = Tag { stream: spot.stream, epoch: spot.epoch, number: offset.cast_unsigned() };
        Delivery::from(DeliveryParts {
            tag,
            message: Message::default(),
            trail: Carried::default(),
            source: record::place(&spot.topic, spot.partition, offset),
            ready_at: Timestamp::from_millis(0),
            redelivered: false,
        })
    };
    let mut all: Vec<Delivery> = offsets.map(read).collect();
    let count = all.len();
    assert!(member.take_in(&mut all).is_empty());
    let mut given = Vec::new();
    member.hand_out(Allowance { messages: count, bytes: usize::MAX }, &mut given);
    assert_eq!(given.len(), count);
    given.into_iter().map(|one| one.tag).collect()
}

/// The broker does not take the position of one partition. That of the other one is committed all the same, and so is what
/// is settled behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_is_not_taken_keeps_no_other_partition() {
    for mode in [SettleMode::Transactional, SettleMode::Plain] {
        let Some(mut place) = Place::new() else { return };
        place.flow.settle = mode;
        let member = member(&place).await;
        let topic = place.flow.topics[0].clone();
        let settler = Settler::start(Settling {
            flow: place.flow.clone(),
            member: Arc::clone(&member),
            alarms: Arc::default(),
            topics: Arc::new(Topics::new(&place.flow.client, Arc::default()).unwrap()),
        });
        let settler = settler.unwrap();
        let bad = member.open(&topic, 0, None);
        let every_second = hand_out(&member, &bad, 0..MANY).into_iter().skip(1).step_by(2);
        let good = member.open(&topic, 1, None);
        let others = hand_out(&member, &good, 0..20);
        let entries = |tags: &[Tag]| tags.iter().map(|tag| Entry::new(*tag, Vec::new(), false)).collect();

        let first: Vec<Tag> = every_second.chain(others[..10].iter().copied()).collect();
        let answers = settler.settle(entries(&first)).await;
        for (tag, answer) in first.iter().zip(&answers) {
            assert_eq!(answer.is_ok(), tag.stream == good.stream, "{mode:?}: {tag:?}: {answer:?}");
        }
        // What is not settled is asked for again, beside what has come since.
        let again: Vec<Tag> = others[10..].iter().chain(&first[..100]).copied().collect();
        let answers = settler.settle(entries(&again)).await;
        assert!(answers[..10].iter().all(Result::is_ok), "{mode:?}: {:?}", answers[0]);

        let group = place.flow.groups.main.clone();
        let asked = topic.clone();
        let found =
            place.look().ask_as(group, move |consumer| look::committed(consumer, &asked, 2)).await.unwrap();
        assert_eq!(found[1].as_ref().map(|position| position.lowest), Some(20), "{mode:?}: {found:?}");
        tokio::task::spawn_blocking(move || settler.end()).await.unwrap();
    }
}
