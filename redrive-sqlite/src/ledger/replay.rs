//! Replays: a frozen selection, sent back step by step, each send in one transaction with its mark.

use redrive_core::headers;
use redrive_core::{Text, Timestamp};
use redrive_engine::fail;
use redrive_engine::port::{
    Actor, EntryId, EntryState, NewReplay, Pointer, PortError, Refusal, Replay, ReplayItem, ReplayOutcome,
    ReplayState, ReplayStep,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::apart::Body;
use super::record::{self, Move, Stored, entry_id};
use super::replay_plan::{self, Chosen};
use super::shelf::Shelf;
use super::{apart, audit, deeds, replay_outcome, state};
use crate::fault::{Done, Fault};
use crate::store::Store;
use crate::tx::Tx;

/// Entries that are frozen in one transaction.
const FREEZE: usize = 2_000;
/// Entries that one step sends at most.
const STEP: u64 = 500;

/// While a selection is being frozen its replay is in this state: nobody sees it, and one that a crash left behind is
/// removed when the file is opened.
const FREEZING: &str = "freezing";

const COLUMNS: &str = "id, state, filter, who, why, created, ended, rate, canary, total, sent, recovered, failed, skipped, rid, place";

pub(crate) async fn begin(
    store: &Store,
    id: EntryId,
    new: &NewReplay,
    actor: &Actor,
    now: Timestamp,
) -> Result<Replay, PortError> {
    let wanted = new.clone();
    let mut chosen: Vec<Chosen> =
        store.inner.readers.run(move |sql| replay_plan::choose(sql, &wanted)).await?;
    chosen.truncate(new.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)));
    refuse_unreachable(store, &chosen).await?;
    let (begun, by) = (new.clone(), actor.clone());
    let rid = store.inner.writer.run(move |tx| create(tx, id, &begun, &by, now)).await?;
    let total = chosen.len() as u64;
    for (number, chunk) in chosen.chunks(FREEZE).enumerate() {
        let (chunk, first) = (chunk.to_vec(), number * FREEZE);
        store.inner.writer.run(move |tx| freeze(tx, rid, first, &chunk)).await?;
    }
    let by = actor.clone();
    store
        .inner
        .writer
        .run(move |tx| {
            tx.sql
                .prepare_cached("UPDATE replays SET state = 'running', total = ?2 WHERE rid = ?1")?
                .execute(params![rid, total])?;
            audit::add(tx, &by, "replay run", &id.hyphenated().to_string(), total, now)?;
            replay_outcome::finish_if_done(tx, rid, now)?;
            get(tx.sql, id)?.ok_or_else(|| missing(id).into())
        })
        .await
}

/// Refuses a replay of bodies that lie at a broker which nobody here can ask.
async fn refuse_unreachable(store: &Store, chosen: &[Chosen]) -> Result<(), PortError> {
    let rows: Vec<i64> = chosen.iter().filter(|one| !one.is_here).map(|one| one.eid).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let pointers = store.inner.readers.run(move |sql| apart::bodies::pointers(sql, &rows)).await?;
    let cannot = |pointer: &&Pointer| store.inner.brokers.of(&pointer.flow).is_none();
    match pointers.iter().find(cannot) {
        None => Ok(()),
        Some(pointer) => {
            let (flow, place) = (&pointer.flow, &pointer.place);
            let count = pointers.iter().filter(cannot).count();
            Err(Refusal::State(format!(
                "the bodies of {count} of these lie at their broker, the first at {place}: start an instance that runs the flow `{flow}`, and replay then"
            ))
            .into())
        }
    }
}

