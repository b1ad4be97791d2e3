use rdkafka::ClientConfig;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{Carried, DeliveryParts};

use super::*;
use crate::record;

const ALL: Allowance = Allowance { messages: 100, bytes: 1 << 20 };

/// A member with these offsets of one partition in the flow's hands.
fn member(waits: bool, offsets: std::ops::Range<u64>) -> (Member, Vec<Delivery>) {
    let mut config = ClientConfig::new();
    config.set("group.id", "nobody").set("bootstrap.servers", "127.0.0.1:1");
    let consumer: BaseConsumer<Watch> = config.create_with_context(Watch::default()).unwrap();
    let ties = Ties {
        arrived: Arc::default(),
        revoked: mpsc::unbounded_channel().0,
        epochs: Arc::default(),
        first_stream: 0,
        metadata_room: 2_048,
    };
    let member = Member::new("nobody", waits, Arc::new(consumer), ties);
    let spot = member.open("orders", 0, None);
    let read = |number: u64| {
        Delivery::from(DeliveryParts {
            tag: Tag { stream: spot.stream, epoch: spot.epoch, number },
            message: Message::default(),
            trail: Carried::default(),
            source: record::place(&spot.topic, 0, number.cast_signed()),
            ready_at: Timestamp::from_millis(0),
            redelivered: false,
        })
    };
    let mut all: Vec<Delivery> = offsets.map(read).collect();
    member.take_in(&mut all);
    for due in all {
        member.is_due(due);
    }
    let mut given = Vec::new();
    member.hand_out(ALL, &mut given);
    (member, given)
}

fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|one| one.tag.number).collect()
}

#[test]
fn what_is_given_back_comes_again_in_its_order() {
    for waits in [false, true] {
        let (member, given) = member(waits, 0..4);
        assert_eq!(numbers(&given), [0, 1, 2, 3]);
        let back: Vec<&Delivery> = given[..3].iter().collect();
        assert_eq!(member.give_back(&back), [true, true, true]);
        assert_eq!(member.give_back(&back[..1]), [false], "it is not out any more");
        let mut again = Vec::new();
        member.hand_out(ALL, &mut again);
        assert_eq!(numbers(&again), [0, 1, 2], "waits: {waits}");
    }
}

/// Somebody who reads all the while takes what is given back whole: one that came alone would be overtaken by those behind
/// it, once they are back too.
#[test]
fn what_is_given_back_together_comes_together() {
    let (member, mut given) = member(false, 0..20);
    let member = &member;
    for _ in 0..2_000 {
        let back: Vec<&Delivery> = given.iter().collect();
        let came = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut came = Vec::new();
                while came.is_empty() {
                    member.hand_out(ALL, &mut came);
                }
                came
            });
            member.give_back(&back);
            reading.join().unwrap()
        });
        assert_eq!(numbers(&came), (0..20).collect::<Vec<_>>());
        given = came;
    }
}
