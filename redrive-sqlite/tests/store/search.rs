//! Filters and pages, against a model that reads everything and looks at each.

use proptest::prelude::*;
use redrive_core::{Class, Reason};
use redrive_engine::port::{Broker, Entry, EntryState, Filter, Ledger, NewMessage, Outcome, Page, Selection};
use redrive_sqlite::Store;

use crate::fixture::{Fixture, ann, at, failed, settle_one, subscribe, take};

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(names).prop_map(str::to_owned))
}

const NAMES: &[&str] = &["x", "y", "z"];
const ERRORS: &[&str] = &["timed out after 3 s", "Refused", "100% broken_here"];

#[derive(Debug, Clone)]
struct Case {
    queue: &'static str,
    key: Option<String>,
    kind: Option<String>,
    tenant: Option<String>,
    entity: Option<String>,
    correlation: Option<String>,
    error: &'static str,
    permanent: bool,
    dead: bool,
    wait: i64,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        prop::sample::select(&["orders", "returns"][..]),
        (one_of(NAMES), one_of(NAMES), one_of(NAMES), one_of(NAMES), one_of(NAMES)),
        prop::sample::select(ERRORS),
        any::<bool>(),
        any::<bool>(),
        0..3_i64,
    )
        .prop_map(|(queue, (key, kind, tenant, entity, correlation), error, permanent, dead, wait)| {
            Case { queue, key, kind, tenant, entity, correlation, error, permanent, dead, wait }
        })
}

fn filters() -> impl Strategy<Value = Filter> {
    (
        one_of(&["orders", "returns", "nothing"]),
        prop::collection::vec(
            prop::sample::select(&[EntryState::Dead, EntryState::Parked, EntryState::Waiting][..]),
            0..3,
        ),
        (one_of(NAMES), one_of(NAMES), one_of(NAMES), one_of(NAMES), one_of(NAMES)),
        (prop::option::of(any::<bool>()), prop::option::of(0..2_usize)),
        (prop::option::of(0..40_i64), prop::option::of(0..40_i64)),
        one_of(&["TIMED", "refused", "100%", "_", "nowhere"]),
    )
        .prop_map(
            |(flow, state, (key, kind, tenant, entity, correlation), (permanent, reason), times, text)| {
                let class =
                    permanent.map(|yes| if yes { Class::PermanentTechnical } else { Class::Transient });
                let reasons = [Reason::DOWNSTREAM_TIMEOUT, Reason::UNKNOWN_FAILURE];
                Filter {
                    flow,
                    state,
                    class,
                    reason: reason.map(|place| reasons[place].clone()),
                    group: None,
                    key,
                    message_type: kind,
                    tenant,
                    entity,
                    correlation_id: correlation,
                    since: times.0.map(at),
                    until: times.1.map(at),
                    text,
                }
            },
        )
}

fn fits(filter: &Filter, entry: &Entry) -> bool {
    fn same(wanted: Option<&String>, found: Option<&str>) -> bool {
        wanted.is_none() || wanted.map(String::as_str) == found
    }
    same(filter.flow.as_ref(), Some(&entry.flow))
        && (filter.state.is_empty() || filter.state.contains(&entry.state))
        && filter.class.is_none_or(|class| class == entry.class)
        && filter.reason.as_ref().is_none_or(|reason| *reason == entry.reason)
        && same(filter.group.as_ref(), Some(&entry.group))
        && same(filter.key.as_ref(), entry.message.key.as_deref())
        && same(filter.message_type.as_ref(), entry.message.kind.as_deref())
        && same(filter.tenant.as_ref(), entry.tenant.as_deref())
        && same(filter.entity.as_ref(), entry.entity.as_deref())
        && same(filter.correlation_id.as_ref(), entry.correlation_id.as_deref())
        && filter.since.is_none_or(|since| entry.last_failed_at >= since)
        && filter.until.is_none_or(|until| entry.last_failed_at < until)
        && filter
            .text
            .as_ref()
            .is_none_or(|text| entry.error.message.to_lowercase().contains(&text.to_lowercase()))
}

async fn fill(fixture: &Fixture, store: &Store, cases: &[Case]) {
    let mut orders = subscribe(store, "orders").await;
    let mut returns = subscribe(store, "returns").await;
    for case in cases {
        fixture.clock.advance(case.wait);
        let message = NewMessage { key: case.key.clone().map(Into::into), ..NewMessage::default() };
        store.publish(case.queue, vec![message]).await.unwrap();
        let source = if case.queue == "orders" { &mut orders } else { &mut returns };
        let delivery = take(source, 1).await.remove(0);
        let outcome = if case.dead { Outcome::DeadLetter } else { Outcome::Park };
        let mut settlement = failed(&delivery, outcome, case.error, fixture.now());
        let record = settlement.record.as_mut().unwrap();
        record.message_type.clone_from(&case.kind);
        record.tenant.clone_from(&case.tenant);
        record.entity.clone_from(&case.entity);
        record.correlation_id.clone_from(&case.correlation);
        let attempt = record.attempt.as_mut().unwrap();
        if case.permanent {
            attempt.class = Class::PermanentTechnical;
            attempt.reason = Reason::UNKNOWN_FAILURE;
        }
        settle_one(store, settlement).await;
    }
}

async fn all(store: &Store, filter: &Filter, limit: usize) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut page = Page { limit, after: None };
    loop {
        let next = store.search(filter, &page).await.unwrap();
        assert!(next.entries.len() <= limit);
        found.extend(next.entries);
        page.after = next.next;
        if page.after.is_none() {
            return found;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8 + 1, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_fits_and_nothing_else(
        cases in prop::collection::vec(cases(), 0..25),
        filters in prop::collection::vec(filters(), 8),
        limit in 1..7_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let store = fixture.open();
            fill(&fixture, &store, &cases).await;
            let everything = all(&store, &Filter::default(), 1_000).await;
            assert_eq!(everything.len(), cases.len());
            assert!(everything.windows(2).all(|pair| pair[0].last_failed_at >= pair[1].last_failed_at));
            let group = everything.first().map(|entry| entry.group.clone());
            let of_group = Filter { group, ..Filter::default() };
            for filter in filters.iter().chain([&of_group]) {
                let expected: Vec<_> = everything.iter().filter(|entry| fits(filter, entry)).cloned().collect();
                assert_eq!(all(&store, filter, limit).await, expected, "{filter:?}");
            }
        });
    }
}

#[tokio::test]
async fn pages_stay_right_while_entries_come_and_go() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let case = Case {
        queue: "orders",
        key: None,
        kind: None,
        tenant: None,
        entity: None,
        correlation: None,
        error: "x",
        permanent: false,
        dead: true,
        wait: 1,
    };
    fill(&fixture, &store, &vec![case.clone(); 6]).await;
    let dead = Filter { state: vec![EntryState::Dead], ..Filter::default() };
    let first = store.search(&dead, &Page { limit: 3, after: None }).await.unwrap();
    let rest = all(&store, &dead, 10).await.split_off(3);
    fill(&fixture, &store, &[case]).await;
    let seen = Selection::Ids(first.entries.iter().map(|entry| entry.id.to_string()).collect());
    store.act(&redrive_engine::port::Deed::Park, &seen, &ann(), fixture.now()).await.unwrap();
    let second = store.search(&dead, &Page { limit: 3, after: first.next }).await.unwrap();
    assert_eq!(second.entries, rest);
    let wrong = Page { limit: 3, after: Some("elsewhere".to_owned()) };
    assert!(store.search(&dead, &wrong).await.is_err());
}
