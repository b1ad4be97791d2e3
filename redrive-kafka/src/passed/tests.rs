use redrive_core::Headers;

use super::*;
use crate::look::tests::Place;
use crate::record;

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_passed_when_its_offset_is_finished() {
    let Some(place) = Place::new() else { return };
    let level = format!("{}.retry.10s", place.flow.flow);
    place.topic(&level, 2, &[]).await;
    place.write(&level, 0, vec![(Some("x"), Headers::new()); 8]).await;
    place.write(&level, 1, vec![(Some("x"), Headers::new()); 2]).await;
    let look = place.look();
    let name: Arc<str> = level.as_str().into();
    let copies: Vec<SourceRef> = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 5), (1, 0), (5, 0)]
        .into_iter()
        .map(|(partition, offset)| record::place(&name, partition, offset))
        .collect();
    // Nobody has committed anything; a partition that is not there has nothing left to wait.
    let passed_now = passed(&look, &copies).await.unwrap();
    assert_eq!(passed_now, [false, false, false, false, false, false, true]);
    let position = Position { lowest: 2, beyond: vec![(3, 4), (6, 8)] };
    place.commit(&place.flow.groups.retry, &level, 0, &position).await;
    let passed_now = passed(&look, &copies).await.unwrap();
    assert_eq!(passed_now, [true, true, false, true, false, false, true]);
    // What was left to the delay group waits until that has passed it too.
    place.commit(&place.flow.groups.delay, &level, 0, &Position { lowest: 1, beyond: vec![(3, 6)] }).await;
    let passed_now = passed(&look, &copies).await.unwrap();
    assert_eq!(passed_now, [true, false, false, true, false, false, true]);
    // A place that is none of the flow's delay topics says nothing.
    let other: Arc<str> = "elsewhere".into();
    let embedded = SourceRef { kind: "embedded".into(), ..record::place(&name, 0, 0) };
    let strange = [record::place(&other, 0, 0), embedded];
    assert_eq!(passed(&look, &strange).await.unwrap(), [false, false]);
}
