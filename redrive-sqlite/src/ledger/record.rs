//! Writing down what became of a message.

use redrive_core::fingerprint::PayloadHash;
use redrive_core::headers::Field;
use redrive_core::{Class, ErrorLink, Headers, Reason, Timestamp};
use redrive_engine::port::{Delivery, DeliveryParts, EntryId, EntryState, HistoryLine, Keeper, Record};
use rusqlite::{OptionalExtension, Row, params};

use super::apart::Body;
use super::tally::{self, Place};
use super::{apart, replay_outcome, state};
use crate::codec;
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// Lines of history that an entry keeps.
pub(crate) const LINES: i64 = 32;

/// What a record is about, as far as the store holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carrier<'a> {
    /// The message in hand.
    pub(crate) delivery: &'a Delivery,
    /// Its row, when it stays.
    pub(crate) row: Option<i64>,
    /// Its row before this settlement.
    pub(crate) read_from: i64,
    /// The hash of its body.
    pub(crate) hash: Option<&'a PayloadHash>,
    /// When it failed first.
    pub(crate) first_failure: Option<Timestamp>,
    /// The lane that it is held in.
    pub(crate) lane: Option<&'a str>,
    /// Whether it was read from a broker apart, or lies in the queue beside one.
    pub(crate) apart: bool,
}

/// What is stored of an entry, as far as a change needs it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) eid: i64,
    pub(crate) id: EntryId,
    pub(crate) flow: String,
    pub(crate) state: EntryState,
    pub(crate) earlier: Option<EntryState>,
    pub(crate) message: Option<i64>,
    pub(crate) mid: String,
    pub(crate) group: Option<String>,
    pub(crate) lane: Option<String>,
    pub(crate) due: Option<i64>,
    pub(crate) attempts: u32,
    pub(crate) replay: Option<(i64, i64)>,
    /// Who hands it out next, when its broker stands apart.
    pub(crate) keeper: Option<Keeper>,
    /// Whether a copy may lie at its broker.
    pub(crate) shelved: bool,
    /// When a person last did something to it, where its broker stands apart.
    pub(crate) person: Option<i64>,
    /// The last settlement of its broker that was written down.
    pub(crate) told: Option<String>,
    /// When it failed last.
    pub(crate) last_failed: i64,
    /// Of one that is only taken to have recovered, the lane that it was the head of; empty without one.
    pub(crate) presumed: Option<String>,
    /// What of its body is here.
    pub(crate) body: Body,
}

const STORED: &str = "eid, id, flow, state, earlier, message, grp, lane, due, attempts, replay, replay_pos, mid, \
     keeper, shelved, person, told, last_failed, presumed, bodiless";

impl Stored {
    pub(crate) fn by_id(tx: &Tx<'_>, id: EntryId) -> Done<Option<Self>> {
        let statement = format!("SELECT {STORED} FROM entries WHERE id = ?1");
        let row = tx
            .sql
            .prepare_cached(&statement)?
            .query_row([&id.as_bytes()[..]], |row| Ok(Self::read(row)))
            .optional()?;
        row.transpose()
    }

    pub(crate) fn by_eid(tx: &Tx<'_>, eid: i64) -> Done<Option<Self>> {
        let statement = format!("SELECT {STORED} FROM entries WHERE eid = ?1");
        let row =
            tx.sql.prepare_cached(&statement)?.query_row([eid], |row| Ok(Self::read(row))).optional()?;
        row.transpose()
    }

    fn read(row: &Row<'_>) -> Done<Self> {
        let replay: Option<i64> = row.get(10)?;
        let place: Option<i64> = row.get(11)?;
        Ok(Self {
            eid: row.get(0)?,
            id: entry_id(&row.get::<_, Vec<u8>>(1)?)?,
            flow: row.get(2)?,
            state: state::of(row.get(3)?)?,
            earlier: row.get::<_, Option<i64>>(4)?.map(state::of).transpose()?,
            message: row.get(5)?,
            group: row.get(6)?,
            lane: row.get(7)?,
            due: row.get(8)?,
            attempts: row.get(9)?,
            replay: replay.zip(place),
            mid: row.get(12)?,
            keeper: row.get::<_, Option<i64>>(13)?.map(apart::keeper_of),
            shelved: row.get(14)?,
            person: row.get(15)?,
            told: row.get(16)?,
            last_failed: row.get(17)?,
            presumed: row.get(18)?,
            body: Body::of(row.get(19)?),
        })
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place { flow: &self.flow, state: self.state, group: self.group.as_deref() }
    }
}

