//! The order of memory within a capture.
//!
//! Each use is remembered with the nodes that it made. A later use on another stream gets edges from exactly these, unless
//! its stream is known to come after them already: streams keep clocks of how far they have followed each other, by waits
//! of the user's and by edges made here.

use anabranch_hal::{Access, GraphNodeHandle};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// How far a stream has followed others, itself included: the number of their last use that it comes after.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    /// By stream, in order. Few streams take part in most captures, and a clock is copied with each use.
    numbers: SmallVec<[(u64, u64); 4]>,
}

impl Clock {
    /// Numbers begin at 1; 0 for a stream that was not followed.
    fn get(&self, stream: u64) -> u64 {
        let place = self.numbers.binary_search_by_key(&stream, |&(other, _)| other);
        place.ok().and_then(|place| self.numbers.get(place)).map_or(0, |&(_, number)| number)
    }

    fn advance(&mut self, stream: u64, number: u64) {
        match self.numbers.binary_search_by_key(&stream, |&(other, _)| other) {
            Ok(place) => {
                if let Some((_, own)) = self.numbers.get_mut(place) {
                    *own = (*own).max(number);
                }
            }
            Err(place) => self.numbers.insert(place, (stream, number)),
        }
    }

    fn merge(&mut self, other: &Self) {
        for &(stream, number) in &other.numbers {
            self.advance(stream, number);
        }
    }
}

/// What streams have done with memory within a capture.
#[derive(Default)]
pub(super) struct CapturedUses {
    memory: BTreeMap<u64, Uses>,
    clocks: BTreeMap<u64, Clock>,
    /// Uses whose nodes are about to be made: address, stream and access.
    pending: Vec<(u64, u64, Access)>,
}

/// The uses of one piece of memory.
#[derive(Default)]
struct Uses {
    writer: Option<LastUse>,
    /// Readers since the last write.
    readers: SmallVec<[LastUse; 2]>,
}

/// A stream's last use.
#[derive(Clone)]
struct LastUse {
    stream: u64,
    number: u64,
    nodes: SmallVec<[GraphNodeHandle; 1]>,
    /// What the use itself came after.
    clock: Clock,
}

impl Uses {
    /// What a use must come after.
    fn before(&self, access: Access) -> impl Iterator<Item = &LastUse> {
        let readers = match access {
            Access::Read => &[][..],
            Access::Write => &self.readers[..],
        };
        // Readers first: they come after the writer.
        readers.iter().chain(&self.writer)
    }
}

impl CapturedUses {
    /// The nodes that a use on `stream` must come after and does not yet. They count as followed from now on.
    pub(super) fn follow(&mut self, address: u64, stream: u64, access: Access) -> Vec<GraphNodeHandle> {
        self.pending.push((address, stream, access));
        let Some(uses) = self.memory.get(&address) else { return Vec::new() };
        let clock = self.clocks.entry(stream).or_default();
        let mut nodes = Vec::new();
        for last in uses.before(access) {
            follow_one(clock, stream, last, &mut nodes);
        }
        nodes
    }

    /// As [`follow`](Self::follow), for all memory at once.
    pub(super) fn follow_all(&mut self, stream: u64) -> Vec<GraphNodeHandle> {
        let clock = self.clocks.entry(stream).or_default();
        let mut nodes = Vec::new();
        for last in self.memory.values().flat_map(|uses| uses.before(Access::Write)) {
            follow_one(clock, stream, last, &mut nodes);
        }
        nodes
    }

    /// The stream has come to these nodes, which are those of its pending uses.
    pub(super) fn settle(&mut self, stream: u64, nodes: &[GraphNodeHandle]) {
        let clock = self.clocks.entry(stream).or_default();
        let number = clock.get(stream) + 1;
        clock.advance(stream, number);
        let last = LastUse { stream, number, nodes: SmallVec::from_slice(nodes), clock: clock.clone() };
        self.pending.retain(|&(address, other, access)| {
            if other != stream {
                return true;
            }
            let uses = self.memory.entry(address).or_default();
            match access {
                Access::Write => *uses = Uses { writer: Some(last.clone()), readers: SmallVec::new() },
                Access::Read => {
                    uses.readers.retain(|reader| reader.stream != stream);
                    uses.readers.push(last.clone());
                }
            }
            false
        });
    }

