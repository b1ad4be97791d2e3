//! Finding entries, and counting them.

use std::collections::BTreeMap;

use redrive_core::Timestamp;
use redrive_engine::port::{Counts, Cursor, Entry, EntryId, Filter, Found, Group, Page, StateCount};

use super::entries::Kept;
use super::state::State;

const LARGEST_PAGE: usize = 1_000;

/// Whether an entry is meant.
pub(super) fn fits(filter: &Filter, kept: &Kept) -> bool {
    let entry = &kept.entry;
    let same = |wanted: &Option<String>, found: Option<&String>| {
        wanted.as_ref().is_none_or(|wanted| found == Some(wanted))
    };
    same(&filter.flow, Some(&entry.flow))
        && (filter.state.is_empty() || filter.state.contains(&entry.state))
        && filter.class.is_none_or(|class| class == entry.class)
        && filter.reason.as_ref().is_none_or(|reason| *reason == entry.reason)
        && same(&filter.group, Some(&entry.group))
        && same(&filter.key, entry.message.key.as_ref())
        && same(&filter.message_type, entry.message.kind.as_ref())
        && same(&filter.tenant, entry.tenant.as_ref())
        && same(&filter.entity, entry.entity.as_ref())
        && same(&filter.correlation_id, entry.correlation_id.as_ref())
        && filter.since.is_none_or(|since| entry.last_failed_at >= since)
        && filter.until.is_none_or(|until| entry.last_failed_at < until)
        && filter.text.as_ref().is_none_or(|text| entry.error.message.contains(text.as_str()))
}

fn place(entry: &Entry) -> (Timestamp, EntryId) {
    (entry.last_failed_at, entry.id)
}

fn read(cursor: &str) -> Option<(Timestamp, EntryId)> {
    let (at, id) = cursor.split_once('/')?;
    Some((Timestamp::from_millis(at.parse().ok()?), EntryId::parse_str(id).ok()?))
}

impl State {
    /// Nothing when the cursor is none.
    pub(super) fn search(&self, filter: &Filter, page: &Page) -> Option<Found> {
        let after = match &page.after {
            Some(cursor) => Some(read(cursor)?),
            None => None,
        };
        let mut entries: Vec<&Kept> = self
            .entries
            .values()
            .filter(|kept| fits(filter, kept))
            .filter(|kept| after.is_none_or(|after| place(&kept.entry) < after))
            .collect();
        entries.sort_by_key(|kept| std::cmp::Reverse(place(&kept.entry)));
        let limit = page.limit.clamp(1, LARGEST_PAGE);
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next: Option<Cursor> = entries
            .last()
            .filter(|_| more)
            .map(|kept| &kept.entry)
            .map(|entry| format!("{}/{}", entry.last_failed_at.as_millis(), entry.id));
        Some(Found { entries: entries.into_iter().map(|kept| self.shown(kept)).collect(), next })
    }

    pub(super) fn groups(&self, flow: Option<&str>, limit: usize) -> Vec<Group> {
        let mut groups: BTreeMap<(String, String), (Group, u64)> = BTreeMap::new();
        for Kept { entry, .. } in self.entries.values() {
            // What was never tried belongs to no group.
            if entry.group.is_empty() || flow.is_some_and(|flow| flow != entry.flow) {
                continue;
            }
            let key = (entry.flow.clone(), entry.group.clone());
            let (group, open) = groups.entry(key).or_insert_with(|| {
                let group = Group {
                    id: entry.group.clone(),
                    flow: entry.flow.clone(),
                    class: entry.class,
                    reason: entry.reason.clone(),
                    kind: entry.message.kind.clone(),
                    example: entry.error.message.clone(),
                    counts: BTreeMap::new(),
                    first_seen_at: entry.first_failed_at,
                    last_seen_at: entry.last_failed_at,
                };
                (group, 0)
            });
            *group.counts.entry(entry.state.to_string()).or_default() += 1;
            group.first_seen_at = group.first_seen_at.min(entry.first_failed_at);
            group.last_seen_at = group.last_seen_at.max(entry.last_failed_at);
            *open += u64::from(entry.state.is_open());
        }
        let mut groups: Vec<(Group, u64)> = groups.into_values().filter(|(_, open)| *open > 0).collect();
        groups.sort_by_key(|(_, open)| std::cmp::Reverse(*open));
        groups.into_iter().take(limit).map(|(group, _)| group).collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts: BTreeMap<_, StateCount> = BTreeMap::new();
        for Kept { entry, .. } in self.entries.values() {
            let count = counts.entry((entry.flow.clone(), entry.state)).or_insert_with(|| StateCount {
                flow: entry.flow.clone(),
                state: entry.state,
                count: 0,
                oldest_at: Some(entry.first_failed_at),
            });
            count.count += 1;
            count.oldest_at = count.oldest_at.min(Some(entry.first_failed_at));
        }
        Counts { states: counts.into_values().collect() }
    }
}
