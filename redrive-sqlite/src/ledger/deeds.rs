//! What people do to entries, in steps that do not stall the flow.

use redrive_core::Timestamp;
use redrive_engine::fail;
use redrive_engine::port::{Actor, Deed, DeedReport, EntryState, HistoryLine, PortError, Selection};
use rusqlite::Connection;

use super::record::{self, Move, Stored};
use super::shelf::Shelf;
use super::{apart, audit, entry, lanes, search};
use crate::fault::Done;
use crate::publish::queue_name;
use crate::settle;
use crate::store::Store;
use crate::tx::Tx;

/// Entries in one transaction.
const CHUNK: usize = 500;
/// Refusals that are named.
const NAMED: usize = 100;

pub(crate) async fn act(
    store: &Store,
    deed: &Deed,
    selection: &Selection,
    actor: &Actor,
    now: Timestamp,
) -> Result<DeedReport, PortError> {
    let mut report = DeedReport::default();
    match selection {
        Selection::Ids(ids) => {
            for chunk in ids.chunks(CHUNK) {
                let part = Part::Ids(chunk.to_vec());
                add(&mut report, run(store, deed, part, subject_of(chunk), actor, now).await?);
            }
        }
        Selection::Filter(filter) => {
            let subject = serde_json::to_string(filter).unwrap_or_default();
            let mut after = None;
            loop {
                let wanted = filter.clone();
                let (rows, next) =
                    store.inner.readers.run(move |sql| search::rows(sql, &wanted, after, CHUNK)).await?;
                if !rows.is_empty() {
                    let part = Part::Rows(rows);
                    add(&mut report, run(store, deed, part, subject.clone(), actor, now).await?);
                }
                if next.is_none() {
                    break;
                }
                after = next;
            }
        }
    }
    Ok(report)
}

/// What one transaction is done to.
enum Part {
    Ids(Vec<String>),
    Rows(Vec<i64>),
}

fn subject_of(ids: &[String]) -> String {
    let named = ids.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(" ");
    let subject = match ids.len() {
        0..=10 => named,
        all => format!("{named} and {} more", all - 10),
    };
    subject.chars().take(4_096).collect()
}

fn add(report: &mut DeedReport, part: DeedReport) {
    report.done += part.done;
    report.missing.extend(part.missing);
    let room = NAMED.saturating_sub(report.refused.len());
    report.refused.extend(part.refused.into_iter().take(room));
}

async fn run(
    store: &Store,
    deed: &Deed,
    part: Part,
    subject: String,
    actor: &Actor,
    now: Timestamp,
) -> Result<DeedReport, PortError> {
    let part = if matches!(deed, Deed::RetryNow | Deed::Reroute(_) | Deed::Restore) {
        with_bodies(store, deed, part).await?
    } else {
        part
    };
    let (deed, actor) = (deed.clone(), actor.clone());
    store.inner.writer.run(move |tx| run_part(tx, &deed, part, &subject, &actor, now)).await
}

/// The same part, once the bodies that the deed needs are here.
async fn with_bodies(store: &Store, deed: &Deed, part: Part) -> Result<Part, PortError> {
    let restores = *deed == Deed::Restore;
    let find = move |sql: &Connection| {
        let rows = match &part {
            Part::Rows(rows) => rows.clone(),
            Part::Ids(ids) => {
                let rows = ids.iter().filter_map(|id| entry::row_of(sql, id).transpose());
                rows.collect::<Done<Vec<_>>>()?
            }
        };
        let rows = if restores { apart::bodies::to_run_again(sql, &rows)? } else { rows };
        Ok((part, rows))
    };
    let (part, rows) = store.inner.readers.run(find).await?;
    apart::bodies::bring(store, rows).await?;
    Ok(part)
}

fn run_part(
    tx: &mut Tx<'_>,
    deed: &Deed,
    part: Part,
    subject: &str,
    actor: &Actor,
    now: Timestamp,
) -> Done<DeedReport> {
    let mut report = DeedReport::default();
    let rows = match part {
        Part::Rows(rows) => rows,
        Part::Ids(ids) => {
            let mut rows = Vec::with_capacity(ids.len());
            for id in ids {
                match entry::row_of(tx.sql, &id)? {
                    Some(row) if rows.contains(&row) => {}
                    Some(row) => rows.push(row),
                    None => report.missing.push(id),
                }
            }
            rows
        }
    };
    for row in rows {
        // An entry that a filter found may be gone by now; that is no error.
        let Some(stored) = Stored::by_eid(tx, row)? else { continue };
        match one(tx, deed, &stored, actor, now)? {
            Ok(()) => report.done += 1,
            Err(why) => report.refused.push((stored.id.hyphenated().to_string(), why)),
        }
    }
    if report.done > 0 {
        audit::add(tx, actor, deed.name(), subject, report.done, now)?;
    }
    fail::point("sqlite.after_deed");
    Ok(report)
}

