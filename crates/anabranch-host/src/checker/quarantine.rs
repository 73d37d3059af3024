//! Freed memory that is kept for a while.

use crate::memory::RawPiece;
use std::collections::VecDeque;

/// How many bytes of freed memory are kept.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// How many pieces are kept, so that checking all of them is quick.
const MOST_PIECES: usize = 4096;

/// Freed memory, oldest first.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    pieces: VecDeque<(RawPiece, usize)>,
    bytes: usize,
}

impl Quarantine {
    pub(super) fn add(&mut self, piece: RawPiece, bytes: usize) {
        self.bytes += bytes;
        self.pieces.push_back((piece, bytes));
    }

    /// Takes the oldest piece out, if there is too much.
    pub(super) fn take_excess(&mut self) -> Option<RawPiece> {
        if self.bytes <= MOST_BYTES && self.pieces.len() <= MOST_PIECES {
            return None;
        }
        let (piece, bytes) = self.pieces.pop_front()?;
        self.bytes -= bytes;
        Some(piece)
    }

    /// Keeps those pieces only that are wanted.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&RawPiece) -> bool) {
        let total = &mut self.bytes;
        self.pieces.retain(|(piece, bytes)| {
            let wanted = wanted(piece);
            if !wanted {
                *total -= bytes;
            }
            wanted
        });
    }
}
