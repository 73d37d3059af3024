//! Memory of frames, of blocks and of threads.

use crate::lower::Width;
use crate::machine::Slot;
use crate::program::Linked;

/// 64 bytes, aligned for vectors.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Memory that is aligned to 64 bytes and whose address is exposed: operations make pointers from numbers.
pub(crate) struct Buffer {
    lines: Box<[std::cell::UnsafeCell<Line>]>,
}

impl Buffer {
    /// Zeros.
    pub(crate) fn new(bytes: usize) -> Buffer {
        let lines = (0..bytes.div_ceil(64)).map(|_| std::cell::UnsafeCell::new(Line([0; 64]))).collect();
        Buffer { lines }
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
    /// A frame with its constants.
    pub(crate) fn new(function: u32, bytes: u32, linked: &Linked) -> Frame {
        let registers = Buffer::new(bytes as usize);
        for (slot, width, bits) in &linked.constants {
            fill(&registers, *slot, *width, *bits);
        }
        Frame { registers, function, parent: None, site: 0, lanes: 0, local: 0, depth: 0 }
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
