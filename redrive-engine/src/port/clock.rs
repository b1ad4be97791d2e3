//! The engine's only source of time.

use std::time::Duration;

use redrive_core::Timestamp;

/// What time it is. Waiting is tokio's business; a test that pauses tokio's time brings a clock that follows it.
pub trait Clock: std::fmt::Debug + Send + Sync + 'static {
    /// The wall clock. It may be set back.
    fn now(&self) -> Timestamp;

    /// Time since a fixed origin. It never goes back.
    fn monotonic(&self) -> Duration;
}

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        #[cfg(debug_assertions)]
        let millis = millis.saturating_add(set::off_by());
        Timestamp::from_millis(millis)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that is wrong, as a test of the whole process needs one. In a build without debug assertions nothing of this
/// exists.
#[cfg(debug_assertions)]
mod set {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();

    /// The milliseconds that stand in the file which `REDRIVE_CLOCK` names; none without one.
    pub(super) fn off_by() -> i64 {
        let file = FILE.get_or_init(|| std::env::var_os("REDRIVE_CLOCK").map(PathBuf::from));
        let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}