/// Makes a step, once the bodies that it sends are here.
pub(crate) async fn step_with_bodies(
    store: &Store,
    id: EntryId,
    limit: u64,
    now: Timestamp,
) -> Result<ReplayStep, PortError> {
    let next = move |sql: &Connection| {
        let Some(job) = job(sql, id)?.filter(|job| job.replay.state == ReplayState::Running) else {
            return Ok(Vec::new());
        };
        let next = pending(sql, &job, allowance(&job.replay, limit))?;
        let entries = next.iter().map(|(_, entry)| entry_id(entry)).collect::<Done<Vec<_>>>()?;
        apart::bodies::rows_of(sql, &entries)
    };
    let rows = store.inner.readers.run(next).await?;
    if !rows.is_empty() {
        apart::bodies::bring(store, rows).await?;
    }
    store.inner.writer.run(move |tx| step(tx, id, limit, now)).await
}

/// What is to be sent next: places and entries.
fn pending(sql: &Connection, job: &Job, most: u64) -> Done<Vec<(i64, Vec<u8>)>> {
    Ok(sql
        .prepare_cached(
            "SELECT pos, entry FROM replay_items WHERE replay = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3",
        )?
        .query_map(params![job.rid, job.place, most], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?)
}

fn missing(id: EntryId) -> Refusal {
    Refusal::NotFound { what: "replay", name: id.hyphenated().to_string() }
}

fn create(tx: &mut Tx<'_>, id: EntryId, new: &NewReplay, actor: &Actor, now: Timestamp) -> Done<i64> {
    let filter = serde_json::to_string(&new.filter).map_err(|error| Fault::broken(error.to_string()))?;
    let made = tx
        .sql
        .prepare_cached(
            "INSERT INTO replays (id, state, filter, who, why, created, rate, canary)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            &id.as_bytes()[..],
            FREEZING,
            filter,
            actor.who,
            actor.why,
            now.as_millis(),
            new.rate.map(|rate| rate.to_string()),
            new.canary,
        ])?;
    if made == 0 {
        return Err(Refusal::State(format!("the replay {} is already there", id.hyphenated())).into());
    }
    Ok(tx.sql.last_insert_rowid())
}

fn freeze(tx: &mut Tx<'_>, rid: i64, first: usize, chosen: &[Chosen]) -> Done<()> {
    let mut statement = tx.sql.prepare_cached(
        "INSERT INTO replay_items (replay, pos, entry, outcome, was) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let pending = replay_outcome::number(ReplayOutcome::Pending);
    for (place, one) in chosen.iter().enumerate() {
        let pos = first + place + 1;
        statement.execute(params![rid, pos, &one.id.as_bytes()[..], pending, state::number(one.was)])?;
    }
    Ok(())
}

/// Removes selections that a crash left half frozen.
pub(crate) fn remove_unfinished(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute(
        "DELETE FROM replay_items WHERE replay IN (SELECT rid FROM replays WHERE state = ?1)",
        [FREEZING],
    )?;
    sql.execute("DELETE FROM replays WHERE state = ?1", [FREEZING])?;
    Ok(())
}

/// A replay with what only a step needs.
struct Job {
    replay: Replay,
    rid: i64,
    place: i64,
}

fn job(sql: &Connection, id: EntryId) -> Done<Option<Job>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM replays WHERE id = ?1 AND state <> ?2"))?
        .query_row(params![&id.as_bytes()[..], FREEZING], |row| Ok(read(row)))
        .optional()?;
    found.transpose()
}

fn read(row: &Row<'_>) -> Done<Job> {
    let broken = |what: &str| Fault::broken(format!("the {what} of a replay cannot be read"));
    let filter: String = row.get(2)?;
    let rate: Option<String> = row.get(7)?;
    let replay = Replay {
        id: entry_id(&row.get::<_, Vec<u8>>(0)?)?,
        state: state_of(&row.get::<_, String>(1)?)?,
        filter: serde_json::from_str(&filter).map_err(|_| broken("filter"))?,
        by: row.get(3)?,
        reason: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        ended_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
        rate: rate.map(|rate| rate.parse().map_err(|_| broken("rate"))).transpose()?,
        canary: row.get(8)?,
        total: row.get(9)?,
        sent: row.get(10)?,
        recovered: row.get(11)?,
        failed: row.get(12)?,
        skipped: row.get(13)?,
    };
    Ok(Job { replay, rid: row.get(14)?, place: row.get(15)? })
}