/// Does it to one entry; the inner error says why not.
fn one(
    tx: &mut Tx<'_>,
    deed: &Deed,
    stored: &Stored,
    actor: &Actor,
    now: Timestamp,
) -> Done<Result<(), String>> {
    use EntryState::{Archived, Dead, Discarded, Held, Parked, Replaying, Waiting};
    let from = stored.state;
    let allowed = match deed {
        Deed::RetryNow => matches!(from, Waiting | Dead | Parked),
        Deed::Cancel => matches!(from, Waiting | Replaying),
        Deed::Park => matches!(from, Waiting | Held | Dead | Replaying),
        Deed::Discard | Deed::Skip => matches!(from, Waiting | Held | Dead | Parked | Replaying),
        Deed::Restore => matches!(from, Discarded | Archived),
        Deed::Archive => matches!(from, Dead | Parked | Discarded),
        Deed::Reroute(_) => matches!(from, Waiting | Held | Dead | Parked),
    };
    if !allowed {
        return Ok(Err(format!("it is {from}: {} does not apply", deed.name())));
    }
    if needs_body(deed, stored)
        && let Some(why) = apart::bodies::why_not(tx.sql, stored)?
    {
        return Ok(Err(why));
    }
    if *deed == Deed::Skip && !lanes::is_in_one(tx, stored)? {
        return Ok(Err("it stands in no lane: there is nothing to take it out of".to_owned()));
    }
    let shelf = match Shelf::of(tx, stored)? {
        Ok(shelf) => shelf,
        Err(missing) => return Ok(Err(missing.why())),
    };
    let at = now.as_millis().max(1);
    let message = Some(shelf.row());
    let away = |to| Move { to, earlier: Some(record::earlier_of(from)), due: stored.due, message };
    let mut lane = None;
    let step = match deed {
        Deed::RetryNow => {
            // What is due already keeps its place among the others that are.
            let due = shelf.due().filter(|due| from == Waiting && *due <= at).unwrap_or(at);
            if from == Waiting {
                shelf.put(tx, Some(due))?;
            } else {
                shelf.begin_again(tx, stored, due, None)?;
            }
            Move { to: Waiting, earlier: None, due: Some(at), message }
        }
        Deed::Skip if matches!(from, Dead | Parked) => {
            Move { to: from, earlier: None, due: stored.due, message }
        }
        Deed::Cancel | Deed::Park | Deed::Skip => {
            shelf.put(tx, None)?;
            Move { to: Parked, earlier: None, due: None, message }
        }
        Deed::Discard => {
            shelf.put(tx, None)?;
            away(Discarded)
        }
        Deed::Restore => {
            lane = lanes::lane_to_rejoin(tx, stored)?;
            let back = match stored.earlier.unwrap_or(Parked) {
                // What it was held behind is gone: it goes on.
                Held if lane.is_none() => Waiting,
                back => back,
            };
            let due = (back == Waiting).then(|| stored.due.unwrap_or(at));
            shelf.put(tx, due)?;
            Move { to: back, earlier: None, due, message }
        }
        Deed::Archive => {
            shelf.put(tx, None)?;
            Move { earlier: stored.earlier.or(Some(from)), ..away(Archived) }
        }
        Deed::Reroute(target) => {
            if let Err(why) = reroute(tx, stored, &shelf, target)? {
                return Ok(Err(why));
            }
            shelf.put(tx, None)?;
            away(Archived)
        }
    };
    record::put(tx, stored, &step, now)?;
    record::add_line(tx, stored.eid, &person_line(deed.name(), actor, step.due, now))?;
    apart::taken_over(tx, stored, now)?;
    // What is put aside is open, but its copy at a broker apart is spent.
    let aside = step.to == Parked && from != Parked;
    if aside || matches!(deed, Deed::Discard | Deed::Archive | Deed::Reroute(_) | Deed::Restore) {
        apart::resolve(tx, stored, step.to)?;
    }
    match deed {
        Deed::RetryNow => {}
        Deed::Cancel | Deed::Park => lanes::step_aside(tx, stored)?,
        Deed::Discard | Deed::Archive | Deed::Reroute(_) => lanes::ended(tx, stored)?,
        Deed::Skip => lanes::skip(tx, stored)?,
        Deed::Restore => lanes::rejoin(tx, stored, lane.as_ref())?,
    }
    Ok(Ok(()))
}

/// Whether the message's body has to be here: it is sent, or comes to lie where it is sent from.
fn needs_body(deed: &Deed, stored: &Stored) -> bool {
    match deed {
        Deed::RetryNow | Deed::Reroute(_) => true,
        Deed::Restore => matches!(stored.earlier, Some(EntryState::Waiting | EntryState::Held)),
        Deed::Cancel | Deed::Park | Deed::Discard | Deed::Archive | Deed::Skip => false,
    }
}

/// Sends a copy of the message to another address of its broker. Of a broker apart it lies in the flow's own queue until it
/// is sent on.
fn reroute(tx: &mut Tx<'_>, stored: &Stored, shelf: &Shelf, target: &str) -> Done<Result<(), String>> {
    let delivery = shelf.delivery(tx)?;
    if stored.keeper.is_some() {
        if target.is_empty() || target.chars().any(char::is_control) {
            return Ok(Err(
                "it cannot be sent to an address that is empty or has control characters".to_owned()
            ));
        }
        let queue = tx.home(&stored.flow)?;
        settle::forward(tx, queue, &delivery, Some(target))?;
        return Ok(Ok(()));
    }
    let size = delivery.message.body.as_ref().map_or(0, bytes::Bytes::len);
    match settle::open_target(tx, queue_name(target), size)? {
        Ok(queue) => settle::forward(tx, queue, &delivery, None).map(|_| Ok(())),
        Err(refusal) => Ok(Err(refusal.to_string())),
    }
}

/// A line that a person left in an entry's history.
pub(crate) fn person_line(what: &str, actor: &Actor, due: Option<i64>, at: Timestamp) -> HistoryLine {
    HistoryLine {
        because: Some(actor.why.clone()).filter(|why| !why.is_empty()),
        due_at: due.map(Timestamp::from_millis),
        by: Some(actor.who.clone()),
        ..HistoryLine::new(at, what)
    }
}
