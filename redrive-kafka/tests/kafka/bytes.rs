//! Bytes are carried unchanged, whatever they are.

use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use rdkafka::producer::FutureRecord;
use redrive_engine::port::{Broker as _, NewMessage, Outcome, Published, Refusal};

use crate::stage::{PATIENCE, Seat, Stage, headers};

/// Key, body and headers of a record.
type One<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, Vec<(&'a str, Option<&'a [u8]>)>);

/// Headers as pairs, without those that Redrive wrote.
fn own(record: &OwnedMessage) -> Vec<(String, Option<Vec<u8>>)> {
    let found = record.headers().map(|all| all.iter().collect::<Vec<_>>()).unwrap_or_default();
    found
        .into_iter()
        .filter(|header| !header.key.starts_with("x-"))
        .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_read_and_copied_as_it_was() {
    let Some(stage) = Stage::shared("bytes") else { return };
    let large = [("max.message.bytes", "4000000")];
    stage.topic(&stage.name, 1, &large).await;
    stage.topic(&format!("{}.dlq", stage.name), 1, &large).await;
    stage.topic(&format!("{}.parking", stage.name), 1, &large).await;

    let megabyte = vec![0xfe_u8; 1 << 20];
    let all_bytes: Vec<u8> = (0..=255).collect();
    let producer = stage.producer();
    let none: Option<&[u8]> = None;
    let records: Vec<One<'_>> = vec![
        (Some(b"key"), Some(b"body"), vec![]),
        (Some(b"tombstone"), None, vec![("a", Some(b"1"))]),
        (None, Some(b""), vec![("empty", Some(b"")), ("null", none)]),
        (
            Some(b""),
            Some(&all_bytes),
            vec![("twice", Some(b"1")), ("other", Some(&all_bytes)), ("twice", Some(b"2"))],
        ),
        (None, None, vec![("", Some(b"no name")), ("\u{e4}\u{f6} \u{1f980}", Some(b"\xff\x00"))]),
        (Some(&all_bytes), Some(b"large header"), vec![("large", Some(&megabyte))]),
    ];
    for (key, body, with) in &records {
        let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&stage.name).headers(headers(with));
        record.key = *key;
        record.payload = *body;
        producer.send(record, PATIENCE).await.unwrap();
    }

    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(records.len()).await;
    for (delivery, (key, body, with)) in taken.iter().zip(&records) {
        assert_eq!(delivery.message.key.as_deref(), *key);
        assert_eq!(delivery.message.body.as_deref(), *body);
        let read: Vec<(&str, Option<&[u8]>)> =
            delivery.message.headers.iter().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
        assert_eq!(&read, with);
        let place = format!("{}/0/{}", stage.name, delivery.tag.number);
        assert_eq!(delivery.message.id, place.as_str());
    }
    let settled = seat.end(&taken, &Outcome::DeadLetter).await;
    let copies = stage.read(&format!("{}.dlq", stage.name)).await;
    assert_eq!(copies.len(), records.len());
    for (((copy, settled), (key, body, with)), delivery) in
        copies.iter().zip(&settled).zip(&records).zip(&taken)
    {
        assert_eq!(copy.key(), *key);
        assert_eq!(copy.payload(), *body);
        let with: Vec<(String, Option<Vec<u8>>)> =
            with.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect();
        assert_eq!(own(copy), with);
        let place = settled.copy.clone().unwrap();
        assert_eq!((&*place.name, place.partition), (&*format!("{}.dlq", stage.name), Some(0)));
        assert_eq!(place.offset, Some(copy.offset()), "{:?}", delivery.tag);
    }
    seat.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_is_read_under_its_id() {
    let Some(stage) = Stage::shared("published") else { return };
    stage.topics(3).await;
    let mut seat = Seat::new(stage.flow()).await;
    let messages = vec![
        NewMessage {
            id: Some("mine".to_owned()),
            key: Some("k".into()),
            body: Some("1".into()),
            ..NewMessage::default()
        },
        NewMessage { body: None, content_type: Some("text/plain".to_owned()), ..NewMessage::default() },
    ];
    let published =
        seat.broker.publish(&format!("kafka://main/{}?group=g", stage.name), messages).await.unwrap();
    let ids: Vec<String> = published
        .into_iter()
        .map(|one| match one {
            Published::Accepted(id) => id,
            Published::Refused(refusal) => panic!("{refusal}"),
        })
        .collect();
    assert_eq!(ids[0], "mine");
    let mut taken = seat.take(2).await;
    taken.sort_by_key(|one| one.message.body.is_none());
    assert_eq!(taken[0].message.id, "mine");
    assert_eq!(taken[1].message.id, ids[1].as_str());
    assert_eq!(taken[1].message.body, None);
    assert_eq!(taken[1].message.content_type.as_deref(), Some("text/plain"));
    seat.end(&taken, &Outcome::Ack).await;
    let missing = seat.broker.publish("no-such-topic-anywhere", vec![NewMessage::default()]).await.unwrap();
    assert!(matches!(missing[..], [Published::Refused(Refusal::NotFound { .. })]), "{missing:?}");
    seat.leave().await;
}