const STATES: [(ReplayState, &str); 6] = [
    (ReplayState::Planned, "planned"),
    (ReplayState::Running, "running"),
    (ReplayState::Paused, "paused"),
    (ReplayState::Done, "done"),
    (ReplayState::Cancelled, "cancelled"),
    (ReplayState::Stopped, "stopped"),
];

fn state_of(text: &str) -> Done<ReplayState> {
    let known = STATES.iter().find(|(_, name)| *name == text);
    known
        .map(|(state, _)| *state)
        .ok_or_else(|| Fault::broken(format!("a replay stands in a state that is none: {text}")))
}

fn name_of(state: ReplayState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("planned", |(_, name)| name)
}

pub(crate) fn get(sql: &Connection, id: EntryId) -> Done<Option<Replay>> {
    Ok(job(sql, id)?.map(|job| job.replay))
}

pub(crate) fn list(sql: &Connection, limit: usize) -> Done<Vec<Replay>> {
    let mut statement = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM replays WHERE state <> ?1 ORDER BY rid DESC LIMIT ?2"
    ))?;
    let mut rows = statement.query(params![FREEZING, limit.min(1_000)])?;
    let mut replays = Vec::new();
    while let Some(row) = rows.next()? {
        replays.push(read(row)?.replay);
    }
    Ok(replays)
}

pub(crate) fn items(sql: &Connection, id: EntryId, after: u64, limit: usize) -> Done<Vec<ReplayItem>> {
    let job = job(sql, id)?.ok_or_else(|| missing(id))?;
    let mut statement = sql.prepare_cached(
        "SELECT entry, outcome, was FROM replay_items WHERE replay = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![job.rid, after, limit.min(10_000)])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(ReplayItem {
            entry: entry_id(&row.get::<_, Vec<u8>>(0)?)?,
            outcome: replay_outcome::of(row.get(1)?)?,
            was: state::of(row.get(2)?)?,
        });
    }
    Ok(items)
}

/// How many may be sent now: all that is asked for, unless the first few have to come back before.
fn allowance(replay: &Replay, limit: u64) -> u64 {
    let limit = limit.min(STEP);
    match replay.canary {
        Some(canary) if replay.sent < canary => limit.min(canary - replay.sent),
        Some(canary) if replay.recovered + replay.failed < canary => 0,
        _ => limit,
    }
}

fn step(tx: &mut Tx<'_>, id: EntryId, limit: u64, now: Timestamp) -> Done<ReplayStep> {
    let job = job(tx.sql, id)?.ok_or_else(|| missing(id))?;
    if job.replay.state != ReplayState::Running {
        return Ok(ReplayStep { sent: 0, state: job.replay.state });
    }
    let allowed = allowance(&job.replay, limit);
    let (mut sent, mut skipped, mut place) = (0_u64, 0_u64, job.place);
    for (pos, entry) in pending(tx.sql, &job, allowed)? {
        let outcome = match send(tx, &job, pos, entry_id(&entry)?, now)? {
            Send::Sent => {
                sent += 1;
                ReplayOutcome::Sent
            }
            Send::Elsewhere => {
                skipped += 1;
                ReplayOutcome::Skipped
            }
            // Its turn comes when its body is here.
            Send::Later(_) if place > job.place => break,
            Send::Later(why) => return Err(PortError::Unavailable(why).into()),
        };
        tx.sql
            .prepare_cached("UPDATE replay_items SET outcome = ?3 WHERE replay = ?1 AND pos = ?2")?
            .execute(params![job.rid, pos, replay_outcome::number(outcome)])?;
        place = pos;
    }
    tx.sql
        .prepare_cached(
            "UPDATE replays SET sent = sent + ?2, skipped = skipped + ?3, place = ?4 WHERE rid = ?1",
        )?
        .execute(params![job.rid, sent, skipped, place])?;
    replay_outcome::finish_if_done(tx, job.rid, now)?;
    fail::point("sqlite.after_replay_send");
    let state = get(tx.sql, id)?.map_or(ReplayState::Done, |replay| replay.state);
    Ok(ReplayStep { sent, state })
}

