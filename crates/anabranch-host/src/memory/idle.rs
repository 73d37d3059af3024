//! Freed blocks that a pool keeps, apart by whether the places are known to be reached where they were freed.

use super::block::Block;
use crate::engine::{ContextCore, Position, StreamState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// The size and the address of a block.
pub(super) type Key = (usize, u64);

/// A freed block, and the place where it was freed, until that is known to be reached.
#[derive(Debug)]
pub(super) struct IdleBlock {
    pub(super) block: Block,
    pub(super) freed_at: Option<Position>,
    /// Whether no synchronization gives it back.
    pub(super) kept: bool,
}

impl IdleBlock {
    fn key(&self) -> Key {
        (self.block.capacity(), self.block.address())
    }

    pub(super) fn is_free(&self) -> bool {
        self.freed_at.as_ref().is_none_or(Position::is_complete)
    }

    /// Whether a synchronization with work of a context gives it back, once it is free: not if it was freed in another context of
    /// the device.
    pub(super) fn is_left_by(&self, core: &ContextCore) -> bool {
        let elsewhere = |freed_at: &Position| {
            let freed_in = &freed_at.stream.core;
            freed_in.id != core.id && freed_in.device == core.device
        };
        !self.kept && !self.freed_at.as_ref().is_some_and(elsewhere)
    }
}

/// The blocks.
#[derive(Debug, Default)]
pub(super) struct IdleBlocks {
    free: BTreeMap<Key, IdleBlock>,
    /// Those that were not free yet when it was looked at last, by the id of the stream.
    behind: HashMap<u64, BehindWork>,
}

/// Blocks that were freed in a stream.
#[derive(Debug, Default)]
struct BehindWork {
    blocks: BTreeMap<Key, IdleBlock>,
    /// In the order in which they become free.
    order: BTreeSet<(u64, Key)>,
}

impl BehindWork {
    fn remove(&mut self, key: Key) -> Option<IdleBlock> {
        let idle = self.blocks.remove(&key)?;
        if let Some(freed_at) = &idle.freed_at {
            self.order.remove(&(freed_at.sequence, key));
        }
        Some(idle)
    }

    /// Removes the block that becomes free first, if it is free now.
    fn remove_free(&mut self) -> Option<IdleBlock> {
        let &(_, key) = self.order.first()?;
        if self.blocks.get(&key)?.is_free() { self.remove(key) } else { None }
    }
}

impl IdleBlocks {
    pub(super) fn insert(&mut self, idle: IdleBlock) {
        let key = idle.key();
        match &idle.freed_at {
            Some(freed_at) if !freed_at.is_complete() => {
                let behind = self.behind.entry(freed_at.stream.id).or_default();
                behind.order.insert((freed_at.sequence, key));
                behind.blocks.insert(key, idle);
            }
            _ => {
                self.free.insert(key, idle);
            }
        }
    }

    /// Looks which blocks have become free. Those that have not are not visited, but for one of each stream.
    fn settle(&mut self) {
        self.behind.retain(|_, behind| {
            while let Some(idle) = behind.remove_free() {
                self.free.insert(idle.key(), idle);
            }
            !behind.blocks.is_empty()
        });
    }

    /// Removes the first block whose size is within a range that is free for what a stream does next.
    pub(super) fn remove_fitting(&mut self, sizes: RangeInclusive<usize>, stream: &StreamState) -> Option<IdleBlock> {
        self.settle();
        let range = (*sizes.start(), 0)..=(*sizes.end(), u64::MAX);
        let free = self.free.range(range.clone()).next().map(|(&key, _)| key);
        let behind = self.behind.get_mut(&stream.id);
        let own = behind.as_ref().and_then(|behind| behind.blocks.range(range).next()).map(|(&key, _)| key);
        match (free, own) {
            (Some(free), own) if own.is_none_or(|own| free < own) => self.free.remove(&free),
            (_, own) => behind?.remove(own?),
        }
    }

    /// The blocks that are free, in ascending order of their sizes.
    pub(super) fn free(&mut self) -> impl DoubleEndedIterator<Item = (&Key, &IdleBlock)> {
        self.settle();
        self.free.iter()
    }

    /// Removes a block that is free.
    pub(super) fn remove_free(&mut self, key: Key) -> Option<IdleBlock> {
        self.free.remove(&key)
    }

    /// The blocks that are not free.
    pub(super) fn behind_work(&self) -> impl Iterator<Item = &IdleBlock> {
        self.behind.values().flat_map(|behind| behind.blocks.values()).filter(|idle| !idle.is_free())
    }

    /// Has no synchronization give back what is idle now.
    pub(super) fn keep(&mut self) {
        let behind = self.behind.values_mut().flat_map(|behind| behind.blocks.values_mut());
        self.free.values_mut().chain(behind).for_each(|idle| idle.kept = true);
    }

    /// Removes all blocks, and returns them in ascending order of their sizes.
    pub(super) fn take(&mut self) -> Vec<IdleBlock> {
        let Self { free, behind } = std::mem::take(self);
        let behind = behind.into_values().flat_map(|behind| behind.blocks.into_values());
        let mut all: Vec<_> = free.into_values().chain(behind).collect();
        all.sort_unstable_by_key(IdleBlock::key);
        all
    }
}
