//! A file as words in memory.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::MmapRaw;

/// A file that is mapped whole and read and written as 64-bit words, each of them at once.
#[derive(Debug)]
pub(super) struct Words {
    map: MmapRaw,
}

impl Words {
    /// Maps a file. What it holds has been written before, not only reserved: a page that the disk has no room for
    /// would end the process at the first write to it.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self { map: MmapRaw::map_raw(file)? })
    }

    /// The words of the file.
    #[expect(
        unsafe_code,
        clippy::cast_ptr_alignment,
        reason = "a mapped file is an address, which is that of a page, and a length, and cannot be read otherwise"
    )]
    pub(super) fn words(&self) -> &[AtomicU64] {
        let start = self.map.as_mut_ptr().cast::<AtomicU64>();
        debug_assert!(start.is_aligned(), "a mapping starts with a page");
        let count = self.map.len() / size_of::<AtomicU64>();
        // SAFETY: The mapping is `count` words long or a little more, starts at a page and so at a word, may be read
        // and written, and lives as long as the borrow of `self`. Every pattern of bits is a word. Nothing in this
        // process reaches these bytes but through the atomics of this slice, so that others who change the file
        // meanwhile change values and nothing more. The one thing that this cannot rule out is somebody who cuts the
        // file short: the system then ends the process at the next access. Nobody has a reason to: the data file's
        // lock keeps other instances out, the file is its owner's alone, and a new instance puts a new file in its
        // place instead of changing this one.
        unsafe { std::slice::from_raw_parts(start, count) }
    }
}
