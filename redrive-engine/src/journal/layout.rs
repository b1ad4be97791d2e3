//! What stands where in the file, in words of 64 bits as the machine orders their bytes: the file stays where it is,
//! and one from a machine of another kind is not recognised.
//!
//! | words | content |
//! |---|---|
//! | 0 | `RDFLIGHT` |
//! | 1 | the version of this layout |
//! | 2, 3 | how many calls and how many suspects there is room for |
//! | 4, 5 | the key that names are made with |
//! | 6 | a check over the words before it |
//! | 7 | nothing |
//! | then | a word a call: the name of the message, or 0 |
//! | then | three words a suspect: the name or 0, its crashes, when it last crashed |
//!
//! A name is one word, so it is written as a whole or not at all, whenever the process dies.

use std::hash::Hasher as _;

use redrive_core::Timestamp;
use siphasher::sip::SipHasher13;

const MAGIC: u64 = u64::from_ne_bytes(*b"RDFLIGHT");
const VERSION: u64 = 1;
/// Words before the calls.
pub(super) const HEAD: usize = 8;
/// Words of a suspect.
pub(super) const PER_SUSPECT: usize = 3;
const WORD: usize = 8;
/// No table is longer, so that a file that says so is not believed.
pub(super) const MOST: usize = 1 << 20;
/// No file is longer.
pub(super) const LONGEST: u64 = ((HEAD + MOST + MOST * PER_SUSPECT) * WORD) as u64;

/// A message that was running when the process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) name: u64,
    pub(super) crashes: u32,
    pub(super) last: Timestamp,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) key: [u64; 2],
    /// Room for so many calls.
    pub(super) calls: usize,
    /// Room for so many suspects.
    pub(super) room: usize,
    /// The names of what runs.
    pub(super) running: Vec<u64>,
    pub(super) suspects: Vec<Suspect>,
}

/// Why a file is no journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("it is something else than an in-flight journal")]
    Foreign,
    #[error("it is of version {0}, and this build knows version {VERSION}")]
    Version(u64),
    #[error("its head is damaged")]
    Head,
    #[error("it is {found} bytes long and not {expected}")]
    Length { expected: usize, found: usize },
}

impl Image {
    /// The bytes of a file that holds this. What there is no room for is left out.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC, VERSION, self.calls as u64, self.room as u64, self.key[0], self.key[1]];
        words.push(check(&words));
        words.resize(HEAD, 0);
        words.extend(self.running.iter().take(self.calls));
        words.resize(HEAD + self.calls, 0);
        for suspect in self.suspects.iter().take(self.room) {
            words.extend([
                suspect.name,
                u64::from(suspect.crashes),
                u64::try_from(suspect.last.as_millis()).unwrap_or(0),
            ]);
        }
        words.resize(HEAD + self.calls + self.room * PER_SUSPECT, 0);
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    /// Reads a file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let (words, rest) = bytes.as_chunks::<WORD>();
        let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
        if word(0) != Some(MAGIC) {
            return Err(Damage::Foreign);
        }
        match word(1) {
            Some(VERSION) => {}
            Some(other) => return Err(Damage::Version(other)),
            None => return Err(Damage::Head),
        }
        let head: Vec<u64> = (0..HEAD).map_while(word).collect();
        let Some((before, &[said, _])) = head.split_last_chunk::<2>() else {
            return Err(Damage::Head);
        };
        let &[_, _, calls, room, first, second] = before else {
            return Err(Damage::Head);
        };
        let size = |count: u64| usize::try_from(count).ok().filter(|count| *count <= MOST);
        let (Some(calls), Some(room), true) = (size(calls), size(room), said == check(before)) else {
            return Err(Damage::Head);
        };
        let expected = HEAD + calls + room * PER_SUSPECT;
        if words.len() != expected || !rest.is_empty() {
            return Err(Damage::Length { expected: expected * WORD, found: bytes.len() });
        }
        let all: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let (running, suspects) = all[HEAD..].split_at(calls);
        Ok(Self {
            key: [first, second],
            calls,
            room,
            running: running.iter().copied().filter(|name| *name != 0).collect(),
            suspects: suspects.as_chunks::<PER_SUSPECT>().0.iter().filter_map(suspect).collect(),
        })
    }
}

fn suspect(&[name, crashes, last]: &[u64; PER_SUSPECT]) -> Option<Suspect> {
    (name != 0).then(|| Suspect {
        name,
        crashes: u32::try_from(crashes).unwrap_or(u32::MAX),
        last: time(last),
    })
}

/// The time that a word tells.
pub(super) fn time(word: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(word).unwrap_or(i64::MAX))
}

fn check(words: &[u64]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(MAGIC, VERSION);
    for word in words {
        hasher.write(&word.to_ne_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn image() -> impl Strategy<Value = Image> {
        let name = 1..u64::MAX;
        let suspect = (name.clone(), any::<u32>(), 0i64..4_000_000_000_000)
            .prop_map(|(name, crashes, last)| Suspect { name, crashes, last: Timestamp::from_millis(last) });
        (
            any::<[u64; 2]>(),
            proptest::collection::vec(name, 0..40),
            proptest::collection::vec(suspect, 0..40),
            0usize..20,
        )
            .prop_map(|(key, running, suspects, spare)| Image {
                key,
                calls: running.len() + spare,
                room: suspects.len() + spare,
                running,
                suspects,
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(image in image()) {
            prop_assert_eq!(Image::decode(&image.encode()), Ok(image));
        }

        #[test]
        fn a_file_that_was_cut_or_grew_is_damaged(image in image(), cut in any::<prop::sample::Index>(), more in 1usize..20) {
            let mut bytes = image.encode();
            let kept = cut.index(bytes.len());
            prop_assert!(Image::decode(&bytes[..kept]).is_err());
            bytes.extend(vec![0; more]);
            prop_assert!(Image::decode(&bytes).is_err());
        }

        #[test]
        fn a_change_in_the_head_is_noticed(image in image(), at in 0usize..56, bit in 0u32..8) {
            let mut bytes = image.encode();
            bytes[at] ^= 1 << bit;
            prop_assert!(Image::decode(&bytes).is_err());
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Image::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_newer_layout_is_told_by_its_version() {
        let mut bytes = Image { key: [0; 2], calls: 0, room: 0, running: vec![], suspects: vec![] }.encode();
        bytes[8] = 9;
        assert_eq!(Image::decode(&bytes), Err(Damage::Version(9)));
        assert_eq!(Image::decode(b""), Err(Damage::Foreign));
    }
}
