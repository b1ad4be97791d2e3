use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::BaseConsumer;
use redrive_core::Headers;
use redrive_engine::port::SystemClock;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::client;
use crate::copy::Copies;
use crate::look::tests::{LIMIT, Place};
use crate::position::Position;
use crate::reader::stream::Allowance;
use crate::reader::thread::Reading;
use crate::reader::watch::{Change, Watch};
use crate::reader::{Member, Ties};
use crate::settle::{Settler, Settling};
use crate::topics::Topics;

/// A reader whose partition begins behind everything that its topic has now, as one of a topic that was made anew does.
fn reader(place: &Place) -> (Reader, Arc<Member>) {
    let (flow, facts) = (place.flow.clone(), Arc::default());
    let group = flow.groups.main.clone();
    let consumer: BaseConsumer<Watch> =
        client::consumer(&flow, &group).create_with_context(Watch::default()).unwrap();
    let consumer = Arc::new(consumer);
    let (revoked, _) = mpsc::unbounded_channel();
    let ties = Ties {
        arrived: Arc::new(Notify::new()),
        revoked,
        epochs: Arc::default(),
        first_stream: 0,
        metadata_room: 2_048,
    };
    let member = Arc::new(Member::new(&group, false, Arc::clone(&consumer), ties));
    let settling = Settling {
        flow: flow.clone(),
        member: Arc::clone(&member),
        alarms: Arc::default(),
        topics: Arc::new(Topics::new(&flow.client, Arc::clone(&facts)).unwrap()),
    };
    let reading = Reading {
        copies: Arc::new(Copies::new(&flow, facts)),
        settler: Arc::new(Settler::start(settling).unwrap()),
        member: Arc::clone(&member),
        alarms: Arc::default(),
        look: place.look(),
        clock: Arc::new(SystemClock::default()),
        flow,
    };
    let mut reader = Reader::new(reading, consumer);
    let earlier = Position { lowest: 100, beyond: Vec::new() };
    reader.spots.push(member.open(&place.flow.topics[0], 0, Some(earlier)));
    (reader, member)
}

fn handed_out(member: &Member) -> Vec<u64> {
    let mut given = Vec::new();
    member.hand_out(Allowance { messages: 100, bytes: 1 << 20 }, &mut given);
    given.into_iter().map(|one| one.tag.number).collect()
}

/// Nobody finds the beginning while another partition is being taken away: what is read of the new topic meanwhile is not
/// handed out, and all of it comes once the beginning is found.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_handed_out_before_the_beginning_is_found() {
    let Some(place) = Place::new() else { return };
    place.source(1).await;
    let topic = place.flow.topics[0].clone();
    place.write(&topic, 0, vec![(Some("x"), Headers::new()); 6]).await;
    let checked = tokio::task::spawn_blocking(move || {
        let (mut reader, member) = reader(&place);
        let consumer = Arc::clone(&reader.consumer);
        let mut middle = TopicPartitionList::new();
        middle.add_partition_offset(&topic, 0, Offset::Offset(3)).unwrap();
        consumer.assign(&middle).unwrap();
        let next = || consumer.poll(LIMIT).unwrap().unwrap();
        let (third, fourth) = (next(), next());
        // A partition that is not assigned has no beginning to go to.
        consumer.unassign().unwrap();
        consumer.context().add(Change::Revoked { partitions: vec![("other".to_owned(), 0)], lost: false });

        let now = reader.now();
        let (delivery, _) = reader.carve(&third, now).unwrap();
        reader.take_in(vec![delivery], Vec::new());
        reader.go_to_beginnings();
        let (delivery, _) = reader.carve(&fourth, now).unwrap();
        reader.take_in(vec![delivery], Vec::new());
        assert!(handed_out(&member).is_empty(), "what lies before it would be left out");
        assert!(member.reach().is_empty(), "nothing of it can be committed");

        consumer.assign(&middle).unwrap();
        let end = Instant::now() + LIMIT;
        let mut came = Vec::new();
        while came.len() < 6 {
            assert!(Instant::now() < end, "only {came:?} came");
            reader.go_to_beginnings();
            reader.read();
            came.extend(handed_out(&member));
        }
        assert_eq!(came, [0, 1, 2, 3, 4, 5]);
        assert!(reader.anew.is_empty());
        reader.with.settler.end();
    });
    tokio::time::timeout(LIMIT + Duration::from_secs(30), checked).await.unwrap().unwrap();
}

/// A partition that is given up before its beginning was found is not opened again.
#[test]
fn what_is_taken_away_does_not_begin_anew() {
    let Some(place) = Place::new() else { return };
    let (mut reader, member) = reader(&place);
    let stream = reader.spots[0].stream;
    reader.begin_anew(stream);
    let partitions = vec![(place.flow.topics[0].clone(), 0)];
    reader.consumer.context().add(Change::Revoked { partitions, lost: true });
    reader.answer_group();
    reader.go_to_beginnings();
    assert!(reader.anew.is_empty() && reader.spots.is_empty() && member.reach().is_empty());
    reader.with.settler.end();
}
