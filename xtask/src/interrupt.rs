//! Ctrl-C and polite kills.
//!
//! Every child runs in a process group of its own, so a key pressed in the terminal reaches xtask alone. It passes
//! the signal on, waits, stops the servers and says how far it came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Result};

static ASKED: AtomicBool = AtomicBool::new(false);
static CHILDREN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Starts to listen for signals. A second signal ends the children at once.
pub(crate) fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        std::thread::spawn(move || {
            for _ in signals.forever() {
                let signal = if ASKED.swap(true, Ordering::SeqCst) { Signal::KILL } else { Signal::TERM };
                let children = CHILDREN.lock().map(|children| children.clone()).unwrap_or_default();
                for child in children {
                    // It may have ended just now.
                    let _ = kill_process_group(child, signal);
                }
            }
        });
    });
}

/// An error once the task has been asked to end.
pub(crate) fn check() -> Result<()> {
    if ASKED.load(Ordering::SeqCst) { Err(Error::Interrupted) } else { Ok(()) }
}

/// A child whose process group is told when the task is asked to end.
pub(crate) struct Watched(Pid);

impl Watched {
    /// Watches the group that this process leads.
    pub(crate) fn new(leader: Pid) -> Self {
        if let Ok(mut children) = CHILDREN.lock() {
            children.push(leader);
        }
        if check().is_err() {
            let _ = kill_process_group(leader, Signal::TERM);
        }
        Self(leader)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Ok(mut children) = CHILDREN.lock() {
            children.retain(|child| *child != self.0);
        }
    }
}
