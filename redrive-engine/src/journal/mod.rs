//! The in-flight journal: which messages were in a handler's hands when the process died.
//!
//! A message that kills its process cannot be counted by the process. So the name of each message is written into a
//! small memory-mapped file before its handler is called and taken out after: two writes to memory, no system call.
//! The pages belong to the system, so they survive `abort()`, `kill -9` and the out-of-memory killer. The next
//! process finds exactly those names whose calls were running, charges each with a crash, and calls them suspects;
//! what was only fetched ahead is not charged. A suspect is cleared when a call for it has ended in whatever way.
//!
//! A power failure is another matter: what the disk then holds may be older than the last call. At worst a message
//! is suspected that did nothing, which costs it a turn alone and no attempt.
//!
//! The file is replaced, not changed, when it is opened, so no process ever sees another one's marks move.

mod file;
mod layout;
mod map;
mod suspicion;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use redrive_core::Timestamp;
use siphasher::sip::SipHasher13;

use layout::{HEAD, Image, MOST, PER_SUSPECT};
use map::Words;
pub use suspicion::Found;

/// There is room for so many suspects, or for as many as there are calls.
const SUSPECTS: usize = 1_024;

/// Why there is no journal. A flow runs without one; only crashes are not counted then.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be mapped into memory, as on some network file systems.
    #[error("{} cannot be mapped into memory: {source}", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The name of a message of a flow in the journal: the same in every process that uses the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(NonZeroU64);

/// The journal of an instance, shared by its flows.
///
/// ```
/// use redrive_engine::Journal;
/// use redrive_engine::port::{Clock as _, SystemClock};
///
/// let folder = tempfile::tempdir()?;
/// let journal = Journal::open(&folder.path().join("inflight"), 64, SystemClock::default().now())?;
/// let name = journal.name("orders", "order-1");
/// let call = journal.begin(name);
/// // The handler runs here. When it takes the process with it, the next one finds the name.
/// drop(call);
/// assert_eq!(journal.crashes(name), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    words: Words,
    key: [u64; 2],
    /// A power of two, at least twice as many as may run at once.
    calls: usize,
    /// Where each suspect stands. It is never changed: a suspect that was cleared has no name there any more.
    places: HashMap<Name, usize>,
    suspects: AtomicUsize,
    unnamed: AtomicU64,
    found: Found,
}

impl Journal {
    /// Opens the journal for so many calls at once. What was running when the last process died is charged with a
    /// crash. A file that is damaged or something else is moved aside, with a warning.
    pub fn open(path: &Path, calls: usize, now: Timestamp) -> Result<Self, JournalError> {
        let left = file::left_behind(path)?;
        let key = left.as_ref().map_or_else(
            || std::array::from_fn(|_| RandomState::new().build_hasher().finish()),
            |left| left.key,
        );
        // At most half full, so that a free word is found in a step or two.
        let words = calls.clamp(1, MOST / 2).saturating_mul(2).next_power_of_two();
        let room = words.max(SUSPECTS);
        let (suspects, found) = match left {
            Some(left) => suspicion::after_death(left, room, now),
            None => (Vec::new(), Found::default()),
        };
        let places = suspects
            .iter()
            .enumerate()
            .filter_map(|(at, suspect)| {
                Some((Name(NonZeroU64::new(suspect.name)?), HEAD + words + at * PER_SUSPECT))
            })
            .collect();
        let count = suspects.len();
        let image = Image { key, calls: words, room, running: Vec::new(), suspects };
        let file = file::replace(path, &image)?;
        let map = Words::of(&file).map_err(|source| JournalError::Map { path: path.to_owned(), source })?;
        Ok(Self {
            words: map,
            key,
            calls: words,
            places,
            suspects: AtomicUsize::new(count),
            unnamed: AtomicU64::new(0),
            found,
        })
    }

