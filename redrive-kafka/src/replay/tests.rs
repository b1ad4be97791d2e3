use std::collections::BTreeMap;

use redrive_core::Headers;

use super::*;
use crate::look::tests::Place;

async fn bodies(shelves: &mut dyn Shelves) -> Vec<String> {
    let mut bodies = Vec::new();
    loop {
        let next = shelves.next(4).await.unwrap();
        if next.is_empty() {
            bodies.sort();
            return bodies;
        }
        bodies.extend(next.into_iter().map(|one| {
            String::from_utf8_lossy(one.delivery.message.body.as_deref().unwrap_or(b"-")).into_owned()
        }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_offsets_is_read_and_no_more() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let topic = place.flow.topics[0].clone();
    let texts = ["a0", "a1", "a2", "a3", "a4"];
    place.write(&topic, 0, texts.iter().map(|text| (Some(*text), Headers::new())).collect()).await;
    place.write(&topic, 1, vec![(Some("b0"), Headers::new()), (None, Headers::new())]).await;
    let look = place.look();
    let mut some = reread(&look, &SourceRange::Offsets(vec![(0, 1, 3), (1, 1, 99)])).await.unwrap();
    assert_eq!(bodies(&mut *some).await, ["-", "a1", "a2", "a3"]);
    for spans in [vec![(0, 3, 2)], vec![(0, -1, 2)], vec![(9, 0, 2)], vec![(-1, 0, 2)]] {
        assert!(matches!(reread(&look, &SourceRange::Offsets(spans)).await, Err(PortError::Refused(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_time_is_read_in_all_partitions() {
    let Some(mut place) = Place::new() else { return };
    let topic = place.flow.topics[0].clone();
    let second = format!("{topic}.second");
    place.flow.topics.push(second.clone());
    let mut times: BTreeMap<&str, i64> = BTreeMap::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let start = now.as_millis() as i64 - 3_600_000;
    place.topic(&topic, 2, &[]).await;
    place.topic(&second, 1, &[]).await;
    let all = [(&topic, 0, "a"), (&topic, 1, "b"), (&second, 0, "c"), (&topic, 0, "d")];
    for (number, (to, partition, text)) in (0..).zip(all) {
        let at = start + 1_000 * number;
        place.write_at(to, partition, text, at).await;
        times.insert(text, at);
    }
    let look = place.look();
    let time = |text: &str, by: i64| Timestamp::from_millis(times[text] + by);
    for (from, to, expected) in [
        (time("a", 0), None, vec!["a", "b", "c", "d"]),
        (time("b", 0), Some(time("d", 0)), vec!["b", "c"]),
        (time("b", 1), Some(time("d", 1)), vec!["c", "d"]),
        (time("d", 1), None, vec![]),
        (time("c", 0), Some(time("a", 0)), vec![]),
    ] {
        let mut some = reread(&look, &SourceRange::Since { from, to }).await.unwrap();
        assert_eq!(bodies(&mut *some).await, expected, "{from} to {to:?}");
    }
    // An offset of several topics is none.
    let several = reread(&look, &SourceRange::Offsets(vec![(0, 0, 1)])).await;
    assert!(matches!(several, Err(PortError::Refused(Refusal::Invalid(_)))));
}
