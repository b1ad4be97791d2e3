//! Random histories of calls, crashes and clearings against a simple model; and what many threads do to one journal.

use std::collections::BTreeMap;

use proptest::prelude::*;
use redrive_engine::Journal;

use crate::{at, crashes, open};

#[derive(Debug, Clone)]
enum Step {
    Begin(u8),
    End(u8),
    Clear(u8),
    Crash,
    Stop,
    Forget,
    Hours(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..12).prop_map(Step::Begin),
        3 => (0u8..12).prop_map(Step::End),
        2 => (0u8..12).prop_map(Step::Clear),
        2 => Just(Step::Crash),
        1 => Just(Step::Stop),
        1 => Just(Step::Forget),
        1 => (1u8..30).prop_map(Step::Hours),
    ]
}

/// Crashes and the hour of the last one, by message.
type Model = BTreeMap<u8, (u32, i64)>;

fn forget(model: &mut Model, hour: i64) {
    model.retain(|_, (_, last)| hour - *last < 24);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_journal_counts_what_a_model_counts(steps in proptest::collection::vec(step(), 1..80)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inflight");
        let mut hour = 0;
        let mut model = Model::new();
        // Leaked, so that a crash in this process can leave its marks behind.
        let mut journal: &'static Journal = Box::leak(Box::new(open(&file, at(hour))));
        let mut running = Vec::new();
        for step in steps {
            let name = |message: u8| journal.name("orders", &message.to_string());
            match step {
                Step::Begin(message) if running.len() < 16 => running.push((message, journal.begin(name(message)))),
                Step::Begin(_) => {}
                Step::End(message) => {
                    if let Some(at) = running.iter().position(|(running, _)| *running == message) {
                        running.swap_remove(at);
                    }
                }
                Step::Clear(message) => {
                    prop_assert_eq!(journal.cleared(name(message)), model.remove(&message).is_some());
                }
                Step::Crash => {
                    let mut died: Vec<u8> = running.iter().map(|(message, _)| *message).collect();
                    running.drain(..).for_each(|(_, call)| std::mem::forget(call));
                    died.sort_unstable();
                    died.dedup();
                    for message in &died {
                        let known = model.entry(*message).or_default();
                        *known = (known.0 + 1, hour);
                    }
                    forget(&mut model, hour);
                    journal = Box::leak(Box::new(open(&file, at(hour))));
                    prop_assert_eq!(journal.found().crashed, died.len());
                }
                Step::Stop => {
                    running.clear();
                    forget(&mut model, hour);
                    journal = Box::leak(Box::new(open(&file, at(hour))));
                    prop_assert_eq!(journal.found().crashed, 0);
                }
                Step::Forget => {
                    let before = model.len();
                    forget(&mut model, hour);
                    prop_assert_eq!(journal.forget(at(hour)), before - model.len());
                }
                Step::Hours(hours) => hour += i64::from(hours),
            }
            prop_assert_eq!(journal.suspects(), model.len());
            for message in 0u8..12 {
                let expected = model.get(&message).map_or(0, |(crashes, _)| *crashes);
                prop_assert_eq!(journal.crashes(journal.name("orders", &message.to_string())), expected);
            }
        }
    }
}

#[test]
fn calls_beyond_the_room_run_unnamed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    let journal = Journal::open(&file, 4, at(0)).unwrap();
    let calls: Vec<_> = (0..20).map(|n| journal.begin(journal.name("orders", &n.to_string()))).collect();
    let named = calls.iter().filter(|call| call.is_named()).count();
    assert!(named >= 4, "room was asked for 4, and {named} are named");
    assert_eq!(journal.unnamed(), 20 - named as u64);
    drop(calls);
    assert!(journal.begin(journal.name("orders", "a")).is_named());
}

#[test]
fn threads_do_not_lose_each_others_marks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    let journal = Journal::open(&file, 8, at(0)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for n in 0..5_000 {
                    let call = journal.begin(journal.name("orders", &format!("{thread}/{n}")));
                    assert!(call.is_named());
                }
                // The one that is running when the process dies.
                std::mem::forget(journal.begin(journal.name("orders", &format!("last of {thread}"))));
            });
        }
    });
    drop(journal);
    let journal = open(&file, at(0));
    assert_eq!(journal.suspects(), 8);
    assert_eq!(crashes(&journal, ["last of 0", "last of 7", "0/0", "7/4999"]), [1, 1, 0, 0]);
}

#[test]
fn a_call_is_written_down_without_allocating() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(&folder.path().join("inflight"), at(0));
    let counted = allocation_counter::measure(|| {
        let name = journal.name("orders", "a");
        assert_eq!(journal.crashes(name), 0);
        drop(journal.begin(name));
    });
    assert_eq!(counted.count_total, 0);
}
