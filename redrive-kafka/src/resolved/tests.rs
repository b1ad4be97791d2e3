use super::*;
use crate::look::tests::Place;

fn resolved(number: u128, state: EntryState) -> Resolved {
    Resolved { entry: EntryId::from_u128(number), state }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_word_on_each_is_kept() {
    let Some(place) = Place::new() else { return };
    let look = place.look();
    assert_eq!(read(&look).await.unwrap(), [], "a topic that is not there has nothing");
    place.topic(&names::resolved(&place.flow), 1, &[("cleanup.policy", "compact")]).await;
    assert_eq!(read(&look).await.unwrap(), []);
    let first = [
        resolved(1, EntryState::Discarded),
        resolved(2, EntryState::Archived),
        resolved(3, EntryState::Recovered),
    ];
    keep(&look, &first).await.unwrap();
    assert_eq!(read(&look).await.unwrap(), first);
    // One was restored, one was put away after it had been dropped.
    keep(&look, &[resolved(2, EntryState::Dead), resolved(1, EntryState::Archived)]).await.unwrap();
    keep(&look, &[resolved(4, EntryState::Parked)]).await.unwrap();
    keep(&look, &[]).await.unwrap();
    let expected = [
        resolved(1, EntryState::Archived),
        resolved(3, EntryState::Recovered),
        resolved(4, EntryState::Parked),
    ];
    assert_eq!(read(&look).await.unwrap(), expected);
}
