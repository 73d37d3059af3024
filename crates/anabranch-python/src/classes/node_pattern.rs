//! Fills of nodes with a pattern of bytes, whatever the elements of the buffer are.

use crate::memory::View;
use anabranch::{BufferSliceMut, FillElement, NodeWork, Result};

/// The work that fills a view with a pattern, whose length was checked.
pub(crate) fn fill<'a>(destination: &'a View, pattern: &[u8]) -> Result<NodeWork<'a>> {
    fn repeated<'a, T: FillElement>(bytes: BufferSliceMut<'a, u8>, element: T) -> Result<NodeWork<'a>> {
        NodeWork::fill(bytes.cast::<T>()?, element)
    }

    // SAFETY: other threads submit no work that uses the memory meanwhile.
    let bytes = unsafe { destination.bytes_mut("filling in a graph") }?;
    match *pattern {
        [a, b] => repeated(bytes, u16::from_ne_bytes([a, b])),
        [a, b, c, d] => repeated(bytes, u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => repeated(bytes, u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => repeated(bytes, pattern.first().copied().unwrap_or(0)),
    }
}