pub(crate) fn entry_id(bytes: &[u8]) -> Done<EntryId> {
    EntryId::from_slice(bytes).map_err(|_| Fault::broken("an id in the ledger is no UUID"))
}

/// Where a restore goes back to, when an entry is put away from `state`.
pub(crate) fn earlier_of(state: EntryState) -> EntryState {
    match state {
        // Whatever sent it is over by then.
        EntryState::Replaying => EntryState::Parked,
        state => state,
    }
}

/// Makes the entry at its first record, brings it up to date at later ones. Answers with its row.
pub(crate) fn write_over(
    tx: &mut Tx<'_>,
    before: Option<&Stored>,
    record: &Record,
    carrier: &Carrier<'_>,
) -> Done<i64> {
    let (eid, lines) = match before {
        None => insert(tx, record, carrier)?,
        Some(stored) => (stored.eid, update(tx, stored, record, carrier)?),
    };
    let first = lines - lines_of(record) + 1;
    for (n, attempt) in (first..).zip(&record.earlier) {
        put_line(tx, eid, n, &attempt.line(attempt.ended_at(), None))?;
    }
    put_line(tx, eid, lines, &record.line())?;
    Ok(eid)
}

/// How many lines a record adds.
fn lines_of(record: &Record) -> i64 {
    i64::try_from(record.earlier.len()).unwrap_or(i64::MAX - 1) + 1
}

/// Adds what a record says to an entry's history.
pub(crate) fn add_lines(tx: &Tx<'_>, eid: i64, record: &Record) -> Done<()> {
    for attempt in &record.earlier {
        add_line(tx, eid, &attempt.line(attempt.ended_at(), None))?;
    }
    add_line(tx, eid, &record.line())
}

/// Whether the history has what a record says.
pub(crate) fn has_line(tx: &Tx<'_>, eid: i64, record: &Record) -> Done<bool> {
    let line = written(&record.line())?;
    Ok(tx
        .sql
        .prepare_cached("SELECT 1 FROM history WHERE entry = ?1 AND line = ?2")?
        .exists(params![eid, line])?)
}

fn written(line: &HistoryLine) -> Done<String> {
    serde_json::to_string(line).map_err(|error| Fault::broken(error.to_string()))
}

