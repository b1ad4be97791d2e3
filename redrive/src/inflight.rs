//! The instance's in-flight journal, beside its data file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::Journal;
use redrive_engine::port::Clock;
use tokio::task::JoinHandle;

/// Calls of all flows together that can be named at once.
const CALLS: usize = 4_096;
/// How often suspects that never came back are looked for.
const FORGET_EVERY: Duration = Duration::from_secs(600);

/// The journal, and the task that forgets who never came back. Without a journal the flows run all the same.
#[derive(Debug)]
pub(crate) struct Inflight {
    journal: Option<Arc<Journal>>,
    forgetting: Option<JoinHandle<()>>,
}

impl Inflight {
    /// Opens the journal of a data folder. The caller holds the folder's lock.
    pub(crate) async fn open(folder: &Path, clock: &Arc<dyn Clock>) -> Self {
        let file = folder.join("inflight");
        let now = clock.now();
        let opened = tokio::task::spawn_blocking(move || Journal::open(&file, CALLS, now)).await;
        let why = match opened {
            Ok(Ok(journal)) => return Self::forgetting(journal, Arc::clone(clock)),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error = why, "no in-flight journal; messages that kill the process are not counted");
        Self { journal: None, forgetting: None }
    }

    fn forgetting(journal: Journal, clock: Arc<dyn Clock>) -> Self {
        let found = journal.found();
        if found.crashed > 0 {
            tracing::warn!(
                calls = found.crashed,
                suspects = journal.suspects(),
                "the last process died while these calls ran; their messages are suspects"
            );
        }
        let journal = Arc::new(journal);
        let suspected = Arc::clone(&journal);
        let forgetting = tokio::spawn(async move {
            loop {
                tokio::time::sleep(FORGET_EVERY).await;
                let forgotten = suspected.forget(clock.now());
                if forgotten > 0 {
                    tracing::info!(forgotten, "suspects that did not come back within a day are forgotten");
                }
            }
        });
        Self { journal: Some(journal), forgetting: Some(forgetting) }
    }

    /// The journal, when there is one.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        self.journal.clone()
    }
}

impl Drop for Inflight {
    fn drop(&mut self) {
        if let Some(forgetting) = &self.forgetting {
            forgetting.abort();
        }
    }
}
