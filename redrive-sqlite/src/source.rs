//! Reading a queue: what is ready in the order of its arrival, what is due in the order of its time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive_core::{Headers, Message, Text, Timestamp};
use redrive_engine::port::{
    Delivery, DeliveryParts, Depth, EntryId, HeaderRules, PortError, Room, Source, SourceRef, Tag,
};
use rusqlite::{Connection, Row, params};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::codec;
use crate::fault::{Done, Fault};
use crate::ledger::apart::place;
use crate::reading::{Claim, Cursor, Reading};
use crate::store::Store;

/// How long nothing is looked at without news: a clock that was set forward is noticed within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Messages read ahead in one look, when there is room for fewer: a look costs a change of threads.
const AHEAD: usize = 128;
/// Bytes read ahead in one look.
const AHEAD_BYTES: usize = 1 << 20;
/// Overdue messages that a depth tells from waiting ones; what is beyond counts as waiting.
const OVERDUE: i64 = 10_000;

const COLUMNS: &str = "id, due, size, entry, mid, enqueued, content_type, key, headers, body";

/// The one reader of a queue.
pub(crate) struct QueueSource {
    store: Store,
    view: View,
    ahead: Arc<Mutex<VecDeque<Taken>>>,
    look: Option<JoinHandle<Result<Look, PortError>>>,
    rest: Option<Rest>,
}

/// The last look found nothing: until when another one would find nothing either, unless there is news.
#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    /// Whether it looked for retries too.
    of_all: bool,
}

/// A message that was read.
struct Taken {
    delivery: Delivery,
    /// Whether it waited for a time: a retry, mostly.
    has_waited: bool,
}

impl Taken {
    fn row(&self) -> i64 {
        self.delivery.tag.number.cast_signed()
    }
}

/// What a look needs to know of its queue.
#[derive(Clone)]
struct View {
    queue: u32,
    epoch: u32,
    name: Arc<str>,
    kind: Arc<str>,
    rules: HeaderRules,
    /// Whether its messages were read from another broker first.
    home: bool,
    reading: Arc<Reading>,
}

impl View {
    /// Where a message of the queue was read first.
    fn source_of(&self, sql: &Connection, entry: i64) -> Done<SourceRef> {
        let before = if self.home && entry != 0 { place::origin_of(sql, entry)? } else { None };
        let here =
            || SourceRef { kind: self.kind.clone(), name: self.name.clone(), partition: None, offset: None };
        Ok(before.unwrap_or_else(here))
    }
}

/// How a look ended.
struct Look {
    /// The next due time, when there is one and everything deliverable was taken.
    next: Option<i64>,
    /// Whether it found nothing.
    in_vain: bool,
    /// Whether it looked for retries too.
    of_all: bool,
}

impl QueueSource {
    pub(crate) fn new(
        store: Store,
        queue: u32,
        epoch: u32,
        name: Arc<str>,
        rules: HeaderRules,
        home: bool,
    ) -> Self {
        let reading = store.inner.readings.of(queue);
        let view = View { queue, epoch, name, kind: "embedded".into(), rules, home, reading };
        Self { store, view, ahead: Arc::default(), look: None, rest: None }
    }

    /// Moves what was read ahead to the caller, as far as there is room.
    fn hand_out(&self, room: Room, into: &mut Vec<Delivery>) -> bool {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut state = self.view.reading.lock();
            // What was given back is older than what was read ahead: look again, in order. And what waited for its time is
            // not kept here while none of it is wanted: people can still act on it where it lies.
            let all = std::mem::take(&mut state.given_back);
            if all || room.retries == 0 {
                ahead.retain(|taken| {
                    let kept = !(all || taken.has_waited);
                    if !kept {
                        let due = state.claims.get(&taken.row()).map(|claim| claim.due);
                        state.release(taken.row(), due);
                    }
                    kept
                });
            }
        }
        let (mut messages, mut retries, mut bytes, mut place) = (0, 0, 0_usize, 0);
        while let Some(next) = ahead.get(place) {
            if next.has_waited && retries >= room.retries {
                place += 1;
                continue;
            }
            bytes = bytes.saturating_add(weight(&next.delivery));
            if messages > 0 && (messages >= room.messages || bytes > room.bytes) {
                break;
            }
            messages += 1;
            retries += usize::from(next.has_waited);
            into.extend(ahead.remove(place).map(|taken| taken.delivery));
        }
        messages > 0
    }

    /// Starts a look on another thread. It runs to its end even when this is cancelled; what it takes is in `ahead`.
    fn start_look(&mut self, room: Room) {
        let (store, view, ahead) = (self.store.clone(), self.view.clone(), self.ahead.clone());
        let messages = room.messages.max(AHEAD);
        // Retries are read ahead only where nothing bounds them.
        let retries = if room.retries < room.messages { room.retries } else { messages };
        let room = Room { messages, bytes: room.bytes.max(AHEAD_BYTES), retries };
        let now = self.store.now();
        self.look = Some(tokio::spawn(async move {
            let readers = store.inner.readers.clone();
            readers
                .run(move |sql| {
                    let mut taken = Vec::new();
                    let look = look(sql, &view, room, now, &mut taken)?;
                    ahead.lock().unwrap_or_else(PoisonError::into_inner).extend(taken);
                    Ok(look)
                })
                .await
        }));
    }

    async fn finish_look(&mut self) -> Result<(), PortError> {
        let Some(look) = &mut self.look else { return Ok(()) };
        let ended = look.await;
        self.look = None;
        let look =
            ended.map_err(|error| PortError::Broken(format!("a look at the queue failed: {error}")))??;
        let wait = look
            .next
            .map_or(LOOK_AGAIN, |next| Timestamp::from_millis(next).since(self.store.now()).min(LOOK_AGAIN));
        self.rest = look.in_vain.then(|| Rest { until: Instant::now() + wait, of_all: look.of_all });
        Ok(())
    }

    /// Waits for news, or until it is worth looking again.
    async fn rest(&mut self, room: Room) {
        if let Some(rest) = self.rest.filter(|rest| rest.of_all || room.retries == 0) {
            // Who gives up waiting loses no news: it is kept for the next one who waits.
            let _ = tokio::time::timeout_at(rest.until, self.view.reading.news.notified()).await;
        }
        self.rest = None;
    }
}

