//! Lanes: who is held behind whom, and who goes when.

use redrive_core::Reason;
use redrive_engine::port::{
    Asked, Broker, Deed, Delivery, EntryState, Filter, LaneName, Ledger, NewMessage, NewReplay, Order,
    Outcome, Quarantine, Retention, Selection, Settlement, Source, Standing,
};
use redrive_sqlite::Store;

use crate::fixture::{
    Fixture, ack, ann, assert_sound, at, entry_of, failed, held, ids, is_empty, publish, recovered,
    settle_one, subscribe, take, text,
};
use crate::settling::rusqlite_of;

fn lane() -> LaneName {
    LaneName::of_key(b"customer-1")
}

/// A flow with one lane.
struct World {
    fixture: Fixture,
    store: Store,
    source: Box<dyn Source>,
}

impl World {
    async fn new() -> Self {
        let fixture = Fixture::new();
        let store = fixture.open();
        let source = subscribe(&store, "orders").await;
        Self { fixture, store, source }
    }

    async fn take(&mut self, count: usize) -> Vec<Delivery> {
        take(&mut self.source, count).await
    }

    /// Takes one message, which has to be this one.
    async fn take_one(&mut self, id: &str) -> Delivery {
        let delivery = self.take(1).await.remove(0);
        assert_eq!(delivery.message.id.as_str(), id);
        delivery
    }

    /// An attempt of a message of the lane fails.
    async fn fails(&self, delivery: &Delivery, outcome: Outcome) {
        self.fails_in(delivery, outcome, lane()).await;
    }

    async fn fails_in(&self, delivery: &Delivery, outcome: Outcome, lane: LaneName) {
        let failed = failed(delivery, outcome, "503", self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane), ..failed }).await;
    }

    async fn hold(&self, delivery: &Delivery, in_lane: LaneName) {
        let held = held(delivery, in_lane, self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane()), ..held }).await;
    }

    async fn recovers(&self, delivery: &Delivery) {
        let recovered = recovered(delivery, self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane()), ..recovered }).await;
    }

    async fn standing(&self, delivery: Option<&Delivery>) -> Standing {
        let entry = delivery.and_then(|delivery| delivery.trail.entry_id.as_ref()?.parse().ok());
        let asked = [Asked { lane: lane(), entry }];
        self.store.standings("orders", &asked).await.unwrap().remove(0)
    }

    async fn state(&self, id: &str) -> EntryState {
        self.store.entry(id).await.unwrap().unwrap().state
    }

    async fn act(&self, deed: Deed, id: &str) {
        let selection = Selection::Ids(vec![id.to_owned()]);
        let report = self.store.act(&deed, &selection, &ann(), self.fixture.now()).await.unwrap();
        assert_eq!((report.done, report.refused), (1, Vec::new()), "{} {id}", deed.name());
    }

    /// A head that failed, and followers held behind it.
    async fn with_followers(outcome: Outcome, followers: &[&str]) -> Self {
        let mut world = Self::new().await;
        publish(&world.store, "orders", &["head"]).await;
        publish(&world.store, "orders", followers).await;
        let taken = world.take(followers.len() + 1).await;
        world.fails(&taken[0], outcome).await;
        for follower in &taken[1..] {
            world.hold(follower, lane()).await;
        }
        for id in followers {
            assert_eq!(world.state(id).await, EntryState::Held);
        }
        assert_sound(&world.store).await;
        world
    }

    async fn is_open(&self) {
        assert_eq!(self.standing(None).await, Standing::Open);
        assert_eq!(self.store.held_lanes("orders").await, Ok(0));
        assert_eq!(self.store.count("orders", EntryState::Held).await, Ok(0));
        assert_sound(&self.store).await;
    }
}

const TURN: Standing = Standing::Turn { skipped: Vec::new() };

fn behind(head: &str) -> Standing {
    Standing::Behind { head: Some(head.to_owned()) }
}

