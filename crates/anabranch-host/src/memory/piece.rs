//! Memory of the process, as the allocator gives it.

use super::observer::{MemoryObserver, ZONE};
use crate::shared_file::MappedFile;
use anabranch_hal::ALLOCATION_ALIGNMENT;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of the process, of which a part is used. It is always initialised, because kernels, which are safe code, read it.
#[derive(Debug)]
pub(crate) struct RawPiece {
    base: NonNull<u8>,
    layout: Layout,
    /// Where the part that is used begins, from the base.
    begin: usize,
}

// SAFETY: a piece owns its memory, as a box does, and gives out no references to it but those that it is borrowed for.
unsafe impl Send for RawPiece {}
// SAFETY: through a shared piece, memory is accessed only where callers promise that nobody else uses it.
unsafe impl Sync for RawPiece {}

impl RawPiece {
    /// Zeroed memory. `around`: how much more of it there is before and after the part that is used.
    fn allocate(bytes: usize, around: usize, alignment: usize) -> Option<Self> {
        // Asked for at a small alignment, and aligned here: for a small alignment the allocator passes on pages that the
        // system has zeroed and not yet touched, where for a large one it would write them all.
        let room = bytes.checked_add(alignment)?.checked_add(2 * around)?;
        let layout = Layout::from_size_align(room, 16).ok()?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let address = base.as_ptr().expose_provenance();
        let begin = (address + around).next_multiple_of(alignment) - address;
        Some(Self { base, layout, begin })
    }

    pub(crate) fn address(&self) -> u64 {
        (self.base.as_ptr().addr() + self.begin) as u64
    }

    /// How far the part that is used is from the beginning of all.
    pub(crate) fn begin(&self) -> usize {
        self.begin
    }

    /// All of the memory.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is the piece's own, and initialised; the caller promises that nobody writes it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.layout.size()) }
    }

    /// Fills a range of the memory, counted from the beginning of all. What of it is outside is left out.
    ///
    /// # Safety
    /// Nobody uses the range meanwhile.
    pub(crate) unsafe fn fill(&self, range: std::ops::Range<usize>, value: u8) {
        let end = range.end.min(self.layout.size());
        if let Some(count) = end.checked_sub(range.start) {
            // SAFETY: the range lies in the memory, and the caller promises that nobody uses it.
            unsafe { self.base.as_ptr().add(range.start).write_bytes(value, count) }
        }
    }
}

impl Drop for RawPiece {
    fn drop(&mut self) {
        // SAFETY: the memory is from `alloc_zeroed` with this layout, and is given back once. That nobody uses it any
        // more is the promise of the caller that freed it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Memory that is returned to the process, or to the observer, when it is dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    /// There until it is dropped, unless the memory is that of others.
    raw: Option<RawPiece>,
    /// The file that it is a part of, if it is, which is unmapped then.
    _file: Option<MappedFile>,
    address: u64,
    observer: Option<Arc<dyn MemoryObserver>>,
}

impl Piece {
    /// Zeroed memory. `None`: the process has not as much.
    pub(crate) fn allocate(bytes: usize, alignment: usize, observer: Option<&Arc<dyn MemoryObserver>>) -> Option<Self> {
        let raw =
            RawPiece::allocate(bytes, if observer.is_some() { ZONE } else { 0 }, alignment.max(ALLOCATION_ALIGNMENT))?;
        Some(Self { address: raw.address(), raw: Some(raw), _file: None, observer: observer.cloned() })
    }

    /// Memory of the program, which it keeps and frees.
    pub(crate) fn of_program(address: u64) -> Self {
        Self { address, raw: None, _file: None, observer: None }
    }

    /// Memory of a file, from an offset of the mapping.
    pub(crate) fn of_file(file: MappedFile, offset: usize) -> Self {
        let address = (file.base().as_ptr().addr() + offset) as u64;
        Self { address, raw: None, _file: Some(file), observer: None }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn raw(&self) -> Option<&RawPiece> {
        self.raw.as_ref()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let (Some(raw), Some(observer)) = (self.raw.take(), &self.observer) {
            observer.retire(raw);
        }
    }
}