/// What became of one entry of a replay.
enum Send {
    Sent,
    /// It is no longer where it had been, or its body is gone.
    Elsewhere,
    /// Its body is not here yet, and why.
    Later(String),
}

/// Sends one entry back.
fn send(tx: &mut Tx<'_>, job: &Job, pos: i64, entry: EntryId, now: Timestamp) -> Done<Send> {
    let Some(stored) = Stored::by_id(tx, entry)? else { return Ok(Send::Elsewhere) };
    if !replay_plan::can_be_sent(stored.state) {
        return Ok(Send::Elsewhere);
    }
    if let Some(why) = apart::bodies::why_not(tx.sql, &stored)? {
        return Ok(if stored.body == Body::AtBroker { Send::Later(why) } else { Send::Elsewhere });
    }
    let Ok(shelf) = Shelf::of(tx, &stored)? else { return Ok(Send::Elsewhere) };
    let at = now.as_millis().max(1);
    let carried = headers::Replay {
        id: Some(Text::from(job.replay.id.hyphenated().to_string())),
        by: Some(Text::from(job.replay.by.as_str())),
        reason: Some(Text::from(job.replay.reason.as_str())),
        death_count: stored.attempts,
    };
    shelf.begin_again(tx, &stored, at, Some(carried))?;
    let step = Move { to: EntryState::Replaying, earlier: None, due: Some(at), message: Some(shelf.row()) };
    record::put(tx, &stored, &step, now)?;
    apart::taken_over(tx, &stored, now)?;
    tx.sql
        .prepare_cached(
            "UPDATE entries SET replays = replays + 1, replay = ?2, replay_pos = ?3 WHERE eid = ?1",
        )?
        .execute(params![stored.eid, job.rid, pos])?;
    let actor = Actor { who: job.replay.by.clone(), why: job.replay.reason.clone() };
    record::add_line(tx, stored.eid, &deeds::person_line("replay", &actor, None, now))?;
    Ok(Send::Sent)
}

pub(crate) fn steer(
    tx: &mut Tx<'_>,
    id: EntryId,
    to: ReplayState,
    actor: &Actor,
    now: Timestamp,
) -> Done<Replay> {
    use ReplayState::{Cancelled, Paused, Planned, Running, Stopped};
    let job = job(tx.sql, id)?.ok_or_else(|| missing(id))?;
    let from = job.replay.state;
    let what = match (from, to) {
        (Running, Paused) => "replay pause",
        (Paused | Planned | Stopped, Running) => "replay resume",
        (Running | Paused | Planned | Stopped, Cancelled) => "replay cancel",
        (Running, Stopped) => "replay stop",
        _ => {
            let text = format!("the replay is {} and cannot become {}", name_of(from), name_of(to));
            return Err(Refusal::State(text).into());
        }
    };
    let ended = (to == Cancelled).then(|| now.as_millis());
    tx.sql.prepare_cached("UPDATE replays SET state = ?2, ended = ?3 WHERE rid = ?1")?.execute(params![
        job.rid,
        name_of(to),
        ended
    ])?;
    let left = job.replay.total - job.replay.sent - job.replay.skipped;
    audit::add(tx, actor, what, &id.hyphenated().to_string(), left, now)?;
    replay_outcome::finish_if_done(tx, job.rid, now)?;
    get(tx.sql, id)?.ok_or_else(|| missing(id).into())
}
