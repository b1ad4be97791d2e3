//! Places where a test can kill the process.
//!
//! "Nothing is lost" is a claim about every single moment between two durable writes. Each such moment has a name
//! here, and a test that iterates [`POINTS`] kills the process at each of them. In a build without debug assertions
//! nothing of this exists.

/// Every fail point, in the order in which a message meets them.
pub const POINTS: &[&str] = &[
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

/// Aborts the process when the environment asks for it: `REDRIVE_FAIL=name` at the first time the point is passed,
/// `REDRIVE_FAIL=name:7` at the seventh.
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

    struct Armed {
        name: String,
        left: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    /// `name` or `name:n`; a number that is none counts as 1.
    pub(super) fn parse(text: &str) -> (String, u64) {
        match text.rsplit_once(':') {
            Some((name, times)) => (name.to_owned(), times.parse().unwrap_or(1).max(1)),
            None => (text.to_owned(), 1),
        }
    }

    pub(super) fn pass(name: &'static str) {
        debug_assert!(super::POINTS.contains(&name), "the fail point {name} is not listed");
        let armed = ARMED.get_or_init(|| {
            let (name, times) = parse(&std::env::var("REDRIVE_FAIL").ok()?);
            Some(Armed { name, left: AtomicU64::new(times) })
        });
        if let Some(armed) = armed
            && armed.name == name
            && armed.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_count_is_read() {
        let mut names = POINTS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
        #[cfg(debug_assertions)]
        {
            assert_eq!(armed::parse("a.b"), ("a.b".to_owned(), 1));
            assert_eq!(armed::parse("a.b:7"), ("a.b".to_owned(), 7));
            assert_eq!(armed::parse("a.b:x"), ("a.b".to_owned(), 1));
        }
    }

    #[test]
    fn a_point_that_is_not_asked_for_does_nothing() {
        for name in POINTS {
            point(name);
        }
    }
}
