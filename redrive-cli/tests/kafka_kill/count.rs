//! What is counted when everything has come to its end.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Cluster, Hop};
use crate::http::Journal;
use crate::scenario::{budget, most_calls_for_copies};
use crate::setting::Setting;

/// How a flow settles, and what may therefore be there twice after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing.
    Transactional,
    /// Copies whose originals were not released yet, and so the attempts that follow.
    Plain,
    /// Dead letters whose originals waited in the ledger.
    LedgerFirst,
    /// Nothing; but what waited behind another one waited in the ledger, as it does when it fails once more.
    Lanes,
    /// Nothing; what waits does so in one topic.
    Single,
    /// Nothing; each wait is one hop.
    Tiered,
    /// Nothing; what waits carries no body.
    Pointer,
}

impl Way {
    pub(crate) fn setting<'a>(self, cluster: &'a Cluster, journal: &Journal) -> Setting<'a> {
        let (settle, delay) = match self {
            Self::Transactional | Self::Lanes => ("transactional", "cascade"),
            Self::Plain => ("plain", "cascade"),
            Self::LedgerFirst => ("transactional", "ledger"),
            Self::Single => ("transactional", "single"),
            Self::Tiered => ("transactional", "tiered"),
            Self::Pointer => ("transactional", "pointer"),
        };
        Setting {
            cluster,
            handler: journal.address,
            settle,
            delay,
            retries: "retry: 20ms x3",
            concurrency: 4,
            order_by: if self == Self::Lanes { "key" } else { "none" },
        }
    }

    /// The most calls for a message. What is there once is called for again only where a call was in flight at a kill.
    fn most_calls(self, body: &str, kills: usize) -> usize {
        match self {
            Self::Plain => most_calls_for_copies(body, kills),
            _ => budget(body) + kills,
        }
    }

    /// The most dead letters of a message, and how often it is parked at most.
    const fn most_ends(self, kills: usize) -> (usize, usize) {
        match self {
            Self::Transactional | Self::Lanes | Self::Single | Self::Tiered | Self::Pointer => (1, 1),
            Self::Plain => (1 + kills, 1 + kills),
            // What is parked at once comes from the source.
            Self::LedgerFirst => (1 + kills, 1),
        }
    }
}

/// What is counted in the end.
pub(crate) struct Count<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) journal: &'a Journal,
    pub(crate) way: Way,
    /// How many attempts of a message may have been in flight at the kills.
    pub(crate) kills: usize,
    pub(crate) when: &'a str,
}

impl Count<'_> {
    pub(crate) fn check(&self, messages: &[(String, &str)]) {
        let Self { cluster, journal, way, kills, when } = self;
        let (dead, parked) = (cluster.found(".dlq"), cluster.found(".parking"));
        let calls = journal.calls();
        for (id, body) in messages {
            let answers = calls.get(id).cloned().unwrap_or_default();
            let (dead, parked) = (dead.get(id).copied().unwrap_or(0), parked.get(id).copied().unwrap_or(0));
            let found = format!(
                "{when} ({way:?}): {id} ({body}): {answers:?}, {dead} times dead, {parked} times parked"
            );
            match *body {
                "bad" => assert!(parked > 0 && dead == 0, "lost: {found}"),
                "down" => assert!(dead > 0 && parked == 0, "lost: {found}"),
                _ => {
                    assert!(answers.contains(&200), "lost: {found}");
                    assert_eq!((dead, parked), (0, 0), "{found}");
                }
            }
            assert!(answers.len() >= budget(body), "given up too soon: {found}");
            assert!(answers.len() <= way.most_calls(body, *kills), "over its budget: {found}");
            let (most_dead, most_parked) = way.most_ends(*kills);
            assert!(dead <= most_dead && parked <= most_parked, "there too often: {found}");
        }
        let known = |id: &String| messages.iter().any(|(other, _)| other == id);
        assert!(dead.keys().chain(parked.keys()).all(known), "{when}: {dead:?} {parked:?}");
        self.check_waits(messages);
    }

    /// With transactions each wait is written once, and so is each hop of it: one for every attempt but the last.
    fn check_waits(&self, messages: &[(String, &str)]) {
        let Self { cluster, way, when, .. } = self;
        let hops = cluster.hops();
        let mut attempts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut seen: BTreeSet<&Hop> = BTreeSet::new();
        for hop in &hops {
            let first = seen.insert(hop);
            assert!(first || *way == Way::Plain, "{when} ({way:?}): a wait is there twice: {hop:?}");
            attempts.entry(&hop.id).or_default().insert(&hop.attempt);
        }
        for (id, body) in messages {
            let found = attempts.remove(id.as_str()).unwrap_or_default();
            let found: Vec<&str> = found.into_iter().collect();
            let fits = match *body {
                _ if *way == Way::LedgerFirst => found.is_empty(),
                "down" => found == ["1", "2", "3"],
                // The handler refuses twice only, an attempt in flight at a kill is not charged, and the ledger may have one
                // that its topic has not.
                "flaky" => found.iter().all(|attempt| ["1", "2"].contains(attempt)),
                "later" => found == ["1"],
                _ => found.is_empty(),
            };
            assert!(fits, "{when} ({way:?}): {id} ({body}) waited after the attempts {found:?}");
        }
        assert!(attempts.is_empty(), "{when}: {attempts:?}");
    }
}
