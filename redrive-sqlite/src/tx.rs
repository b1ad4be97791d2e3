//! A transaction of the writer: its connection, what it remembers about the queues, and what happens in memory once it
//! is committed.

use std::collections::HashMap;
use std::sync::Arc;

use redrive_core::Timestamp;
use redrive_engine::port::{HeaderRules, Refusal, home_of};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::{ContextV7, Uuid};

use crate::fault::Done;
use crate::lane_counts::LaneCounts;
use crate::ledger::tally::Tally;
use crate::reading::{Claim, Readings};

/// What the writer remembers between transactions.
#[derive(Debug)]
pub(crate) struct Memory {
    queues: HashMap<Arc<str>, u32>,
    metas: HashMap<u32, Meta>,
    next_row: i64,
    ids: ContextV7,
    lanes: Arc<LaneCounts>,
    pub(crate) queue_limit: u64,
    pub(crate) message_limit: usize,
}

/// What is known of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) ready: i64,
    pub(crate) waiting: i64,
    pub(crate) limit: u64,
    pub(crate) dedup_ms: Option<i64>,
    /// It is a flow's own beside its broker: ids may repeat in it.
    pub(crate) home: bool,
}

impl Memory {
    pub(crate) fn new(
        connection: &Connection,
        lanes: Arc<LaneCounts>,
        queue_limit: u64,
        message_limit: usize,
    ) -> rusqlite::Result<Self> {
        let last: i64 =
            connection.query_row("SELECT coalesce(max(id), 0) FROM messages", [], |row| row.get(0))?;
        Ok(Self {
            queues: HashMap::new(),
            metas: HashMap::new(),
            next_row: last + 1,
            ids: ContextV7::new(),
            lanes,
            queue_limit,
            message_limit,
        })
    }

    /// After a rollback: what is in the file counts.
    pub(crate) fn forget(&mut self) {
        self.queues.clear();
        self.metas.clear();
    }
}

/// What a commit changes for the readers.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// A row was settled; it can be delivered again from `due` on, if at all.
    Settled { queue: u32, row: i64, due: Option<i64> },
    /// A row can be delivered from `due` on.
    Arrived { queue: u32, row: i64, due: i64 },
    /// A row stands in its old place again: what was read ahead is newer.
    Back { queue: u32, row: i64, due: i64 },
}

impl Effect {
    fn queue(&self) -> u32 {
        match *self {
            Self::Settled { queue, .. } | Self::Arrived { queue, .. } | Self::Back { queue, .. } => queue,
        }
    }
}

/// Changes of a queue's kept counts.
#[derive(Debug, Clone, Copy)]
struct Delta {
    queue: u32,
    ready: i64,
    waiting: i64,
}

/// A transaction.
pub(crate) struct Tx<'c> {
    pub(crate) sql: &'c Connection,
    pub(crate) memory: &'c mut Memory,
    pub(crate) now: Timestamp,
    readings: &'c Readings,
    effects: Vec<Effect>,
    deltas: Vec<Delta>,
    /// Changes of how many entries stand where.
    pub(crate) tallies: Vec<Tally>,
    /// Rows that this transaction keeps from the readers: queue, row, due time before.
    held: Vec<(u32, i64, Option<i64>)>,
    /// Changes of how many lanes a flow has.
    lanes: Vec<(String, i64)>,
    kept: Kept,
}

