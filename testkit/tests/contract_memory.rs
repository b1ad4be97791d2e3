//! The contract on stores in memory, in virtual time.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::port::{Broker, Capabilities};
use redrive_engine::{Apart, ApartOptions, FlowSpec};
use testkit::clock::TestClock;
use testkit::contract::{Fixture, Ports};
use testkit::memory::{MemoryApart, MemoryBroker, MemoryStore};

/// One store for the broker and the ledger. A restart gives new ports on the same store.
#[derive(Default)]
struct OneStore {
    store: Mutex<Option<MemoryStore>>,
}

impl OneStore {
    fn store(&self) -> MemoryStore {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("an open store")
    }
}

#[async_trait]
impl Fixture for OneStore {
    fn capabilities(&self) -> Capabilities {
        MemoryBroker::CAN
    }

    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn open(&self) -> Ports {
        let clock = Arc::new(TestClock::default());
        let store = MemoryStore::shared(clock.clone());
        let ports = Ports { broker: store.broker(), ledger: store.ledger(), clock };
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        ports
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let store = self.store();
        Ports { broker: store.broker(), ledger: store.ledger(), clock: ports.clock }
    }

    fn fail_settles(&self, n: u32) -> bool {
        self.store().faults().fail_settles(n);
        true
    }

    fn fail_receives(&self, n: u32) -> bool {
        self.store().faults().fail_receives(n);
        true
    }
}

/// A broker in one store and a ledger in another. A restart gives new ports on the same stores.
struct TwoStores {
    stores: Mutex<Option<MemoryApart>>,
    apart: Mutex<Weak<Apart>>,
    options: ApartOptions,
}

impl TwoStores {
    fn new(delay_in_ledger: bool) -> Self {
        let options = ApartOptions { delay_in_ledger, ..ApartOptions::default() };
        Self { stores: Mutex::default(), apart: Mutex::default(), options }
    }

    fn stores(&self) -> MemoryApart {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("open stores")
    }

    fn ports(&self, clock: Arc<TestClock>) -> Ports {
        let stores = self.stores();
        let apart = stores.broker("orders", self.options.clone());
        *self.apart.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&apart);
        Ports { broker: apart, ledger: stores.ledger(), clock }
    }
}

#[async_trait]
impl Fixture for TwoStores {
    fn capabilities(&self) -> Capabilities {
        MemoryApart::CAN
    }

    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn open(&self) -> Ports {
        let clock = Arc::new(TestClock::default());
        *self.stores.lock().unwrap_or_else(PoisonError::into_inner) = Some(MemoryApart::new(clock.clone()));
        self.ports(clock)
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let clock = ports.clock.clone();
        drop(ports);
        self.ports(clock)
    }

    fn fail_settles(&self, n: u32) -> bool {
        self.stores().outer.faults().fail_settles(n);
        true
    }

    fn broker_for(&self, ports: &Ports, spec: &FlowSpec) -> Arc<dyn Broker> {
        match &*spec.name {
            "orders" => Arc::clone(&ports.broker),
            other => self.stores().broker(other, self.options.clone()),
        }
    }

    fn apart(&self, _ports: &Ports) -> Option<Arc<Apart>> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    async fn lose_ledger(&self, ports: Ports) -> Option<Ports> {
        let clock = ports.clock.clone();
        drop(ports);
        let mut stores = self.stores();
        stores.inner = MemoryStore::shared(clock.clone());
        *self.stores.lock().unwrap_or_else(PoisonError::into_inner) = Some(stores);
        Some(self.ports(clock))
    }

    fn delays_in_ledger(&self) -> bool {
        self.options.delay_in_ledger
    }

    fn ledger_away(&self, away: bool) -> bool {
        self.stores().inner.faults().go_away(away);
        true
    }

    fn settles_fail(&self) -> Box<dyn Fn(u32) + Send + Sync> {
        let faults = self.stores().outer.faults();
        Box::new(move |n| faults.fail_settles(n))
    }

    fn move_on(&self, address: &str) -> bool {
        self.stores().outer.move_on(address) > 0
    }

    fn fail_records(&self, n: u32) -> bool {
        self.stores().inner.faults().fail_records(n);
        true
    }

    fn fail_receives(&self, n: u32) -> bool {
        self.stores().outer.faults().fail_receives(n);
        true
    }
}

/// What lies at the broker is taken into the ledger as it comes.
mod adopting {
    use redrive_core::{Class, Headers, PolicySpec, Reason, Timestamp};
    use redrive_engine::port::{
        Clock, Deed, Entry, EntryState, Ledger, NewMessage, Selection, Source, Subscription,
    };
    use testkit::memory::dead_of;

    use super::*;

    struct World {
        stores: MemoryApart,
        apart: Apart,
        _source: Box<dyn Source>,
        clock: Arc<TestClock>,
    }

    async fn world(policy: Option<serde_json::Value>) -> World {
        let clock = Arc::new(TestClock::default());
        let stores = MemoryApart::new(clock.clone());
        let options = ApartOptions { adopts: true, ..ApartOptions::default() };
        let mut apart = Apart::new(
            stores.outer.outer(),
            stores.inner.broker(),
            stores.inner.ledger(),
            "orders",
            clock.clone(),
            options,
        );
        if let Some(policy) = policy {
            let spec: PolicySpec = serde_json::from_value(policy).unwrap();
            apart = apart.with_policy(Arc::new(spec.build().unwrap()));
        }
        let subscription = Subscription::new("orders", "orders");
        apart.apply(&apart.plan(&subscription).await.unwrap()).await.unwrap();
        let source = apart.subscribe(&subscription).await.unwrap();
        World { stores, apart, _source: source, clock }
    }

