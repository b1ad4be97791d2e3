//! Files that earlier versions wrote.

use redrive_engine::port::{Broker, Deed, EntryState, Ledger, ReplayState, Selection, Subscription, home_of};

use crate::fixture::{Fixture, ack, ann, assert_sound, ids, publish, subscribe, take};
use crate::settling::rusqlite_of;

/// Every earlier version, as a file that it wrote: the same messages and entries in each.
const OLDER: &[(u32, &str)] =
    &[(1, include_str!("../files/schema-1.sql")), (3, include_str!("../files/schema-3.sql"))];

fn written_by(version: &str) -> Fixture {
    let fixture = Fixture::new();
    rusqlite_of(&fixture).execute_batch(version).unwrap();
    fixture
}

/// The layout as the file describes itself.
fn layout(fixture: &Fixture) -> Vec<(String, String, Option<String>)> {
    let sql = rusqlite_of(fixture);
    let mut statement = sql.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn version(fixture: &Fixture) -> u32 {
    rusqlite_of(fixture).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_older_file_gets_the_layout_of_a_new_one() {
    let new = Fixture::new();
    drop(new.open());
    for (older, sql) in OLDER {
        let fixture = written_by(sql);
        assert_eq!(version(&fixture), *older);
        drop(fixture.open());
        assert_eq!(version(&fixture), version(&new), "from schema {older}");
        assert_eq!(layout(&fixture), layout(&new), "from schema {older}; was a step edited?");
    }
}

#[tokio::test]
async fn what_an_older_file_holds_goes_on() {
    for (older, sql) in OLDER {
        let fixture = written_by(sql);
        let store = fixture.open();
        assert_sound(&store).await;
        let state = async |id: &str| store.entry(id).await.unwrap().map(|entry| entry.state);
        for (id, expected) in [
            ("waits", EntryState::Waiting),
            ("dead", EntryState::Dead),
            ("parked", EntryState::Discarded),
            ("recovers", EntryState::Recovered),
        ] {
            assert_eq!(state(id).await, Some(expected), "schema {older}: {id}");
        }
        assert_eq!(store.processed("orders", &["recovers", "waits"]).await.unwrap(), [true, false]);
        let returns =
            store.queues().await.unwrap().into_iter().find(|queue| queue.name == "returns").unwrap();
        assert_eq!((returns.limit, returns.dedup_ms, returns.depth.ready), (Some(50), Some(60_000), 1));
        assert_eq!(store.audit(None, 10).await.unwrap().len(), 3, "schema {older}");
        let replay = store.replays(10).await.unwrap().remove(0);
        assert_eq!((replay.state, replay.total), (ReplayState::Paused, 1));

        // And it can be worked with: restored, replayed, delivered, published to.
        let restore = Selection::Ids(vec!["parked".to_owned()]);
        assert_eq!(store.act(&Deed::Restore, &restore, &ann(), fixture.now()).await.unwrap().done, 1);
        store.steer_replay(replay.id, ReplayState::Running, &ann(), fixture.now()).await.unwrap();
        assert_eq!(store.step_replay(replay.id, 10, fixture.now()).await.unwrap().sent, 1);
        publish(&store, "orders", &["new"]).await;
        fixture.clock.advance(120_000);
        let mut source = subscribe(&store, "orders").await;
        let taken = take(&mut source, 5).await;
        let mut all = ids(&taken);
        all.sort_unstable();
        assert_eq!(all, ["dead", "later", "new", "ready", "waits"], "schema {older}");
        for delivery in &taken {
            ack(&store, delivery).await;
        }
        assert_eq!(state("dead").await, Some(EntryState::Recovered), "schema {older}");
        assert_sound(&store).await;
    }
}

#[tokio::test]
async fn a_queue_that_has_the_name_of_a_home_becomes_one_with_all_that_lies_in_it() {
    let fixture = written_by(OLDER[1].1);
    let queue = "INSERT INTO queues (id, name, ready, waiting, created) VALUES (3, 'orders.ledger', 1, 0, 1);
                 INSERT INTO messages (id, queue, mid, due, enqueued, size) VALUES (8, 3, 'old', 0, 1, 0);";
    rusqlite_of(&fixture).execute_batch(queue).unwrap();
    let store = fixture.open();
    assert_sound(&store).await;
    let subscription = Subscription::new("orders", home_of("orders"));
    let mut source = store.subscribe(&subscription).await.unwrap();
    // Its ids may repeat from now on, beside those that were there before.
    publish(&store, "orders.ledger", &["old", "old"]).await;
    let taken = take(&mut source, 3).await;
    assert_eq!(ids(&taken), ["old", "old", "old"]);
    for delivery in &taken {
        ack(&store, delivery).await;
    }
    assert_sound(&store).await;
}