/// Answers with the new row, and how many lines its history is to have.
fn insert(tx: &mut Tx<'_>, record: &Record, carrier: &Carrier<'_>) -> Done<(i64, i64)> {
    let attempt = record.attempt.as_ref();
    let group = attempt.map(|attempt| attempt.group.to_string());
    let at = record.at.as_millis();
    let first = carrier.first_failure.map_or(at, Timestamp::as_millis).min(at);
    let DeliveryParts { message, source, .. } = &**carrier.delivery;
    let headers = codec::encode(&foreign(&message.headers));
    let key = message.key.as_deref().map(shown_key);
    let parent: Option<Vec<u8>> = tx
        .sql
        .prepare_cached("SELECT parent FROM messages WHERE id = ?1")?
        .query_row([carrier.read_from], |row| row.get(0))
        .optional()?
        .flatten();
    let earlier = matches!(record.state, EntryState::Discarded | EntryState::Archived)
        .then(|| state::number(EntryState::Parked));
    let chain = attempt.map_or(&[][..], |attempt| &attempt.chain);
    tx.sql
        .prepare_cached(
            "INSERT INTO entries (
                 id, flow, state, earlier, message, mid, message_key, type, content_type, size, attempts,
                 first_failed, last_failed, changed, due, class, reason, grp, http_status, owner, entity, tenant,
                 correlation, causation, parent, lane, held_behind, handler_version, source_kind, source_name,
                 partition, position, payload_hash, error_type, error_message, because, chain, headers, keeper,
                 lines)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                     ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37,
                     ?38, ?39)",
        )?
        .execute(params![
            &record.entry.as_bytes()[..],
            &*record.flow,
            state::number(record.state),
            earlier,
            carrier.row,
            message.id.as_str(),
            key,
            record.message_type,
            message.content_type.as_deref(),
            message.body.as_ref().map_or(0, bytes::Bytes::len),
            record.attempts,
            first,
            at,
            record.due_at.map(Timestamp::as_millis),
            attempt.map_or(Class::Unknown, |attempt| attempt.class).as_str(),
            reason(record).unwrap_or(&Reason::UNKNOWN_FAILURE).as_str(),
            group,
            attempt.and_then(|attempt| attempt.status),
            record.owner.as_deref(),
            record.entity,
            record.tenant,
            record.correlation_id,
            record.causation_id,
            parent,
            carrier.lane,
            record.held.as_ref().and_then(|held| held.behind.as_deref()),
            attempt.and_then(|attempt| attempt.handler_version.as_deref()),
            &*source.kind,
            &*source.name,
            source.partition,
            source.offset,
            carrier.hash.map(|hash| &hash.as_bytes()[..]),
            chain.first().map(|link| link.kind.as_str()).filter(|kind| !kind.is_empty()),
            chain.first().map_or("", |link| link.message.as_str()),
            because(record).unwrap_or_default(),
            chain_json(chain)?,
            headers,
            carrier.apart.then(|| apart::number_of(Keeper::Ledger)),
            lines_of(record),
        ])?;
    let eid = tx.sql.last_insert_rowid();
    let place = Place { flow: &record.flow, state: record.state, group: group.as_deref() };
    tally::shift(tx, None, Some(place));
    tally::see(tx, record, first);
    Ok((eid, lines_of(record)))
}

/// Answers with how many lines its history is to have.
fn update(tx: &mut Tx<'_>, stored: &Stored, record: &Record, carrier: &Carrier<'_>) -> Done<i64> {
    let attempt = record.attempt.as_ref();
    let group = attempt.map(|attempt| attempt.group.to_string()).or_else(|| stored.group.clone());
    let lane = carrier.lane.or(stored.lane.as_deref());
    let away = |state| matches!(state, EntryState::Discarded | EntryState::Archived);
    let earlier = match (away(record.state), away(stored.state)) {
        (true, false) => Some(earlier_of(stored.state)),
        (true, true) => stored.earlier,
        (false, _) => None,
    };
    let chain = attempt.map(|attempt| &attempt.chain[..]);
    let lines = tx
        .sql
        .prepare_cached(
            "UPDATE entries SET
                 state = ?2, earlier = ?3, message = ?4, attempts = ?5, lines = lines + ?26,
                 last_failed = CASE WHEN ?6 THEN max(last_failed, ?7) ELSE last_failed END, changed = ?7, due = ?8,
                 class = coalesce(?9, class), reason = coalesce(?10, reason), grp = ?11,
                 http_status = CASE WHEN ?6 THEN ?12 ELSE http_status END,
                 owner = coalesce(?13, owner), entity = coalesce(?14, entity), tenant = coalesce(?15, tenant),
                 correlation = coalesce(?16, correlation), causation = coalesce(?17, causation), lane = ?18,
                 held_behind = coalesce(?19, held_behind), handler_version = coalesce(?20, handler_version),
                 error_type = CASE WHEN ?6 THEN ?21 ELSE error_type END,
                 error_message = coalesce(?22, error_message), because = coalesce(?23, because),
                 chain = coalesce(?24, chain), type = coalesce(?25, type)
             WHERE eid = ?1 RETURNING lines",
        )?
        .query_row(params![
            stored.eid,
            state::number(record.state),
            earlier.map(state::number),
            carrier.row,
            record.attempts,
            attempt.is_some(),
            record.at.as_millis(),
            record.due_at.map(Timestamp::as_millis),
            attempt.map(|attempt| attempt.class.as_str()),
            // What was tried keeps the reason of its last failure while it is held.
            reason(record).filter(|_| attempt.is_some() || stored.attempts == 0).map(Reason::as_str),
            group,
            attempt.and_then(|attempt| attempt.status),
            record.owner.as_deref(),
            record.entity,
            record.tenant,
            record.correlation_id,
            record.causation_id,
            lane,
            record.held.as_ref().and_then(|held| held.behind.as_deref()),
            attempt.and_then(|attempt| attempt.handler_version.as_deref()),
            chain.and_then(|chain| chain.first()).map(|link| link.kind.as_str()).filter(|kind| !kind.is_empty()),
            chain.and_then(|chain| chain.first()).map(|link| link.message.as_str()),
            because(record),
            chain.map(chain_json).transpose()?,
            record.message_type,
            lines_of(record),
        ], |row| row.get(0))?;
    let place = Place { flow: &stored.flow, state: record.state, group: group.as_deref() };
    tally::shift(tx, Some(stored.place()), Some(place));
    tally::see(tx, record, record.at.as_millis());
    replay_outcome::learn(tx, stored, record.state, record.at)?;
    Ok(lines)
}