#[tokio::test]
async fn followers_are_kept_behind_their_head_and_go_in_order_in_growing_windows() {
    let followers: Vec<String> = (0..30).map(|n| format!("f{n:02}")).collect();
    let names: Vec<&str> = followers.iter().map(String::as_str).collect();
    let mut world = World::with_followers(Outcome::Delay { until: at(1_000) }, &names).await;
    assert!(is_empty(&world.store, &mut world.source).await);
    assert_eq!(world.standing(None).await, behind("head"));
    assert_eq!(world.store.held_lanes("orders").await, Ok(1));
    let head = world.store.entry("head").await.unwrap().unwrap();
    assert_eq!(head.followers, 30);
    let first = world.store.entry("f00").await.unwrap().unwrap();
    assert_eq!(first.held_behind.as_deref(), Some("head"));
    assert_eq!((first.attempts, first.reason.clone()), (0, Reason::PREDECESSOR_PENDING));
    assert_eq!((first.group.as_str(), first.because.as_str()), ("", "it is behind somebody"));
    assert_eq!(world.store.groups(None, 10).await.unwrap().len(), 1, "what was never tried is in no group");

    world.fixture.clock.advance(1_000);
    let retry = world.take_one("head").await;
    assert_eq!(world.standing(Some(&retry)).await, TURN);
    world.recovers(&retry).await;
    let mut seen = Vec::new();
    for window in [1, 4, 16, 9] {
        let taken = world.take(window).await;
        assert!(is_empty(&world.store, &mut world.source).await, "no more than {window}");
        for delivery in &taken {
            assert_eq!(world.standing(Some(delivery)).await, TURN);
            assert_eq!(delivery.trail.attempt, 0);
            assert_eq!(world.standing(None).await, Standing::Behind { head: None });
        }
        assert_sound(&world.store).await;
        seen.extend(taken.iter().map(|delivery| delivery.message.id.to_string()));
        for delivery in &taken {
            world.recovers(delivery).await;
        }
    }
    assert_eq!(seen, followers);
    world.is_open().await;
    let history = world.store.history(entry(&world.store, "f29").await).await.unwrap();
    let whats: Vec<_> = history.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(whats, ["held", "released", "recovered"]);
}

async fn entry(store: &Store, id: &str) -> redrive_engine::port::EntryId {
    store.entry(id).await.unwrap().unwrap().id
}