#[async_trait]
impl Source for QueueSource {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        loop {
            self.finish_look().await?;
            if self.hand_out(room, into) {
                return Ok(());
            }
            self.rest(room).await;
            self.start_look(room);
        }
    }

    /// A look holds the store, and so the file's lock.
    async fn close(&mut self) {
        let _ = self.finish_look().await;
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        let (queue, now) = (self.view.queue, self.store.now().as_millis());
        self.store.inner.readers.run(move |sql| depth(sql, queue, now)).await
    }
}

impl Drop for QueueSource {
    fn drop(&mut self) {
        let mut state = self.view.reading.lock();
        if state.epoch == self.view.epoch {
            state.subscribed = false;
        }
    }
}

fn weight(delivery: &Delivery) -> usize {
    delivery.message.body.as_ref().map_or(0, Bytes::len)
}

/// How much lies in a queue.
pub(crate) fn depth(sql: &Connection, queue: u32, now: i64) -> Done<Depth> {
    let (ready, waiting): (u64, u64) = sql
        .prepare_cached("SELECT ready, waiting FROM queues WHERE id = ?1")?
        .query_row([queue], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let overdue: u64 = sql
        .prepare_cached(
            "SELECT count(*) FROM
             (SELECT 1 FROM messages WHERE queue = ?1 AND due > 0 AND due <= ?2 LIMIT ?3)",
        )?
        .query_row(params![queue, now, OVERDUE], |row| row.get(0))?;
    Ok(Depth { ready: ready + overdue, waiting: waiting.saturating_sub(overdue) })
}

/// Takes what is deliverable, within the room, and says when the next is due.
fn look(sql: &Connection, view: &View, room: Room, now: Timestamp, taken: &mut Vec<Taken>) -> Done<Look> {
    let of_all = room.retries > 0;
    let Some(from) = view.reading.lock().begin_look(view.epoch) else {
        return Ok(Look { next: None, in_vain: true, of_all });
    };
    let mut looking = Looking { view, room, bytes: 0, taken, reached: from };
    let found = looking.all(sql, now.as_millis());
    let reached = if found.is_ok() { looking.reached } else { from };
    let mut state = view.reading.lock();
    if found.is_err() && state.epoch == view.epoch {
        // Nothing of a look that failed was handed out.
        for taken in taken.drain(..) {
            state.claims.remove(&taken.row());
        }
    }
    state.end_look(view.epoch, reached);
    found.map(|next| Look { next, in_vain: taken.is_empty(), of_all })
}

struct Looking<'a> {
    view: &'a View,
    room: Room,
    bytes: usize,
    taken: &'a mut Vec<Taken>,
    reached: Cursor,
}

