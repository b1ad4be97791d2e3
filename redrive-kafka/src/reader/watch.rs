//! What the client library tells a member of a group.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

/// Partitions of topics.
pub(crate) type Partitions = Vec<(String, i32)>;

/// A change of what this member reads. It is answered later, by the thread that polls: giving partitions up takes as
/// long as it takes to drain them.
#[derive(Debug)]
pub(crate) enum Change {
    /// These are ours now.
    Assigned(Partitions),
    /// These are to be given up.
    Revoked {
        /// Which.
        partitions: Partitions,
        /// Others may have them already.
        lost: bool,
    },
}

/// How far the client has fetched a partition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetched {
    /// The next offset it asks for; what lies between the last record and this one is no record.
    pub(crate) next: i64,
    /// Records that it has fetched and not given to us.
    pub(crate) queued: i64,
    /// Behind the last one that may be read.
    pub(crate) end: i64,
}

/// What the client library has told.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    changes: Mutex<VecDeque<Change>>,
    fetched: Mutex<HashMap<(String, i32), Fetched>>,
    leaving: AtomicBool,
    trouble: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a change that nobody has to prepare for.
pub(crate) fn accept<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    ours: bool,
) {
    let cooperative = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
    let answered = match (cooperative, ours) {
        (true, true) => consumer.incremental_assign(partitions),
        (true, false) => consumer.incremental_unassign(partitions),
        (false, true) => consumer.assign(partitions),
        (false, false) => consumer.unassign(),
    };
    if let Err(error) = answered {
        tracing::warn!(%error, ours, "a change of the assignment was not taken");
    }
}

impl Watch {
    /// The next change.
    pub(crate) fn change(&self) -> Option<Change> {
        lock(&self.changes).pop_front()
    }

    /// Tells of a change.
    pub(super) fn add(&self, change: Change) {
        lock(&self.changes).push_back(change);
    }

    /// Whether the next change takes something away.
    pub(crate) fn takes_next(&self) -> bool {
        matches!(lock(&self.changes).front(), Some(Change::Revoked { .. }))
    }

    /// From now on everything is given up at once.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// How far a partition is fetched, as far as is known.
    pub(crate) fn fetched(&self, topic: &str, partition: i32) -> Option<Fetched> {
        lock(&self.fetched).get(&(topic.to_owned(), partition)).copied()
    }

    /// Forgets how far partitions were fetched.
    pub(crate) fn forget(&self, partitions: &Partitions) {
        let mut fetched = lock(&self.fetched);
        for partition in partitions {
            fetched.remove(partition);
        }
    }

    /// What went wrong since the last time somebody asked.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).take()
    }
}

impl ClientContext for Watch {
    fn stats(&self, statistics: Statistics) {
        let mut fetched = lock(&self.fetched);
        for (name, topic) in statistics.topics {
            for (number, partition) in topic.partitions {
                if number >= 0 {
                    let at = Fetched {
                        next: partition.next_offset,
                        queued: partition.fetchq_cnt,
                        end: partition.ls_offset.max(0),
                    };
                    fetched.insert((name.clone(), number), at);
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "the client reports an error");
        *lock(&self.trouble) = Some(format!("{error}: {reason}"));
    }
}

impl ConsumerContext for Watch {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let ours = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.leaving.load(Ordering::Acquire) {
            return accept(consumer, partitions, ours);
        }
        let named: Partitions =
            partitions.elements().iter().map(|one| (one.topic().to_owned(), one.partition())).collect();
        let change = if ours {
            Change::Assigned(named)
        } else {
            Change::Revoked { partitions: named, lost: consumer.assignment_lost() }
        };
        self.add(change);
    }
}
