//! Memory of frames, of blocks and of threads.

use crate::lower::Width;
use crate::machine::Slot;
use crate::program::Linked;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// 64 bytes, aligned for vectors.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Memory that is aligned to 64 bytes and whose address is exposed: operations make pointers from numbers.
#[derive(Default)]
pub(crate) struct Buffer {
    lines: Box<[UnsafeCell<Line>]>,
}

impl Buffer {
    /// Zeros, or `None` if there is no memory. What is never used takes up none where the system gives out memory by its pages.
    pub(crate) fn new(bytes: usize) -> Option<Buffer> {
        let count = bytes.div_ceil(64);
        let layout = Layout::array::<UnsafeCell<Line>>(count).ok()?;
        if count == 0 {
            return Some(Buffer::default());
        }
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let lines = NonNull::slice_from_raw_parts(memory.cast::<UnsafeCell<Line>>(), count);
        // SAFETY: the memory was allocated by the allocator of boxes with the layout of these lines, which are zeros, and nobody
        // else knows it.
        Some(Buffer { lines: unsafe { Box::from_raw(lines.as_ptr()) } })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * 64
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        // Every line is a cell, so that what the pointer reaches may be written through a shared reference.
        self.lines.as_ptr().cast_mut().cast()
    }

    pub(crate) fn address(&self) -> u64 {
        self.pointer().expose_provenance() as u64
    }

    pub(crate) fn clear(&mut self) {
        for line in &mut self.lines {
            line.get_mut().0.fill(0);
        }
    }

    /// Copies bytes within the buffer. Both ranges are within it.
    pub(crate) fn copy_within(&mut self, from: usize, to: usize, bytes: usize) {
        assert!(from + bytes <= self.bytes() && to + bytes <= self.bytes(), "a copy outside of local memory");
        // SAFETY: both ranges are within the buffer, which is borrowed alone.
        unsafe { std::ptr::copy(self.pointer().add(from), self.pointer().add(to), bytes) };
    }
}

/// The registers of a call of a function, and where it goes on after.
pub(crate) struct Frame {
    pub(crate) registers: Buffer,
    pub(crate) function: u32,
    /// The frame of the caller, and the operation after the call.
    pub(crate) parent: Option<(u32, u32)>,
    /// The call in the caller's code.
    pub(crate) site: u32,
    /// The lanes that have not returned.
    pub(crate) lanes: u32,
    /// Where its part of local memory begins.
    pub(crate) local: u64,
    pub(crate) depth: u32,
}

impl Frame {
    /// A frame with its constants, or `None` if there is no memory.
    pub(crate) fn new(function: u32, bytes: u32, linked: &Linked) -> Option<Frame> {
        let registers = Buffer::new(bytes as usize)?;
        for (slot, width, bits) in &linked.constants {
            fill(&registers, *slot, *width, *bits);
        }
        Some(Frame { registers, function, parent: None, site: 0, lanes: 0, local: 0, depth: 0 })
    }
}

/// Writes a number to all lanes of a slot.
fn fill(registers: &Buffer, slot: Slot, width: Width, bits: u64) {
    let (bytes, lanes) = if width == Width::Predicate { (4, 1) } else { (width.bytes() as usize, 32) };
    let start = slot.0 as usize;
    assert!(start + bytes * lanes <= registers.bytes(), "a slot outside of its frame");
    for lane in 0..lanes {
        for (index, byte) in u128::from(bits).to_le_bytes()[..bytes].iter().enumerate() {
            // SAFETY: the slot is within the buffer, which nothing else uses yet.
            unsafe { registers.pointer().add(start + lane * bytes + index).write(*byte) };
        }
    }
}
