//! Which entries a replay would send, and what to think about first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::Timestamp;
use redrive_engine::port::{EntryId, EntryState, NewReplay, Refusal, ReplayPlan, Retention};
use rusqlite::{Connection, OptionalExtension, Row};

use super::apart::Body;
use super::record::entry_id;
use super::{entry, processed, search, state};
use crate::fault::Done;

/// Entries that a plan names.
const SAMPLE: usize = 10;
/// Entries whose marks a plan looks up.
const LOOKED_UP: usize = 10_000;
/// Groups that a plan tells apart.
const GROUPS: usize = 100;
/// Entries that are read at once.
const PAGE: usize = 1_000;

/// What the machine or a person has given up can be sent; everything else goes by itself, is done, or was put away.
pub(crate) fn can_be_sent(state: EntryState) -> bool {
    matches!(state, EntryState::Dead | EntryState::Parked)
}

/// Whether the body is here, or is thought to lie at the broker.
const fn may_be_read(body: Body) -> bool {
    matches!(body, Body::Here | Body::AtBroker)
}

/// One entry of a selection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) id: EntryId,
    pub(crate) was: EntryState,
    /// Its row.
    pub(crate) eid: i64,
    /// Whether its body is here.
    pub(crate) is_here: bool,
    failed: (i64, i64),
}

struct Candidate {
    chosen: Chosen,
    flow: String,
    group: Option<String>,
    mid: String,
    replays: u32,
    first_failed: i64,
    mark_expired: bool,
    body: Body,
}

const COLUMNS: &str =
    "eid, last_failed, id, state, flow, grp, mid, replays, first_failed, mark_expired, bodiless";

fn candidate(row: &Row<'_>) -> Done<Candidate> {
    let chosen = Chosen {
        id: entry_id(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?)?,
        was: state::of(row.get(3)?)?,
        eid: row.get(0)?,
        is_here: Body::of(row.get(10)?) == Body::Here,
        failed: (row.get(1)?, row.get(0)?),
    };
    Ok(Candidate {
        chosen,
        flow: row.get(4)?,
        group: row.get(5)?,
        mid: row.get(6)?,
        replays: row.get(7)?,
        first_failed: row.get(8)?,
        mark_expired: row.get(9)?,
        body: Body::of(row.get(10)?),
    })
}

