//! A store in memory, for one process and for tests.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::Timestamp;

use super::{Answer, CallKeys, Claim, Claimed, IdempotencyKey, KeyStore, Lease, StoreError};

/// What an entry takes beside its key and its answer: its places in the table and in the order of ends, of which some are
/// always empty.
const ENTRY: usize = 320;

/// How much a [`MemoryStore`] holds. What is full refuses: nothing is forgotten before its time. So what comes with a key
/// while an answer is kept (a day, unless the server's layer says otherwise) has to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Keys. Default: 1,000,000, which do not fit into the bytes.
    pub keys: usize,
    /// Bytes of memory, about. Default: 256 MiB, which are some 300,000 small answers.
    pub bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { keys: 1_000_000, bytes: 256 << 20 }
    }
}

/// Remembers keys in memory, bounded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    limits: MemoryLimits,
    bytes: usize,
    entries: HashMap<Name, Entry>,
    /// When each is forgotten, soonest first.
    ends: BTreeSet<(Timestamp, Name)>,
}

/// What an entry is known by: requests and calls never meet, whatever scope or name they have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Request(Arc<str>),
    Call(Arc<str>),
}

impl Name {
    fn len(&self) -> usize {
        let (Self::Request(name) | Self::Call(name)) = self;
        name.len()
    }
}

#[derive(Debug)]
struct Entry {
    until: Timestamp,
    weight: usize,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Running { fingerprint: [u8; 32], token: u64 },
    Done { fingerprint: [u8; 32], answer: Answer },
    Call(IdempotencyKey),
}

impl MemoryStore {
    /// A store that holds no more than that.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { state: Arc::new(Mutex::new(State { limits, ..State::default() })) }
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tidy(&mut self, now: Timestamp) {
        while let Some((_, name)) = self.ends.first().filter(|(until, _)| *until <= now).cloned() {
            self.remove(&name);
        }
    }

    fn remove(&mut self, name: &Name) -> Option<Entry> {
        let (name, entry) = self.entries.remove_entry(name)?;
        self.bytes -= entry.weight;
        self.ends.remove(&(entry.until, name));
        Some(entry)
    }

    fn put(&mut self, name: Name, until: Timestamp, held: Held) -> Result<(), StoreError> {
        let weight =
            name.len() + ENTRY + if let Held::Done { answer, .. } = &held { answer.weight() } else { 0 };
        let MemoryLimits { keys, bytes } = self.limits;
        if self.entries.len() >= keys {
            return Err(StoreError::Full(format!("it holds {keys} keys")));
        }
        if self.bytes + weight > bytes {
            return Err(StoreError::Full(format!("it holds {} of {bytes} bytes", self.bytes)));
        }
        self.bytes += weight;
        self.ends.insert((until, name.clone()));
        self.entries.insert(name, Entry { until, weight, held });
        Ok(())
    }

    fn claim(&mut self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        self.tidy(claim.now);
        let key: Arc<str> = claim.key.into();
        let name = Name::Request(Arc::clone(&key));
        match self.entries.get(&name).map(|entry| &entry.held) {
            Some(Held::Running { fingerprint, .. } | Held::Done { fingerprint, .. })
                if *fingerprint != claim.fingerprint =>
            {
                return Ok(Claimed::Other);
            }
            Some(Held::Running { token, .. }) if *token == claim.token => {
                let lease = Lease { key, token: claim.token };
                self.extend(&lease, claim.now + claim.lease);
                return Ok(Claimed::First(lease));
            }
            Some(Held::Running { .. }) => return Ok(Claimed::Running),
            Some(Held::Done { answer, .. }) => return Ok(Claimed::Done(answer.clone())),
            Some(Held::Call(_)) => return Ok(Claimed::Other),
            None => {}
        }
        let Claim { fingerprint, token, .. } = claim;
        self.put(name, claim.now + claim.lease, Held::Running { fingerprint, token })?;
        Ok(Claimed::First(Lease { key, token }))
    }

    /// The fingerprint of what this lease still holds.
    fn held_by(&self, lease: &Lease) -> Option<[u8; 32]> {
        match self.entries.get(&request(lease))?.held {
            Held::Running { fingerprint, token } if token == lease.token => Some(fingerprint),
            _ => None,
        }
    }

    fn extend(&mut self, lease: &Lease, until: Timestamp) -> bool {
        let name = request(lease);
        if self.held_by(lease).is_none() {
            return false;
        }
        let Some(entry) = self.entries.get_mut(&name) else { return false };
        self.ends.remove(&(entry.until, name.clone()));
        entry.until = until;
        self.ends.insert((until, name));
        true
    }

    fn remember(&mut self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        let Some(fingerprint) = self.held_by(lease) else { return Ok(false) };
        let Some(running) = self.remove(&request(lease)) else { return Ok(false) };
        match self.put(request(lease), until, Held::Done { fingerprint, answer }) {
            Ok(()) => Ok(true),
            Err(full) => {
                // The claim stays, so that the call is not made a second time before its lease is over.
                self.put(request(lease), running.until, running.held)?;
                Err(full)
            }
        }
    }
}

fn request(lease: &Lease) -> Name {
    Name::Request(Arc::clone(&lease.key))
}

impl KeyStore for MemoryStore {
    async fn claim(&self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        self.state().claim(claim)
    }

    async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        Ok(self.state().extend(lease, until))
    }

    async fn remember(&self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        self.state().remember(lease, answer, until)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.held_by(lease).is_some() {
            state.remove(&request(lease));
        }
        Ok(())
    }
}

impl CallKeys for MemoryStore {
    async fn key_for(
        &self,
        call: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<IdempotencyKey, StoreError> {
        let mut state = self.state();
        state.tidy(now);
        let name = Name::Call(call.into());
        if let Some(Entry { held: Held::Call(key), .. }) = state.entries.get(&name) {
            return Ok(key.clone());
        }
        let key = IdempotencyKey::new();
        state.put(name, until, Held::Call(key.clone()))?;
        Ok(key)
    }

    async fn forget(&self, call: &str) -> Result<(), StoreError> {
        self.state().remove(&Name::Call(call.into()));
        Ok(())
    }
}