/// A change of state that no attempt made.
pub(crate) struct Move {
    pub(crate) to: EntryState,
    pub(crate) earlier: Option<EntryState>,
    pub(crate) due: Option<i64>,
    pub(crate) message: Option<i64>,
}

/// Puts an entry elsewhere and moves its counts along.
pub(crate) fn put(tx: &mut Tx<'_>, stored: &Stored, step: &Move, at: Timestamp) -> Done<()> {
    tx.sql
        .prepare_cached(
            "UPDATE entries SET state = ?2, earlier = ?3, due = ?4, message = ?5, changed = ?6 WHERE eid = ?1",
        )?
        .execute(params![
            stored.eid,
            state::number(step.to),
            step.earlier.map(state::number),
            step.due,
            step.message,
            at.as_millis(),
        ])?;
    tally::shift(tx, Some(stored.place()), Some(Place { state: step.to, ..stored.place() }));
    replay_outcome::learn(tx, stored, step.to, at)
}

/// Adds a line to an entry's history.
pub(crate) fn add_line(tx: &Tx<'_>, eid: i64, line: &HistoryLine) -> Done<()> {
    let n: i64 = tx
        .sql
        .prepare_cached("UPDATE entries SET lines = lines + 1 WHERE eid = ?1 RETURNING lines")?
        .query_row([eid], |row| row.get(0))?;
    put_line(tx, eid, n, line)
}

/// Writes the line with this number. The first stays; of the others the last ones.
fn put_line(tx: &Tx<'_>, eid: i64, n: i64, line: &HistoryLine) -> Done<()> {
    let text = written(line)?;
    tx.sql
        .prepare_cached("INSERT INTO history (entry, n, line) VALUES (?1, ?2, ?3)")?
        .execute(params![eid, n, text])?;
    if n > LINES {
        tx.sql
            .prepare_cached("DELETE FROM history WHERE entry = ?1 AND n = ?2")?
            .execute(params![eid, n - LINES + 1])?;
    }
    Ok(())
}

/// The reason of the attempt, or why it is kept without one.
fn reason(record: &Record) -> Option<&Reason> {
    let held = record.held.as_ref().map(|held| &held.reason);
    record.attempt.as_ref().map(|attempt| &attempt.reason).or(held)
}

/// Why it stands where it stands.
fn because(record: &Record) -> Option<&str> {
    let held = record.held.as_ref().map(|held| held.because.as_str());
    record.attempt.as_ref().map(|attempt| attempt.because.as_str()).or(held)
}

fn chain_json(chain: &[ErrorLink]) -> Done<String> {
    serde_json::to_string(chain).map_err(|error| Fault::broken(error.to_string()))
}

/// The headers without Redrive's own.
fn foreign(headers: &Headers) -> Headers {
    headers.iter().filter(|header| Field::of(header.name.as_str()).is_none()).cloned().collect()
}

/// A key as people see it and ask for it.
pub(crate) fn shown_key(key: &[u8]) -> String {
    use base64::Engine as _;
    match std::str::from_utf8(key) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("base64:{}", base64::engine::general_purpose::STANDARD.encode(key)),
    }
}