/// How much of a transaction stands, whatever becomes of the job that runs.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    effects: usize,
    deltas: usize,
    tallies: usize,
    lanes: usize,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(
        sql: &'c Connection,
        memory: &'c mut Memory,
        readings: &'c Readings,
        now: Timestamp,
    ) -> Self {
        Self {
            sql,
            memory,
            now,
            readings,
            effects: Vec::new(),
            deltas: Vec::new(),
            tallies: Vec::new(),
            held: Vec::new(),
            lanes: Vec::new(),
            kept: Kept::default(),
        }
    }

    /// The number of a queue, made on first use.
    pub(crate) fn queue(&mut self, name: &str) -> Done<u32> {
        if let Some(queue) = self.memory.queues.get(name) {
            return Ok(*queue);
        }
        check_name(name)?;
        self.sql
            .prepare_cached(
                "INSERT INTO queues (name, created) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            )?
            .execute(params![name, self.now.as_millis()])?;
        let queue: u32 = self
            .sql
            .prepare_cached("SELECT id FROM queues WHERE name = ?1")?
            .query_row([name], |row| row.get(0))?;
        self.memory.queues.insert(name.into(), queue);
        Ok(queue)
    }

    /// The number of the queue in which messages of a flow lie whose broker stands apart, made on first use.
    pub(crate) fn home(&mut self, flow: &str) -> Done<u32> {
        let queue = self.queue(&home_of(flow))?;
        if !self.meta(queue)?.home {
            self.sql.prepare_cached("UPDATE queues SET home = 1 WHERE id = ?1")?.execute([queue])?;
            self.settings_changed(queue);
        }
        Ok(queue)
    }

    /// What is known of a queue, this transaction's changes included.
    pub(crate) fn meta(&mut self, queue: u32) -> Done<Meta> {
        let known = self.memory.metas.get(&queue).copied();
        let mut meta = known.map_or_else(|| self.read_meta(queue), Ok)?;
        for delta in self.deltas.iter().filter(|delta| delta.queue == queue) {
            meta.ready += delta.ready;
            meta.waiting += delta.waiting;
        }
        Ok(meta)
    }

    fn read_meta(&mut self, queue: u32) -> Done<Meta> {
        let default = self.memory.queue_limit;
        let found = self
            .sql
            .prepare_cached("SELECT ready, waiting, size_limit, dedup_ms, home FROM queues WHERE id = ?1")?
            .query_row([queue], |row| {
                Ok(Meta {
                    ready: row.get(0)?,
                    waiting: row.get(1)?,
                    limit: row.get::<_, Option<u64>>(2)?.unwrap_or(default),
                    dedup_ms: row.get(3)?,
                    home: row.get(4)?,
                })
            })
            .optional()?;
        let found = found.ok_or_else(|| Refusal::NotFound { what: "queue", name: queue.to_string() })?;
        self.memory.metas.insert(queue, found);
        Ok(found)
    }

    /// Forgets a queue's settings after they were changed.
    pub(crate) fn settings_changed(&mut self, queue: u32) {
        self.memory.metas.remove(&queue);
    }

    /// The next row of `messages`: never used twice while the file is open, so that a late settlement cannot meet
    /// another message.
    pub(crate) fn next_row(&mut self) -> i64 {
        let row = self.memory.next_row;
        self.memory.next_row += 1;
        row
    }

    /// A new id of version 7.
    pub(crate) fn mint(&mut self) -> Uuid {
        let millis = self.now.as_millis().max(0).cast_unsigned();
        let at =
            uuid::Timestamp::from_unix(&self.memory.ids, millis / 1_000, (millis % 1_000) as u32 * 1_000_000);
        Uuid::new_v7(at)
    }

    /// Where the tallies of the job that runs begin.
    pub(crate) fn tallied(&self) -> usize {
        self.kept.tallies
    }

    /// Keeps the counts of a row that goes from one place to another.
    pub(crate) fn moved(&mut self, queue: u32, from: Option<i64>, to: Option<i64>) {
        let (mut ready, mut waiting) = (0, 0);
        for (place, by) in [(from, -1), (to, 1)] {
            match place {
                Some(0) => ready += by,
                Some(_) => waiting += by,
                None => {}
            }
        }
        self.counted(queue, ready, waiting);
    }

    /// Keeps the counts of a queue that has so many more.
    pub(crate) fn counted(&mut self, queue: u32, ready: i64, waiting: i64) {
        if ready == 0 && waiting == 0 {
            return;
        }
        let mine = self.kept.deltas;
        match self.deltas[mine..].iter_mut().find(|delta| delta.queue == queue) {
            Some(delta) => {
                delta.ready += ready;
                delta.waiting += waiting;
            }
            None => self.deltas.push(Delta { queue, ready, waiting }),
        }
    }

    pub(crate) fn settled(&mut self, queue: u32, row: i64, due: Option<i64>) {
        self.effects.push(Effect::Settled { queue, row, due });
    }

    pub(crate) fn arrived(&mut self, queue: u32, row: i64, due: i64) {
        self.effects.push(Effect::Arrived { queue, row, due });
    }

    /// A row stands in its old place again, in hand until now or not.
    pub(crate) fn back(&mut self, queue: u32, row: i64, due: i64) {
        self.effects.push(Effect::Back { queue, row, due });
    }

    /// A flow has so many lanes more.
    pub(crate) fn lanes_changed(&mut self, flow: &str, by: i64) {
        self.lanes.push((flow.to_owned(), by));
    }

    /// How the flow that reads a queue spells and signs its headers; the usual way while none does.
    pub(crate) fn rules(&self, queue: u32) -> HeaderRules {
        self.readings.of(queue).lock().rules.clone()
    }

    /// Keeps a row from the readers until this transaction has ended; no when one of them has it in hand.
    pub(crate) fn hold(&mut self, queue: u32, row: i64, due: Option<i64>) -> bool {
        if self.held.iter().any(|held| held.1 == row) {
            return true;
        }
        let taken =
            self.readings.of(queue).lock().claim_for_writer(row, Claim { due: due.unwrap_or(0), entry: 0 });
        if taken {
            self.held.push((queue, row, due));
        }
        taken
    }

    /// The job's writes stand.
    pub(crate) fn keep(&mut self) {
        self.kept = Kept {
            effects: self.effects.len(),
            deltas: self.deltas.len(),
            tallies: self.tallies.len(),
            lanes: self.lanes.len(),
        };
    }

    /// The job's writes are rolled back, and with them what it wanted of the readers.
    pub(crate) fn drop_back(&mut self) {
        self.effects.truncate(self.kept.effects);
        self.deltas.truncate(self.kept.deltas);
        self.tallies.truncate(self.kept.tallies);
        self.lanes.truncate(self.kept.lanes);
        self.memory.forget();
    }

    pub(crate) fn write_counts(&mut self) -> rusqlite::Result<()> {
        for delta in &self.deltas {
            self.sql
                .prepare_cached("UPDATE queues SET ready = ready + ?2, waiting = waiting + ?3 WHERE id = ?1")?
                .execute(params![delta.queue, delta.ready, delta.waiting])?;
        }
        self.tallies.iter().try_for_each(|tally| tally.write(self.sql))
    }

    /// After the commit: tells the readers.
    pub(crate) fn publish_effects(&mut self) {
        // Let go first: a reader that meets a held row passes it by for good, unless it is told to look back after.
        self.release_held();
        for delta in &self.deltas {
            if let Some(meta) = self.memory.metas.get_mut(&delta.queue) {
                meta.ready += delta.ready;
                meta.waiting += delta.waiting;
            }
        }
        self.memory.lanes.add(&self.lanes);
        // Neighbours of one queue share a lock of its reader.
        for of_queue in self.effects.chunk_by(|one, next| one.queue() == next.queue()) {
            let Some(queue) = of_queue.first().map(Effect::queue) else { continue };
            let reading = self.readings.of(queue);
            let mut state = reading.lock();
            let mut news = false;
            for effect in of_queue {
                match *effect {
                    Effect::Settled { row, due, .. } => {
                        state.release(row, due);
                        news |= due.is_some();
                    }
                    Effect::Arrived { row, due, .. } => {
                        // A new ready row is behind every cursor: rows are numbered in the order of the commits.
                        if due != 0 {
                            state.arrived(row, due);
                        }
                        news = true;
                    }
                    Effect::Back { row, due, .. } => {
                        state.release(row, Some(due));
                        state.given_back = true;
                        news = true;
                    }
                }
            }
            drop(state);
            if news {
                reading.news.notify_one();
            }
        }
    }

    /// After a rollback: the readers go on as before.
    pub(crate) fn forget_effects(&mut self) {
        self.release_held();
    }

    fn release_held(&mut self) {
        for (queue, row, due) in self.held.drain(..) {
            let reading = self.readings.of(queue);
            reading.lock().release(row, due);
            reading.news.notify_one();
        }
    }
}

fn check_name(name: &str) -> Done<()> {
    let fits = (1..=200).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if fits {
        return Ok(());
    }
    let found: String = name.chars().take(64).collect();
    Err(Refusal::Invalid(format!(
        "`{found}` is no name of a queue; expected 1 to 200 of A-Z, a-z, 0-9, `.`, `_` and `-`"
    ))
    .into())
}
