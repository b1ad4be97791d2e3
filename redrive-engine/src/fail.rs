//! Places where a test can kill the process.
//!
//! "Nothing is lost" is a claim about every single moment between two durable writes. Each such moment has a name
//! here, in a list for each kind of flow that passes it, and the tests that iterate these lists kill the process at each
//! of them. In a build without debug assertions nothing of this exists.

/// The points of a flow on an embedded queue, in the order in which a message meets them.
pub const EMBEDDED: &[&str] = &[
    "sqlite.after_publish_insert",
    "engine.before_call",
    "engine.after_call",
    "engine.before_settle",
    "sqlite.after_settle_write",
    "sqlite.after_record",
    "sqlite.after_deed",
    "sqlite.after_order",
    "sqlite.after_replay_send",
    "sqlite.before_commit",
    "sqlite.after_commit",
    "sqlite.before_answer",
    "sqlite.after_answer",
    "engine.after_settle",
];

/// The points that a flow on Kafka passes beside those of the engine and of its ledger, when it settles in transactions.
pub const KAFKA: &[&str] = &[
    "kafka.after_begin",
    "kafka.after_delivery",
    "kafka.before_commit",
    "kafka.after_commit",
    "kafka.after_release",
    "apart.after_broker",
];

/// The same when it settles plainly.
pub const KAFKA_PLAIN: &[&str] = &["kafka.after_copies", "kafka.after_release"];

/// The points of a flow on Kafka whose partitions stand still for a message that is retried in hand.
pub const KAFKA_BLOCKING: &[&str] = &["engine.after_head"];

/// The points that a flow on RabbitMQ passes beside those of the engine and of its ledger.
pub const RABBITMQ: &[&str] =
    &["rabbit.before_publish", "rabbit.after_publish", "rabbit.after_ack", "apart.after_broker"];

/// The points of a copy on RabbitMQ that comes back before it is due, and is sent on its way again.
pub const RABBITMQ_MOVES: &[&str] = &["rabbit.after_move"];

/// The points of a flow whose ledger stands apart from its broker and is written first: for a lane, for a wait in the
/// ledger.
pub const LEDGER_FIRST: &[&str] = &["apart.after_ledger", "apart.after_copy", "apart.after_broker"];

/// All lists.
#[cfg(any(debug_assertions, test))]
const ALL: [&[&str]; 7] =
    [EMBEDDED, KAFKA, KAFKA_PLAIN, KAFKA_BLOCKING, RABBITMQ, RABBITMQ_MOVES, LEDGER_FIRST];

/// Aborts the process when the environment asks for it: `REDRIVE_FAIL=name` at the first time the point is passed,
/// `REDRIVE_FAIL=name:7` at the seventh. With `REDRIVE_FAIL=name:7:5000` it hangs there for so many milliseconds instead,
/// and then goes on.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::pass(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    struct Armed {
        name: String,
        left: AtomicU64,
        hangs: Option<Duration>,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    /// `name`, `name:n` or `name:n:milliseconds`; a number that is none counts as 1.
    pub(super) fn parse(text: &str) -> (String, u64, Option<Duration>) {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let mut number = || Some(parts.next()?.parse().unwrap_or(1).max(1));
        let times = number().unwrap_or(1);
        (name, times, number().map(Duration::from_millis))
    }

    pub(super) fn pass(name: &'static str) {
        debug_assert!(
            super::ALL.iter().any(|list| list.contains(&name)),
            "the fail point {name} is not listed"
        );
        let armed = ARMED.get_or_init(|| {
            let (name, times, hangs) = parse(&std::env::var("REDRIVE_FAIL").ok()?);
            Some(Armed { name, left: AtomicU64::new(times), hangs })
        });
        if let Some(armed) = armed
            && armed.name == name
            && armed.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            match armed.hangs {
                Some(long) => std::thread::sleep(long),
                None => std::process::abort(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_count_is_read() {
        for list in ALL {
            let mut names = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len());
        }
        #[cfg(debug_assertions)]
        {
            assert_eq!(armed::parse("a.b"), ("a.b".to_owned(), 1, None));
            assert_eq!(armed::parse("a.b:7"), ("a.b".to_owned(), 7, None));
            assert_eq!(armed::parse("a.b:x"), ("a.b".to_owned(), 1, None));
            let hangs = Some(std::time::Duration::from_millis(250));
            assert_eq!(armed::parse("a.b:2:250"), ("a.b".to_owned(), 2, hangs));
        }
    }

    #[test]
    fn a_point_that_is_not_asked_for_does_nothing() {
        for name in ALL.into_iter().flatten() {
            point(name);
        }
    }
}