/// Walks over everything that is selected.
fn each(sql: &Connection, new: &NewReplay, mut see: impl FnMut(Candidate) -> Done<()>) -> Done<()> {
    if !new.ids.is_empty() {
        let mut seen = BTreeSet::new();
        for id in &new.ids {
            let eid = entry::row_of(sql, id)?
                .ok_or_else(|| Refusal::NotFound { what: "entry", name: id.clone() })?;
            if seen.insert(eid) {
                let found = sql
                    .prepare_cached(&format!("SELECT {COLUMNS} FROM entries WHERE eid = ?1"))?
                    .query_row([eid], |row| Ok(candidate(row)))
                    .optional()?;
                found.transpose()?.map(&mut see).transpose()?;
            }
        }
        return Ok(());
    }
    let mut after = None;
    loop {
        after = search::walk(sql, &new.filter, after, PAGE, COLUMNS, |row| see(candidate(row)?))?;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// What can be sent, what failed first before what failed later.
pub(crate) fn choose(sql: &Connection, new: &NewReplay) -> Done<Vec<Chosen>> {
    let mut chosen = Vec::new();
    each(sql, new, |candidate| {
        if can_be_sent(candidate.chosen.was) && may_be_read(candidate.body) {
            chosen.push(candidate.chosen);
        }
        Ok(())
    })?;
    chosen.sort_unstable_by_key(|chosen| chosen.failed);
    Ok(chosen)
}

pub(crate) fn plan(sql: &Connection, new: &NewReplay, now: Timestamp) -> Done<ReplayPlan> {
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    let (mut flows, mut groups) = (BTreeSet::new(), BTreeSet::new());
    let (mut again, mut looked_up) = (0_u64, 0_usize);
    let mut marks = Marks::default();
    let mut chosen = Vec::new();
    let kept = Retention::default().processed.unwrap_or_default();
    // Where nobody marks anything, no mark can be missing.
    let in_use = processed::any(sql)?;
    each(sql, new, |candidate| {
        let standing = candidate.chosen.was;
        if !can_be_sent(standing) {
            *left_out.entry(standing.as_str().to_owned()).or_default() += 1;
            return Ok(());
        }
        if !may_be_read(candidate.body) {
            *left_out.entry("without a body".to_owned()).or_default() += 1;
            return Ok(());
        }
        again += u64::from(candidate.replays > 0);
        let old = now.since(Timestamp::from_millis(candidate.first_failed)) > kept;
        marks.expired += u64::from(candidate.mark_expired);
        marks.may_have += u64::from(in_use && old && !candidate.mark_expired);
        if looked_up < LOOKED_UP {
            looked_up += 1;
            let found = processed::of(sql, &candidate.mid)?;
            marks.whole += u64::from(found.whole);
            marks.steps += u64::from(found.steps);
        }
        if flows.len() < GROUPS {
            flows.insert(candidate.flow);
        }
        if groups.len() < GROUPS {
            groups.extend(candidate.group);
        }
        chosen.push(candidate.chosen);
        Ok(())
    })?;
    chosen.sort_unstable_by_key(|chosen| chosen.failed);
    let most = new.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let beyond = chosen.len().saturating_sub(most);
    chosen.truncate(most);
    let mut warnings = Vec::new();
    if flows.len() > 1 {
        warnings.push(format!("it spans {} flows: {}", flows.len(), joined(&flows)));
    }
    if groups.len() > 1 {
        let count = if groups.len() == GROUPS { "at least 100".to_owned() } else { groups.len().to_string() };
        warnings.push(format!("it mixes {count} failure groups: not all of them may have one cause"));
    }
    marks.warn(kept, &mut warnings);
    if again > 0 {
        warnings.push(format!("{again} were replayed before and came back"));
    }
    if beyond > 0 {
        warnings
            .push(format!("{beyond} more fit, beyond the maximum; those that failed longest ago go first"));
    }
    Ok(ReplayPlan {
        count: chosen.len() as u64,
        left_out,
        sample: chosen.iter().take(SAMPLE).map(|chosen| chosen.id).collect(),
        followers: followers(sql, &chosen)?,
        warnings,
    })
}

/// How many of the chosen are marked, or were.
#[derive(Debug, Default)]
struct Marks {
    whole: u64,
    steps: u64,
    expired: u64,
    may_have: u64,
}

impl Marks {
    fn warn(&self, kept: Duration, warnings: &mut Vec<String>) {
        let Self { whole, steps, expired, may_have } = self;
        if *whole > 0 {
            warnings.push(format!("{whole} are marked as processed by a handler, which will pass over them"));
        }
        if *steps > 0 {
            warnings
                .push(format!("{steps} have steps that ran once and are marked; those are not run again"));
        }
        if *expired > 0 {
            warnings.push(format!(
                "{expired} were marked, as a whole or in steps, and the marks have expired: what was done is done again"
            ));
        }
        if *may_have > 0 {
            warnings.push(format!(
                "{may_have} failed first more than {} days ago: marks of what was done for them may have expired",
                kept.as_secs() / 86_400
            ));
        }
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    let some: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
    some.join(", ")
}

/// How many wait behind what is chosen.
fn followers(sql: &Connection, chosen: &[Chosen]) -> Done<u64> {
    let ids: BTreeSet<EntryId> = chosen.iter().map(|chosen| chosen.id).collect();
    let mut statement = sql.prepare_cached("SELECT head, count FROM lanes WHERE head IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if ids.contains(&entry_id(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?) {
            count += row.get::<_, i64>(1)?.max(0).cast_unsigned();
        }
    }
    Ok(count)
}