#[tokio::test]
async fn a_follower_that_fails_becomes_the_head_and_the_window_is_small_again() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4", "f5", "f6"]).await;
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    let window = world.take(4).await;
    assert_eq!(ids(&window), ["f2", "f3", "f4", "f5"]);
    world.recovers(&window[0]).await;
    world.fails(&window[1], Outcome::Delay { until: at(500) }).await;
    // Those that had been let go with it are kept again, in front of the rest.
    for delivery in &window[2..] {
        assert_eq!(world.standing(Some(delivery)).await, behind("f3"));
        world.hold(delivery, lane()).await;
    }
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("f3").await.unwrap().unwrap().followers, 3);
    assert_eq!(world.store.entry("f6").await.unwrap().unwrap().held_behind.as_deref(), Some("f3"));
    world.fixture.clock.advance(500);
    for id in ["f3", "f4"] {
        let next = world.take_one(id).await;
        assert!(is_empty(&world.store, &mut world.source).await, "one at a time after a failure");
        world.recovers(&next).await;
    }
    for next in world.take(2).await {
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_is_held_while_the_lane_opens_goes_on_and_is_not_overtaken() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["head", "f1", "f2"]).await;
    let taken = world.take(3).await;
    world.fails(&taken[0], Outcome::Delay { until: at(0) }).await;
    let retry = world.take_one("head").await;
    assert_eq!(world.standing(Some(&taken[1])).await, behind("head"));
    // The head is through before the hold arrives.
    world.recovers(&retry).await;
    assert_eq!(world.standing(None).await, Standing::Open);
    world.hold(&taken[1], lane()).await;
    assert_eq!(world.standing(Some(&taken[2])).await, Standing::Behind { head: None });
    world.hold(&taken[2], lane()).await;
    for id in ["f1", "f2"] {
        let next = world.take_one(id).await;
        assert_eq!(world.standing(Some(&next)).await, TURN);
        assert_sound(&world.store).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_was_let_go_does_not_pass_one_that_is_held_again() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4"]).await;
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    let window = world.take(3).await;
    world.fails(&window[0], Outcome::Park).await;
    world.hold(&window[1], lane()).await;
    // The head ends while the last of the window is still in hand.
    world.act(Deed::Discard, "f2").await;
    assert_eq!(world.standing(Some(&window[2])).await, Standing::Behind { head: None });
    world.hold(&window[2], lane()).await;
    for id in ["f3", "f4"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn a_restart_changes_nothing_about_a_lane() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3"]).await;
    world.act(Deed::RetryNow, "head").await;
    let head = world.take_one("head").await;
    assert_eq!(world.standing(Some(&head)).await, TURN, "tried again it is still the head");
    world.recovers(&head).await;
    let f1 = world.take_one("f1").await;
    drop(world.source);
    drop(world.store);
    world.store = world.fixture.open();
    world.source = subscribe(&world.store, "orders").await;
    assert_eq!(world.standing(None).await, Standing::Behind { head: None });
    let again = world.take_one("f1").await;
    assert_eq!(entry_of(&again), entry_of(&f1));
    assert_eq!(world.standing(Some(&again)).await, TURN);
    world.recovers(&again).await;
    for next in world.take(2).await {
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn a_head_that_is_put_aside_stays_the_head_and_one_that_is_put_away_does_not() {
    for (deed, opens) in [
        (Deed::Park, false),
        (Deed::Cancel, false),
        (Deed::RetryNow, false),
        (Deed::Discard, true),
        (Deed::Skip, true),
        (Deed::Reroute("elsewhere".to_owned()), true),
    ] {
        let mut world = World::with_followers(Outcome::Delay { until: at(1_000) }, &["f1"]).await;
        world.act(deed.clone(), "head").await;
        assert_sound(&world.store).await;
        let expected = if opens { EntryState::Waiting } else { EntryState::Held };
        assert_eq!(world.state("f1").await, expected, "{}", deed.name());
        if opens {
            let f1 = world.take_one("f1").await;
            world.recovers(&f1).await;
            world.is_open().await;
        } else {
            assert_eq!(world.standing(None).await, behind("head"));
        }
    }
}

#[tokio::test]
async fn a_replay_of_a_head_counts_its_followers_and_lets_them_go_when_it_is_through() {
    let mut world = World::with_followers(Outcome::DeadLetter, &["f1", "f2"]).await;
    let now = world.fixture.now();
    let dead = Filter { state: vec![EntryState::Dead], ..Filter::default() };
    let new = NewReplay { filter: dead, ids: Vec::new(), rate: None, max: None, canary: None };
    assert_eq!(world.store.plan_replay(&new, now).await.unwrap().followers, 2);
    let id = redrive_engine::port::EntryId::now_v7();
    world.store.begin_replay(id, &new, &ann(), now).await.unwrap();
    world.store.step_replay(id, 10, now).await.unwrap();
    let head = world.take_one("head").await;
    assert_eq!(world.standing(Some(&head)).await, TURN);
    assert_eq!(world.state("f1").await, EntryState::Held);
    world.recovers(&head).await;
    for id in ["f1", "f2"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn followers_can_be_taken_out_and_brought_back() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4"]).await;
    world.act(Deed::Discard, "f1").await;
    world.act(Deed::Discard, "f2").await;
    world.act(Deed::Park, "f3").await;
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("head").await.unwrap().unwrap().followers, 1);
    world.act(Deed::Restore, "f1").await;
    assert_eq!(world.state("f1").await, EntryState::Held, "its lane is there");
    assert_sound(&world.store).await;
    world.act(Deed::Archive, "head").await;
    for id in ["f1", "f4"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
    world.act(Deed::Restore, "f2").await;
    assert_eq!(world.state("f2").await, EntryState::Waiting, "its lane is gone");
    let f2 = world.take_one("f2").await;
    assert_eq!(world.standing(Some(&f2)).await, Standing::Open);
    world.recovers(&f2).await;
    world.is_open().await;
    assert_eq!(world.state("f3").await, EntryState::Parked);
}

#[tokio::test]
async fn one_that_was_let_go_can_be_put_aside_and_the_next_goes() {
    for deed in [Deed::Park, Deed::Cancel, Deed::Discard, Deed::Skip] {
        let mut world = World::with_followers(Outcome::Park, &["f1", "f2"]).await;
        world.act(Deed::Discard, "head").await;
        // A person who wants it sooner changes nothing: it is due.
        world.fixture.clock.advance(50);
        world.act(Deed::RetryNow, "f1").await;
        world.act(deed, "f1").await;
        assert_sound(&world.store).await;
        let f2 = world.take_one("f2").await;
        world.recovers(&f2).await;
        world.is_open().await;
    }
}

#[tokio::test]
async fn what_is_skipped_is_told_to_those_behind_it_and_to_nobody_else() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3"]).await;
    world.act(Deed::Skip, "f2").await;
    world.act(Deed::Skip, "head").await;
    assert_eq!(world.state("head").await, EntryState::Parked);
    assert_eq!(world.state("f2").await, EntryState::Parked);
    let skipped = |ids: &[&str]| Standing::Turn { skipped: ids.iter().map(ToString::to_string).collect() };
    let f1 = world.take_one("f1").await;
    assert_eq!(world.standing(Some(&f1)).await, skipped(&["head"]));
    world.recovers(&f1).await;
    let f3 = world.take_one("f3").await;
    assert_eq!(world.standing(Some(&f3)).await, skipped(&["f2", "head"]));
    world.recovers(&f3).await;
    world.is_open().await;
    let selection = Selection::Ids(vec!["head".to_owned()]);
    let report = world.store.act(&Deed::Skip, &selection, &ann(), world.fixture.now()).await.unwrap();
    assert_eq!(report.done, 0);
    assert!(report.refused[0].1.contains("stands in no lane"), "{report:?}");
}

#[tokio::test]
async fn a_follower_by_name_waits_for_the_one_it_names() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["first", "second", "third", "own"]).await;
    let taken = world.take(4).await;
    world.fails_in(&taken[0], Outcome::Park, LaneName::of_key(b"elsewhere")).await;
    let first = entry(&world.store, "first").await;
    for delivery in &taken[1..3] {
        world.hold(delivery, LaneName::after(first)).await;
    }
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("first").await.unwrap().unwrap().followers, 2);
    assert_eq!(world.store.entry("third").await.unwrap().unwrap().held_behind.as_deref(), Some("first"));
    // Its own lane is held behind the one that was kept first.
    assert_eq!(world.standing(None).await, behind("second"));
    world.hold(&taken[3], lane()).await;
    world.act(Deed::Discard, "first").await;
    let second = world.take_one("second").await;
    assert_eq!(world.standing(Some(&second)).await, TURN);
    world.fails(&second, Outcome::Park).await;
    // The third followed the first, not the second; in its own lane it is behind it all the same.
    let third = world.take_one("third").await;
    assert_eq!(world.standing(Some(&third)).await, behind("second"));
    world.hold(&third, lane()).await;
    assert_sound(&world.store).await;
    world.act(Deed::Archive, "second").await;
    for id in ["third", "own"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_names_what_has_ended_goes_on() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["m"]).await;
    let m = world.take_one("m").await;
    world.hold(&m, LaneName::after(redrive_engine::port::EntryId::now_v7())).await;
    assert_sound(&world.store).await;
    let again = world.take_one("m").await;
    world.recovers(&again).await;
    world.is_open().await;
}