    /// How far a stream has followed others.
    pub(super) fn clock(&self, stream: u64) -> Clock {
        self.clocks.get(&stream).cloned().unwrap_or_default()
    }

    /// The stream now comes after all that `clock` does.
    pub(super) fn merge(&mut self, stream: u64, clock: &Clock) {
        self.clocks.entry(stream).or_default().merge(clock);
    }

    /// The stream that used the memory last.
    pub(super) fn last_stream(&self, address: u64) -> Option<u64> {
        let uses = self.memory.get(&address)?;
        uses.readers.last().or(uses.writer.as_ref()).map(|last| last.stream)
    }

    /// Memory is gone.
    pub(super) fn forget(&mut self, address: u64) {
        self.memory.remove(&address);
        self.pending.retain(|&(other, _, _)| other != address);
    }

    /// All memory that was used, with the strongest access.
    pub(super) fn accesses(&self) -> Vec<(u64, Access)> {
        let access = |uses: &Uses| if uses.writer.is_some() { Access::Write } else { Access::Read };
        let settled = self.memory.iter().map(|(&address, uses)| (address, access(uses)));
        settled.chain(self.pending.iter().map(|&(address, _, access)| (address, access))).collect()
    }
}

fn follow_one(clock: &mut Clock, stream: u64, last: &LastUse, nodes: &mut Vec<GraphNodeHandle>) {
    if last.stream == stream || clock.get(last.stream) >= last.number {
        return;
    }
    nodes.extend(last.nodes.iter().filter(|node| !nodes.contains(node)).copied().collect::<Vec<_>>());
    clock.merge(&last.clock);
}

#[cfg(test)]
mod tests {
    use super::{Access, CapturedUses, GraphNodeHandle};

    fn node(number: usize) -> GraphNodeHandle {
        GraphNodeHandle::from_raw(number)
    }

    fn use_on(uses: &mut CapturedUses, stream: u64, address: u64, access: Access, made: usize) -> Vec<usize> {
        let before = uses.follow(address, stream, access);
        uses.settle(stream, &[node(made)]);
        before.into_iter().map(GraphNodeHandle::as_raw).collect()
    }

    #[test]
    fn readers_follow_the_writer_and_a_writer_follows_all() {
        let mut uses = CapturedUses::default();
        assert_eq!(use_on(&mut uses, 1, 100, Access::Write, 10), [0; 0]);
        assert_eq!(use_on(&mut uses, 1, 100, Access::Read, 11), [0; 0]);
        assert_eq!(use_on(&mut uses, 2, 100, Access::Read, 20), [10], "and not the other reader");
        assert_eq!(use_on(&mut uses, 2, 100, Access::Read, 21), [0; 0], "it does already");
        assert_eq!(use_on(&mut uses, 3, 100, Access::Write, 30), [11, 21], "the writer is before them");
        assert_eq!(use_on(&mut uses, 1, 100, Access::Read, 12), [30]);
    }

    #[test]
    fn order_made_by_hand_is_not_made_again() {
        let mut uses = CapturedUses::default();
        use_on(&mut uses, 1, 100, Access::Write, 10);
        let recorded = uses.clock(1);
        use_on(&mut uses, 1, 200, Access::Write, 11);
        uses.merge(2, &recorded);
        assert_eq!(use_on(&mut uses, 2, 100, Access::Read, 20), [0; 0]);
        assert_eq!(use_on(&mut uses, 2, 200, Access::Read, 21), [11], "which came after the record");
        uses.merge(3, &uses.clock(2));
        assert_eq!(use_on(&mut uses, 3, 200, Access::Read, 30), [0; 0], "by way of another stream");
    }
}
