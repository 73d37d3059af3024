//! The order of memory within a capture.
//!
//! Each use is remembered with the nodes that it made. A later use on another stream gets edges from exactly these, unless
//! its stream is known to come after them already: streams keep clocks of how far they have followed each other, by waits
//! of the user's and by edges made here.

use crate::clock::Clock;
use anabranch_hal::{Access, GraphNodeHandle};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What streams have done with memory within a capture.
#[derive(Default)]
pub(super) struct CapturedUses {
    memory: BTreeMap<u64, Uses>,
    clocks: BTreeMap<u64, Clock>,
    /// Uses whose nodes are about to be made: address, stream and access.
    pending: Vec<(u64, u64, Access)>,
}

/// What a stream was found not to come after, and is made to.
#[derive(Default)]
pub(super) struct Followed {
    pub(super) nodes: Vec<GraphNodeHandle>,
    /// Of how many streams the nodes are.
    pub(super) streams: u64,
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
    pub(super) fn follow(&mut self, address: u64, stream: u64, access: Access) -> Followed {
        self.pending.push((address, stream, access));
        let Some(uses) = self.memory.get(&address) else { return Followed::default() };
        let clock = self.clocks.entry(stream).or_default();
        let mut followed = Followed::default();
        for last in uses.before(access) {
            follow_one(clock, stream, last, &mut followed);
        }
        followed
    }

    /// As [`follow`](Self::follow), for all memory at once.
    pub(super) fn follow_all(&mut self, stream: u64) -> Followed {
        let clock = self.clocks.entry(stream).or_default();
        let mut followed = Followed::default();
        for last in self.memory.values().flat_map(|uses| uses.before(Access::Write)) {
            follow_one(clock, stream, last, &mut followed);
        }
        followed
    }

    /// A stream that a use on `stream` must come after and does not yet.
    pub(super) fn unfollowed(&self, address: u64, stream: u64, access: Access) -> Option<u64> {
        let uses = self.memory.get(&address)?;
        self.first_unfollowed(stream, uses.before(access))
    }

    /// As [`unfollowed`](Self::unfollowed), for all memory at once.
    pub(super) fn any_unfollowed(&self, stream: u64) -> Option<u64> {
        self.first_unfollowed(stream, self.memory.values().flat_map(|uses| uses.before(Access::Write)))
    }

    fn first_unfollowed<'a>(&self, stream: u64, mut uses: impl Iterator<Item = &'a LastUse>) -> Option<u64> {
        let clock = self.clocks.get(&stream);
        let is_followed = |last: &LastUse| clock.is_some_and(|clock| clock.get(last.stream) >= last.number);
        uses.find(|last| last.stream != stream && !is_followed(last)).map(|last| last.stream)
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

fn follow_one(clock: &mut Clock, stream: u64, last: &LastUse, followed: &mut Followed) {
    if last.stream == stream || clock.get(last.stream) >= last.number {
        return;
    }
    let nodes = &mut followed.nodes;
    nodes.extend(last.nodes.iter().filter(|node| !nodes.contains(node)).copied().collect::<Vec<_>>());
    followed.streams += 1;
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
        before.nodes.into_iter().map(GraphNodeHandle::as_raw).collect()
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