    impl World {
        async fn leaves(&self, id: &str, headers: Headers) -> Entry {
            let body = Some("{}".into());
            let letter = NewMessage { id: Some(id.to_owned()), body, headers, ..NewMessage::default() };
            self.apart.publish(&dead_of("orders"), vec![letter]).await.unwrap();
            loop {
                if let Some(entry) = self.stores.ledger().entry(id).await.unwrap() {
                    return entry;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    fn of_spring() -> Headers {
        let mut headers = Headers::new();
        headers.push("kafka_dlt-original-topic", "payments");
        headers.push("kafka_dlt-original-partition", 3_i32.to_be_bytes().to_vec());
        headers.push("kafka_dlt-original-offset", 42_i64.to_be_bytes().to_vec());
        headers.push("kafka_dlt-exception-fqcn", "com.shop.OutOfStock");
        headers.push("kafka_dlt-exception-message", "no more of it");
        headers
            .push("kafka_dlt-exception-stacktrace", "com.shop.OutOfStock: no more of it\n\tat com.shop.Ship");
        headers.push("colour", "blue");
        headers
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_letter_of_another_system_says_what_it_knows() {
        let world = world(None).await;
        let entry = world.leaves("m-1", of_spring()).await;
        assert_eq!((entry.state, entry.class), (EntryState::Dead, Class::Unknown));
        assert_eq!(entry.reason, Reason::FOREIGN_FAILURE);
        assert_eq!((entry.source.name.as_str(), entry.source.partition), ("payments", Some(3)));
        assert_eq!((entry.source.offset, entry.attempts), (Some(42), 1));
        assert_eq!(entry.error.kind.as_deref(), Some("com.shop.OutOfStock"));
        assert_eq!(entry.error.message, "no more of it");
        let trace = entry.error.chain.last().unwrap();
        assert_eq!(trace.kind, "stack trace");
        assert!(trace.message.contains("at com.shop.Ship"), "{trace:?}");
        assert!(entry.because.contains("spring"), "{}", entry.because);
        assert!(entry.last_failed_at <= world.clock.now());
        // What nobody knows stays with the message, and so does what was read.
        assert_eq!(entry.message.headers.get("colour").map(String::as_str), Some("blue"));
        assert!(entry.message.headers.contains_key("kafka_dlt-exception-fqcn"));
        let payload = world.stores.ledger().payload(entry.id).await.unwrap().unwrap();
        assert_eq!(payload.body.as_deref(), Some(&b"{}"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_judged_by_the_flows_own_rules() {
        let rule = serde_json::json!({ "when": { "error": "OutOfStock" }, "class": "PERMANENT_BUSINESS",
                                       "reason": "OUT_OF_STOCK" });
        let world = world(Some(serde_json::json!({ "rules": [rule] }))).await;
        let entry = world.leaves("m-1", of_spring()).await;
        assert_eq!(entry.class, Class::PermanentBusiness);
        assert_eq!(entry.reason.as_str(), "OUT_OF_STOCK");
        let plain = world.leaves("m-2", Headers::new()).await;
        assert_eq!((plain.class, plain.reason), (Class::Unknown, Reason::FOREIGN_FAILURE));
        assert_eq!(plain.source.name, dead_of("orders"), "all that is known is where it lies");
        assert_ne!(plain.id, entry.id);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_discarded_stays_away_from_a_new_ledger() {
        let world = world(None).await;
        let (gone, stays) =
            (world.leaves("gone", of_spring()).await, world.leaves("stays", of_spring()).await);
        let ledger = world.stores.ledger();
        let ids = Selection::Ids(vec![gone.id.to_string()]);
        let ann = redrive_engine::port::Actor { who: "ann".to_owned(), why: "sold out".to_owned() };
        assert_eq!(ledger.act(&Deed::Discard, &ids, &ann, world.clock.now()).await.unwrap().done, 1);
        let subscription = Subscription::new("orders", "orders");
        while world.apart.resolved(&subscription).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let World { stores, clock, .. } = world;
        let inner = MemoryStore::shared(clock.clone());
        let options = ApartOptions { adopts: true, ..ApartOptions::default() };
        let (outer, home, ledger) = (stores.outer.outer(), inner.broker(), inner.ledger());
        let apart = Apart::new(outer, home, ledger.clone(), "orders", clock, options);
        let _source = apart.subscribe(&subscription).await.unwrap();
        while ledger.entry(&stays.id.to_string()).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(ledger.entry(&gone.id.to_string()).await.unwrap(), None);
        let again = ledger.entry("stays").await.unwrap().unwrap();
        assert_eq!((again.id, again.last_failed_at), (stays.id, stays.last_failed_at));
        assert!(again.last_failed_at > Timestamp::from_millis(0));
    }
}

mod one_store {
    testkit::contract_tests!(super::OneStore::default(), (start_paused = true));
}

mod two_stores {
    testkit::contract_tests!(super::TwoStores::new(false), (start_paused = true));
}

mod two_stores_delays_in_the_ledger {
    testkit::contract_tests!(super::TwoStores::new(true), (start_paused = true));
}