#[tokio::test]
async fn messages_that_would_wait_for_each_other_need_a_person() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["a", "b", "c"]).await;
    let lanes = [b"a", b"b", b"c"].map(|key| LaneName::of_key(key));
    for (delivery, own) in world.take(3).await.iter().zip(&lanes) {
        world.fails_in(delivery, Outcome::Delay { until: world.fixture.now() }, own.clone()).await;
    }
    let taken = world.take(3).await;
    for (n, follows) in [(0, "b"), (1, "c"), (2, "a")] {
        let after = LaneName::after(entry(&world.store, follows).await);
        let held = held(&taken[n], after, world.fixture.now());
        settle_one(&world.store, Settlement { lane: Some(lanes[n].clone()), ..held }).await;
        assert_sound(&world.store).await;
    }
    assert_eq!(world.state("a").await, EntryState::Held);
    assert_eq!(world.state("b").await, EntryState::Held);
    let c = world.store.entry("c").await.unwrap().unwrap();
    assert_eq!(c.state, EntryState::Parked);
    assert!(c.because.contains("waits for it in turn"), "{}", c.because);
    world.act(Deed::RetryNow, "c").await;
    for id in ["c", "b", "a"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn a_quarantine_lets_everything_go_back_to_its_place() {
    let mut world = World::new().await;
    let acme: Quarantine = "tenant=acme".parse().unwrap();
    let order = async |world: &World, order: Order| {
        world.store.order("orders", &order, &ann(), world.fixture.now()).await.unwrap()
    };
    order(&world, Order::Quarantine(acme.clone())).await;
    publish(&world.store, "orders", &["q1", "q2", "f1", "other"]).await;
    let taken = world.take(4).await;
    world.hold(&taken[0], acme.lane()).await;
    world.hold(&taken[1], acme.lane()).await;
    assert_eq!(world.standing(None).await, behind("q1"), "its own lane is held behind it");
    world.hold(&taken[2], lane()).await;
    ack(&world.store, &taken[3]).await;
    assert_sound(&world.store).await;
    let q1 = world.store.entry("q1").await.unwrap().unwrap();
    assert_eq!((q1.state, q1.held_behind.as_deref()), (EntryState::Held, Some("tenant=acme")));
    assert_eq!((q1.followers, world.store.controls().await.unwrap()[0].held), (1, 2));

    publish(&world.store, "orders", &["newer"]).await;
    assert_eq!(order(&world, Order::Release(acme.clone())).await, 2);
    assert_sound(&world.store).await;
    let back = world.take(3).await;
    assert_eq!(ids(&back), ["q1", "q2", "newer"]);
    assert_eq!(world.standing(Some(&back[0])).await, TURN);
    assert_eq!(world.standing(Some(&back[1])).await, behind("q1"));
    world.hold(&back[1], lane()).await;
    world.recovers(&back[0]).await;
    for id in ["q2", "f1"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;

    // A hold that arrives after the release keeps nobody for ever.
    world.hold(&back[2], acme.lane()).await;
    assert_sound(&world.store).await;
    assert_eq!(world.state("newer").await, EntryState::Waiting);
    world.fixture.clock.advance(1_000);
    let again = world.take_one("newer").await;
    world.recovers(&again).await;
    world.is_open().await;
}

#[tokio::test]
async fn what_is_read_ahead_does_not_pass_what_a_quarantine_lets_go() {
    let mut world = World::new().await;
    let key: Quarantine = "key=k".parse().unwrap();
    world.store.order("orders", &Order::Quarantine(key.clone()), &ann(), world.fixture.now()).await.unwrap();
    let old: Vec<String> = (0..20).map(|n| format!("old{n:02}")).collect();
    let names: Vec<&str> = old.iter().map(String::as_str).collect();
    publish(&world.store, "orders", &names).await;
    for delivery in world.take(20).await {
        settle_one(&world.store, held(&delivery, key.lane(), world.fixture.now())).await;
    }
    publish(&world.store, "orders", &["n1", "n2", "n3"]).await;
    world.take_one("n1").await;
    let released = world.store.order("orders", &Order::Release(key), &ann(), world.fixture.now()).await;
    assert_eq!(released, Ok(20));
    let taken = world.take(22).await;
    assert_eq!(ids(&taken)[..20], names);
    assert_eq!(ids(&taken)[20..], ["n2", "n3"]);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn retention_leaves_lanes_alone() {
    let mut world = World::with_followers(Outcome::Park, &["f1"]).await;
    world.fixture.clock.advance(100 * 86_400_000);
    let none = Some(std::time::Duration::ZERO);
    let retention = Retention { finished: none, discarded: none, archived: none, processed: none };
    assert_eq!(world.store.tidy(&retention, 100, world.fixture.now()).await.unwrap(), 0);
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    world.fixture.clock.advance(1);
    assert_eq!(world.store.tidy(&retention, 100, world.fixture.now()).await.unwrap(), 2);
    world.is_open().await;
}

#[tokio::test]
async fn retries_are_bounded_and_fresh_messages_come_beyond_them() {
    let mut world = World::new().await;
    let past = |id: &str| NewMessage { due: Some(at(-10)), ..text(id) };
    world.store.publish("orders", vec![past("r1"), past("r2"), past("r3")]).await.unwrap();
    publish(&world.store, "orders", &["a", "b"]).await;
    let room = |retries| redrive_engine::port::Room { retries, ..redrive_engine::port::Room::of(10) };
    let mut taken = Vec::new();
    world.source.receive(room(1), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["r1", "a", "b"]);
    publish(&world.store, "orders", &["c"]).await;
    taken.clear();
    world.source.receive(room(0), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["c"]);
    taken.clear();
    world.source.receive(room(10), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["r2", "r3"]);
}

#[tokio::test]
async fn what_an_older_file_held_goes_on() {
    let fixture = Fixture::new();
    {
        let sql = rusqlite_of(&fixture);
        sql.execute_batch(include_str!("../../src/schema/v1.sql")).unwrap();
        sql.execute_batch(
            "PRAGMA application_id = 0x52445256; PRAGMA user_version = 1;
             INSERT INTO queues (id, name, created) VALUES (1, 'orders', 0);
             INSERT INTO messages (id, queue, mid, enqueued, size, entry) VALUES (1, 1, 'old', 0, 0, 1);
             INSERT INTO entries (eid, id, flow, state, message, mid, size, attempts, first_failed, last_failed,
                 changed, class, reason, grp, lane, source_kind, source_name, error_message, because, chain)
             VALUES (1, x'01a1e2348bbb704bb5adf5eb5e99d153', 'orders', 1, 1, 'old', 0, 1, 1, 1, 1, 'UNKNOWN',
                 'UNKNOWN_FAILURE', 'g', 'c1', 'embedded', 'orders', '', '', '[]');
             INSERT INTO failure_groups VALUES ('orders', 'g', 'UNKNOWN', 'UNKNOWN_FAILURE', NULL, '', 1, 1);
             INSERT INTO counts VALUES ('orders', 1, 1);
             INSERT INTO group_counts VALUES ('orders', 'g', 1, 1);
             INSERT INTO lanes (flow, lane, count) VALUES ('orders', 'c1', 1);",
        )
        .unwrap();
    }
    let store = fixture.open();
    assert_sound(&store).await;
    let mut source = subscribe(&store, "orders").await;
    let old = take(&mut source, 1).await.remove(0);
    ack(&store, &old).await;
    assert_eq!(store.entry("old").await.unwrap().unwrap().state, EntryState::Recovered);
    assert_sound(&store).await;
}
