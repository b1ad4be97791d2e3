//! A flow with one lane, and short ways through it.

use redrive_engine::port::{
    Asked, Deed, Delivery, EntryId, EntryState, LaneName, Ledger, Outcome, Selection, Settlement, Source,
    Standing,
};
use redrive_sqlite::Store;

use crate::fixture::{
    Fixture, ann, assert_sound, failed, held, publish, recovered, settle_one, subscribe, take,
};

pub(super) fn lane() -> LaneName {
    LaneName::of_key(b"customer-1")
}

/// A flow with one lane.
pub(super) struct World {
    pub(super) fixture: Fixture,
    pub(super) store: Store,
    pub(super) source: Box<dyn Source>,
}

impl World {
    pub(super) async fn new() -> Self {
        let fixture = Fixture::new();
        let store = fixture.open();
        let source = subscribe(&store, "orders").await;
        Self { fixture, store, source }
    }

    pub(super) async fn take(&mut self, count: usize) -> Vec<Delivery> {
        take(&mut self.source, count).await
    }

    /// Takes one message, which has to be this one.
    pub(super) async fn take_one(&mut self, id: &str) -> Delivery {
        let delivery = self.take(1).await.remove(0);
        assert_eq!(delivery.message.id.as_str(), id);
        delivery
    }

    /// An attempt of a message of the lane fails.
    pub(super) async fn fails(&self, delivery: &Delivery, outcome: Outcome) {
        self.fails_in(delivery, outcome, lane()).await;
    }

    pub(super) async fn fails_in(&self, delivery: &Delivery, outcome: Outcome, lane: LaneName) {
        let failed = failed(delivery, outcome, "503", self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane), ..failed }).await;
    }

    pub(super) async fn hold(&self, delivery: &Delivery, in_lane: LaneName) {
        let held = held(delivery, in_lane, self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane()), ..held }).await;
    }

    pub(super) async fn recovers(&self, delivery: &Delivery) {
        let recovered = recovered(delivery, self.fixture.now());
        settle_one(&self.store, Settlement { lane: Some(lane()), ..recovered }).await;
    }

    pub(super) async fn standing(&self, delivery: Option<&Delivery>) -> Standing {
        let entry = delivery.and_then(|delivery| delivery.trail.entry_id.as_ref()?.parse().ok());
        let asked = [Asked { lane: lane(), entry, read_at: None }];
        self.store.standings("orders", &asked).await.unwrap().remove(0)
    }

    pub(super) async fn state(&self, id: &str) -> EntryState {
        self.store.entry(id).await.unwrap().unwrap().state
    }

    pub(super) async fn act(&self, deed: Deed, id: &str) {
        let selection = Selection::Ids(vec![id.to_owned()]);
        let report = self.store.act(&deed, &selection, &ann(), self.fixture.now()).await.unwrap();
        assert_eq!((report.done, report.refused), (1, Vec::new()), "{} {id}", deed.name());
    }

    /// A head that failed, and followers held behind it.
    pub(super) async fn with_followers(outcome: Outcome, followers: &[&str]) -> Self {
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

    pub(super) async fn is_open(&self) {
        assert_eq!(self.standing(None).await, Standing::Open);
        assert_eq!(self.store.held_lanes("orders").await, Ok(0));
        assert_eq!(self.store.count("orders", EntryState::Held).await, Ok(0));
        assert_sound(&self.store).await;
    }
}

pub(super) const TURN: Standing = Standing::Turn { skipped: Vec::new(), entry: None };

pub(super) fn behind(head: &str) -> Standing {
    Standing::Behind { head: Some(head.to_owned()) }
}

pub(super) async fn entry(store: &Store, id: &str) -> EntryId {
    store.entry(id).await.unwrap().unwrap().id
}
