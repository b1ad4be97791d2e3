use rdkafka::admin::AdminOptions;
use redrive_core::Headers;

use super::*;
use crate::look::tests::{LIMIT, Place};
use crate::record;

fn text(message: &Message) -> &str {
    std::str::from_utf8(message.body.as_deref().unwrap()).unwrap()
}

fn bodies(found: &[Option<Message>]) -> Vec<Option<&str>> {
    found.iter().map(|found| found.as_ref().map(text)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_read_by_their_places_and_what_is_gone_is_told_from_what_cannot_be_read() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let topic = place.flow.topics[0].clone();
    let texts: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    place.write(&topic, 1, texts.iter().map(|text| (Some(text.as_str()), Headers::new())).collect()).await;
    place.write(&topic, 0, vec![(Some("other"), Headers::new())]).await;
    place.write_in_transaction(&topic, 0, "after").await;
    let look = place.look();
    let name: Arc<str> = topic.as_str().into();
    let at = |partition, offset| record::place(&name, partition, offset);
    let none: Arc<str> = format!("{name}.none").into();
    // In any order, one twice, a short and a long way apart, of several partitions, and of a topic that is not there.
    let places = [at(1, 499), at(0, 0), at(1, 3), record::place(&none, 0, 0), at(1, 3), at(1, 7), at(0, 1)];
    let found = fetch_all(&look, &places).await.unwrap();
    assert_eq!(
        bodies(&found),
        [Some("499"), Some("other"), Some("3"), None, Some("3"), Some("7"), Some("after")]
    );
    // What is beyond the end may be a record that nobody may read yet: it is not said to be gone.
    let error = fetch_all(&look, &[at(1, 500)]).await.unwrap_err();
    assert!(error.to_string().contains(&format!("{name}/1/500")), "{error}");

    let admin = client::admin(&place.flow.client).unwrap();
    let mut before = TopicPartitionList::new();
    before.add_partition_offset(&topic, 1, Offset::Offset(5)).unwrap();
    admin.delete_records(&before, &AdminOptions::new().operation_timeout(Some(LIMIT))).await.unwrap();
    tokio::task::spawn_blocking(move || drop(admin)).await.unwrap();
    let found = fetch_all(&look, &[at(1, 3), at(1, 4), at(1, 5)]).await.unwrap();
    assert_eq!(bodies(&found), [None, None, Some("5")]);
    // What has just been committed is readable a moment later.
    let late = vec![(Some("late"), Headers::new())];
    let last = [at(1, 500)];
    let (found, _) = tokio::join!(fetch_all(&look, &last), place.write(&topic, 1, late));
    assert_eq!(bodies(&found.unwrap()), [Some("late")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expires_before_long_is_told_by_the_settings_of_its_topic() {
    let Some(place) = Place::new() else { return };
    let now =
        Timestamp::from_millis(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap());
    let minutes = |n: i64| now.as_millis() - n * 60_000;
    let of = |kind: &str| -> Arc<str> { format!("{}.{kind}", place.flow.flow).into() };
    let (hour, ever, bytes, compacts) = (of("hour"), of("ever"), of("bytes"), of("compacts"));
    place.topic(&hour, 2, &[("retention.ms", "3600000")]).await;
    place.topic(&ever, 1, &[("retention.ms", "-1")]).await;
    place.topic(&bytes, 1, &[("retention.ms", "-1"), ("retention.bytes", "1000000")]).await;
    place.topic(&compacts, 1, &[("retention.ms", "-1"), ("cleanup.policy", "compact")]).await;
    // A tenth of an hour before the end: what is older than 54 minutes.
    for (body, age) in [("old", 58), ("older", 55), ("young", 53), ("late", 57), ("new", 0)] {
        place.write_at(&hour, 0, body, minutes(age)).await;
    }
    place.write_at(&hour, 1, "old", minutes(56)).await;
    place.write_at(&ever, 0, "old", minutes(100_000)).await;
    let missing = of("missing");
    let places = [
        record::place(&hour, 0, 0),
        record::place(&hour, 1, 0),
        record::place(&ever, 0, 0),
        record::place(&bytes, 0, 0),
        record::place(&compacts, 0, 0),
        record::place(&missing, 0, 0),
    ];
    let limits = expiring(&place.look(), &places, now).await.unwrap();
    let all = Some(i64::MAX);
    assert_eq!(limits, [Some(2), all, None, all, all, None]);
}

#[test]
fn a_body_is_copied_a_tenth_of_its_time_before_its_end_and_a_minute_at_least() {
    let now = Timestamp::from_millis(10_000_000_000);
    let left_alone = |kept: u64| now.as_millis() - oldest(now, Duration::from_secs(kept)).as_millis();
    assert_eq!(left_alone(3_600), 3_240_000);
    assert_eq!(left_alone(300), 240_000);
    assert_eq!(left_alone(30), 0);
}