    /// The name of a flow's message. Whoever does not know the file's key cannot make an id that has the name of
    /// another one.
    pub fn name(&self, flow: &str, message_id: &str) -> Name {
        // No text has this byte, so no two pairs read the same.
        self.named(flow, 0xff, message_id.as_bytes())
    }

    /// The name of a flow's message that has no id of its own, by what it is like. Messages that are equal share it.
    pub fn name_by_likeness(&self, flow: &str, likeness: &[u8]) -> Name {
        self.named(flow, 0xfe, likeness)
    }

    fn named(&self, flow: &str, between: u8, known_by: &[u8]) -> Name {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(flow.as_bytes());
        hasher.write(&[between]);
        hasher.write(known_by);
        Name(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }

    /// Says that a call for this message begins. It ends when what is returned is dropped.
    ///
    /// When more calls run than there is room for, this one is not written down.
    #[must_use = "the call ends when this is dropped"]
    pub fn begin(&self, name: Name) -> Running<'_> {
        let calls = self.words.words().get(HEAD..HEAD + self.calls).unwrap_or_default();
        let first = name.0.get() as usize & (self.calls - 1);
        let word = calls.iter().skip(first).chain(calls.iter().take(first)).find(|word| {
            word.load(Ordering::Relaxed) == 0
                && word.compare_exchange(0, name.0.get(), Ordering::SeqCst, Ordering::Relaxed).is_ok()
        });
        if word.is_none() && self.unnamed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(room = self.calls, "more calls run than the in-flight journal has room for");
        }
        Running { word }
    }

    /// How often the process has died while a call for this message was running.
    pub fn crashes(&self, name: Name) -> u32 {
        if self.suspects() == 0 {
            return 0;
        }
        let Some([known, crashes, _]) = self.place(name) else { return 0 };
        if known.load(Ordering::Relaxed) != name.0.get() {
            return 0;
        }
        u32::try_from(crashes.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// How many messages are suspected.
    pub fn suspects(&self) -> usize {
        self.suspects.load(Ordering::Relaxed)
    }

    /// Clears a message of suspicion: a call for it has ended, or it was parked. Whether it was suspected.
    pub fn cleared(&self, name: Name) -> bool {
        self.suspects() > 0 && self.place(name).is_some_and(|place| self.clear(place, name.0.get()))
    }

    /// Forgets the suspects whose message has not come back for a day. Returns how many.
    pub fn forget(&self, now: Timestamp) -> usize {
        if self.suspects() == 0 {
            return 0;
        }
        let old = self.places.iter().filter(|(name, _)| {
            self.place(**name).is_some_and(|place| {
                let [_, _, last] = place;
                suspicion::is_old(layout::time(last.load(Ordering::Relaxed)), now)
                    && self.clear(place, name.0.get())
            })
        });
        old.count()
    }

    /// What was found when the journal was opened.
    pub const fn found(&self) -> Found {
        self.found
    }

    /// Calls that were not written down because more ran than there is room for.
    pub fn unnamed(&self) -> u64 {
        self.unnamed.load(Ordering::Relaxed)
    }

    fn place(&self, name: Name) -> Option<&[AtomicU64; PER_SUSPECT]> {
        let at = *self.places.get(&name)?;
        self.words.words().get(at..)?.first_chunk()
    }

    fn clear(&self, [known, ..]: &[AtomicU64; PER_SUSPECT], name: u64) -> bool {
        let cleared = known.compare_exchange(name, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if cleared {
            self.suspects.fetch_sub(1, Ordering::Relaxed);
        }
        cleared
    }
}

/// A call that is running. It ends when this is dropped, also when that is because its task was given up.
#[derive(Debug)]
pub struct Running<'j> {
    word: Option<&'j AtomicU64>,
}

impl Running<'_> {
    /// Whether the call is written down.
    pub const fn is_named(&self) -> bool {
        self.word.is_some()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(word) = self.word {
            word.store(0, Ordering::Release);
        }
    }
}