impl Looking<'_> {
    fn all(&mut self, sql: &Connection, now: i64) -> Done<Option<i64>> {
        // Both kinds get their half before one may take the rest: neither a flood of fresh messages nor a backlog of
        // retries starves the other.
        let half = self.room.messages.div_ceil(2).min(self.room.retries);
        let due_left = self.due(sql, now, half)?;
        let retries_left = self.room.retries - self.taken.len().min(self.room.retries);
        let ready_left = self.ready(sql, self.room.messages)?;
        if due_left && !ready_left {
            let most = self.taken.len().saturating_add(retries_left).min(self.room.messages);
            self.due(sql, now, most)?;
        }
        if !self.taken.is_empty() {
            return Ok(None);
        }
        let next = sql
            .prepare_cached("SELECT min(due) FROM messages WHERE queue = ?1 AND due > 0 AND due > ?2")?
            .query_row(params![self.view.queue, now], |row| row.get(0))?;
        Ok(next)
    }

    /// Takes due messages until there are `most`; tells whether some may be left.
    fn due(&mut self, sql: &Connection, now: i64, most: usize) -> Done<bool> {
        if self.taken.len() >= most {
            return Ok(true);
        }
        let (due, row) = self.reached.due;
        let mut statement = sql.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM messages
             WHERE queue = ?1 AND due > 0 AND due >= ?2 AND due <= ?4 AND (due > ?2 OR id > ?3)
             ORDER BY due, id"
        ))?;
        let mut rows = statement.query(params![self.view.queue, due, row, now])?;
        while let Some(row) = rows.next()? {
            if !self.take(sql, row, most)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ready(&mut self, sql: &Connection, most: usize) -> Done<bool> {
        let mut statement = sql.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM messages INDEXED BY messages_ready
             WHERE queue = ?1 AND due = 0 AND id > ?2 ORDER BY id"
        ))?;
        let mut rows = statement.query(params![self.view.queue, self.reached.ready])?;
        while let Some(row) = rows.next()? {
            if !self.take(sql, row, most)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes one row; no when there is no room for it.
    fn take(&mut self, sql: &Connection, row: &Row<'_>, most: usize) -> Done<bool> {
        let (id, due, size): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let bytes = self.bytes.saturating_add(usize::try_from(size).unwrap_or(0));
        let full = self.taken.len() >= most || bytes > self.room.bytes;
        if full && !self.taken.is_empty() {
            return Ok(false);
        }
        let claim = Claim { due, entry: row.get::<_, Option<i64>>(3)?.unwrap_or(0) };
        let redelivered = {
            let mut state = self.view.reading.lock();
            // Another subscription has begun: its claims are not this one's business.
            if state.epoch != self.view.epoch {
                return Ok(false);
            }
            if !state.claim(id, claim) {
                drop(state);
                self.pass(id, due);
                return Ok(true);
            }
            state.again.remove(&id)
        };
        let taken = self.view.source_of(sql, claim.entry).and_then(|source| {
            let tag = Tag { stream: self.view.queue, epoch: self.view.epoch, number: id.cast_unsigned() };
            delivery(sql, row, &self.view.rules, (tag, source), claim, redelivered)
        });
        match taken {
            Ok(delivery) => self.taken.push(Taken { delivery, has_waited: due > 0 }),
            Err(fault) => {
                self.view.reading.lock().claims.remove(&id);
                return Err(fault);
            }
        }
        self.bytes = bytes;
        self.pass(id, due);
        Ok(true)
    }

    fn pass(&mut self, id: i64, due: i64) {
        if due == 0 {
            self.reached.ready = id;
        } else {
            self.reached.due = (due, id);
        }
    }
}

fn delivery(
    sql: &Connection,
    row: &Row<'_>,
    rules: &HeaderRules,
    (tag, source): (Tag, SourceRef),
    claim: Claim,
    redelivered: bool,
) -> Done<Delivery> {
    let blob = |column: usize| -> Done<Option<Bytes>> {
        Ok(row.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from)?.map(Bytes::copy_from_slice))
    };
    let text = |column: usize| -> Done<Option<Text>> {
        Ok(row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?.map(Text::from))
    };
    let headers = match blob(8)? {
        None => Headers::new(),
        Some(headers) => codec::decode(&headers)
            .ok_or_else(|| Fault::broken(format!("the headers of message {} cannot be read", tag.number)))?,
    };
    let body = blob(9)?;
    // Only this store gives a message an entry, and it writes the headers together with it. Without one they are those
    // that somebody published.
    let mid = text(4)?.unwrap_or_default();
    let mut trail = if claim.entry == 0 {
        rules.read(&headers, body.as_deref())
    } else {
        HeaderRules::read_own(&headers)
    };
    if claim.entry == 0 && is_anothers(sql, trail.entry_id.as_deref(), &mid)? {
        trail.forget_entry();
    }
    let message = Message { id: mid, key: blob(7)?, body, headers, content_type: text(6)? };
    let ready_at = if claim.due == 0 { row.get(5)? } else { claim.due };
    Ok(Delivery::from(DeliveryParts {
        tag,
        message,
        trail,
        source,
        ready_at: Timestamp::from_millis(ready_at),
        redelivered,
    }))
}

/// Whether an entry that published headers name is one of another message: it would be written over.
fn is_anothers(sql: &Connection, entry: Option<&str>, mid: &str) -> Done<bool> {
    let Some(entry) = entry.and_then(|id| EntryId::parse_str(id).ok()) else { return Ok(false) };
    let found = sql
        .prepare_cached("SELECT 1 FROM entries WHERE id = ?1 AND mid <> ?2")?
        .exists(params![&entry.as_bytes()[..], mid])?;
    Ok(found)
}
