//! The access history of memory within a capture.
//!
//! Each use is noted with its stream, the number of the operation in its stream, and the nodes that it made. A later
//! use in another stream gets edges from these nodes, unless its stream is already known to follow them: streams have
//! clocks of how far they have followed each other, by waits of the program and by edges made here. Querying the driver
//! for the nodes takes time, so this is done only where other streams can join. Where the nodes of a use are not known,
//! the last nodes that its stream has made represent it.
//!
//! A stream follows itself, unless the program replaces the nodes that its next node depends on. It counts as another
//! stream from then on: the history is one of *lanes*, of which a stream has one at a time.

use anabranch_hal::{Access, GraphNodeHandle};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// How far streams have been followed: the id of each with the number of its last operation, in ascending order of ids. Every
/// use has one, so that a clock of few streams allocates no memory.
#[derive(Default)]
pub struct CapturedClock(SmallVec<[(u64, u64); 4]>);

impl Clone for CapturedClock {
    fn clone(&self) -> Self {
        // As bytes, which the derived implementation does not do.
        Self(SmallVec::from_slice(&self.0))
    }
}

impl CapturedClock {
    fn find(&self, stream: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&stream, |&(stream, _)| stream)
    }

    fn get(&self, stream: u64) -> u64 {
        self.find(stream).map_or(0, |index| self.0[index].1)
    }

    fn advance(&mut self, stream: u64, number: u64) {
        match self.find(stream) {
            Ok(index) => self.0[index].1 = self.0[index].1.max(number),
            Err(index) => self.0.insert(index, (stream, number)),
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|&(stream, number)| self.advance(stream, number));
    }
}

/// A clock may have so many lanes more than twice those with known uses, before it is looked for what can be forgotten.
const MOST_LANES: usize = 32;

type Nodes = SmallVec<[GraphNodeHandle; 1]>;

/// The uses of memory by streams within a capture.
#[derive(Default)]
pub(super) struct CapturedHistory {
    memory: BTreeMap<u64, Uses>,
    /// By lanes.
    clocks: BTreeMap<u64, CapturedClock>,
    /// The lanes of streams whose dependencies were replaced. The first lane of a stream has the id of the stream.
    lanes: BTreeMap<u64, u64>,
    /// How many lanes have ids that are not ids of streams.
    later_lanes: u64,
    /// How many lanes had uses that are known when others were last forgotten.
    known_lanes: usize,
}

/// The order that a stream lacks.
#[derive(Default)]
pub(super) struct MissingOrder {
    /// The nodes that its next node must depend on.
    pub(super) nodes: Vec<GraphNodeHandle>,
    /// The number of streams that the nodes belong to.
    pub(super) streams: u64,
    /// A stream whose nodes must be [resolved](CapturedHistory::resolve) first.
    pub(super) unknown: Option<u64>,
    /// What the stream follows then.
    clock: CapturedClock,
}

/// The uses of one piece of memory.
#[derive(Default)]
struct Uses {
    writer: Option<LastUse>,
    /// Readers since the last write.
    readers: SmallVec<[LastUse; 2]>,
}

/// A lane's last use.
#[derive(Clone)]
struct LastUse {
    stream: u64,
    lane: u64,
    number: u64,
    /// `None`: the driver was not queried.
    nodes: Option<Nodes>,
    /// What the use itself followed.
    clock: CapturedClock,
}

impl Uses {
    /// The uses that a use must follow.
    fn before(&self, access: Access) -> impl Iterator<Item = &LastUse> {
        let readers = match access {
            Access::Read => &[][..],
            Access::Write => &self.readers[..],
        };
        // Readers first: they come after the writer.
        readers.iter().chain(&self.writer)
    }
}

impl CapturedHistory {
    fn lane(&self, stream: u64) -> u64 {
        self.lanes.get(&stream).copied().unwrap_or(stream)
    }

    /// From now on, the stream follows nothing that it has captured before.
    pub(super) fn restart(&mut self, stream: u64) {
        self.clocks.remove(&self.lane(stream));
        self.later_lanes += 1;
        self.lanes.insert(stream, u64::MAX - self.later_lanes);
    }

    /// Forgets how far lanes were followed that no known use is of. A lane still counts its own operations, so that it does not
    /// count as followed where it is used again.
    fn forget_lanes(&mut self) {
        let known: BTreeSet<u64> =
            self.memory.values().flat_map(|uses| uses.before(Access::Write)).map(|last| last.lane).collect();
        for (own, clock) in &mut self.clocks {
            clock.0.retain(|(lane, _)| lane == own || known.contains(lane));
        }
        self.known_lanes = known.len();
    }

    /// The stream now follows these nodes, and with them the uses whose last nodes they are.
    pub(super) fn follow_nodes(&mut self, stream: u64, nodes: &[GraphNodeHandle]) {
        let mut followed = CapturedClock::default();
        for last in self.memory.values().flat_map(|uses| uses.before(Access::Write)) {
            if last.nodes.as_ref().is_some_and(|own| own.iter().all(|node| nodes.contains(node))) {
                followed.merge(&last.clock);
            }
        }
        self.merge(stream, &followed);
    }

    /// The order that a use on `stream` lacks.
    pub(super) fn missing(&self, address: u64, stream: u64, access: Access) -> MissingOrder {
        self.missing_behind(stream, self.memory.get(&address).into_iter().flat_map(|uses| uses.before(access)))
    }

    /// Like [`missing`](Self::missing), for all memory at once.
    pub(super) fn missing_of_all(&self, stream: u64) -> MissingOrder {
        self.missing_behind(stream, self.memory.values().flat_map(|uses| uses.before(Access::Write)))
    }

    fn missing_behind<'a>(&self, stream: u64, uses: impl Iterator<Item = &'a LastUse>) -> MissingOrder {
        let lane = self.lane(stream);
        let mut missing = MissingOrder { clock: self.clock(stream), ..MissingOrder::default() };
        let lacks = |last: &&LastUse| last.lane != lane && missing.clock.get(last.lane) < last.number;
        let lacking: Vec<&LastUse> = uses.filter(lacks).collect();
        // What another of them follows is followed with it, in whichever order they come.
        let is_covered = |last: &LastUse| {
            let is_other = |other: &LastUse| (other.lane, other.number) != (last.lane, last.number);
            lacking.iter().any(|other| is_other(other) && other.clock.get(last.lane) >= last.number)
        };
        for last in lacking.iter().filter(|last| !is_covered(last)) {
            if missing.clock.get(last.lane) >= last.number {
                continue;
            }
            let Some(nodes) = &last.nodes else {
                return MissingOrder { unknown: Some(last.stream), ..MissingOrder::default() };
            };
            let new: Nodes = nodes.iter().filter(|node| !missing.nodes.contains(node)).copied().collect();
            missing.nodes.extend(new);
            missing.streams += 1;
            missing.clock.merge(&last.clock);
        }
        missing
    }

    /// The stream has got the order that it lacked.
    pub(super) fn follow(&mut self, stream: u64, missing: &MissingOrder) {
        self.merge(stream, &missing.clock);
    }

    /// A stream that a use on `stream` must follow and does not yet.
    pub(super) fn unordered(&self, address: u64, stream: u64, access: Access) -> Option<u64> {
        let uses = self.memory.get(&address)?;
        self.first_unordered(stream, uses.before(access))
    }

    /// Like [`unordered`](Self::unordered), for all memory at once.
    pub(super) fn any_unordered(&self, stream: u64) -> Option<u64> {
        self.first_unordered(stream, self.memory.values().flat_map(|uses| uses.before(Access::Write)))
    }

    fn first_unordered<'a>(&self, stream: u64, mut uses: impl Iterator<Item = &'a LastUse>) -> Option<u64> {
        let lane = self.lane(stream);
        let clock = self.clocks.get(&lane);
        let is_followed = |last: &LastUse| clock.is_some_and(|clock| clock.get(last.lane) >= last.number);
        uses.find(|last| last.lane != lane && !is_followed(last)).map(|last| last.stream)
    }

    /// Uses of memory by a stream were captured as these nodes, or as nodes before them. `None`: the driver was not queried.
    pub(super) fn settle(&mut self, stream: u64, uses: &[(u64, Access)], nodes: Option<&[GraphNodeHandle]>) {
        let lane = self.lane(stream);
        if self.clocks.get(&lane).is_some_and(|clock| clock.0.len() > MOST_LANES + 2 * self.known_lanes) {
            self.forget_lanes();
        }
        let clock = self.clocks.entry(lane).or_default();
        let number = clock.get(lane) + 1;
        clock.advance(lane, number);
        let last = LastUse { stream, lane, number, nodes: nodes.map(SmallVec::from_slice), clock: clock.clone() };
        for &(address, access) in uses {
            let uses = self.memory.entry(address).or_default();
            match access {
                Access::Write => *uses = Uses { writer: Some(last.clone()), readers: SmallVec::new() },
                Access::Read => {
                    uses.readers.retain(|reader| reader.lane != lane);
                    uses.readers.push(last.clone());
                }
            }
        }
    }

    /// Uses of a stream whose nodes are not known precede these nodes.
    pub(super) fn resolve(&mut self, stream: u64, nodes: &[GraphNodeHandle]) {
        let uses = self.memory.values_mut().flat_map(|uses| uses.readers.iter_mut().chain(&mut uses.writer));
        for last in uses.filter(|last| last.stream == stream && last.nodes.is_none()) {
            last.nodes = Some(SmallVec::from_slice(nodes));
        }
    }

    /// How far a stream has followed others.
    pub(super) fn clock(&self, stream: u64) -> CapturedClock {
        self.clocks.get(&self.lane(stream)).cloned().unwrap_or_default()
    }

    /// The stream now follows everything that `clock` does.
    pub(super) fn merge(&mut self, stream: u64, clock: &CapturedClock) {
        self.clocks.entry(self.lane(stream)).or_default().merge(clock);
    }

    /// The stream that used the memory last.
    pub(super) fn last_stream(&self, address: u64) -> Option<u64> {
        let uses = self.memory.get(&address)?;
        uses.readers.last().or(uses.writer.as_ref()).map(|last| last.stream)
    }

    /// Forgets memory that no longer exists.
    pub(super) fn forget(&mut self, address: u64) {
        self.memory.remove(&address);
    }

    /// All memory that was used, with the strongest access.
    pub(super) fn accesses(&self) -> Vec<(u64, Access)> {
        let access = |uses: &Uses| if uses.writer.is_some() { Access::Write } else { Access::Read };
        self.memory.iter().map(|(&address, uses)| (address, access(uses))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, CapturedHistory, GraphNodeHandle};

    fn node(number: usize) -> GraphNodeHandle {
        GraphNodeHandle::from_raw(number)
    }

    fn use_on(history: &mut CapturedHistory, stream: u64, address: u64, access: Access, made: usize) -> Vec<usize> {
        let missing = history.missing(address, stream, access);
        history.follow(stream, &missing);
        history.settle(stream, &[(address, access)], Some(&[node(made)]));
        missing.nodes.into_iter().map(GraphNodeHandle::as_raw).collect()
    }

    #[test]
    fn readers_follow_the_writer_and_a_writer_follows_all() {
        let mut history = CapturedHistory::default();
        assert_eq!(use_on(&mut history, 1, 100, Access::Write, 10), [0; 0]);
        assert_eq!(use_on(&mut history, 1, 100, Access::Read, 11), [0; 0]);
        assert_eq!(use_on(&mut history, 2, 100, Access::Read, 20), [10], "and not the other reader");
        assert_eq!(use_on(&mut history, 2, 100, Access::Read, 21), [0; 0], "it does already");
        assert_eq!(use_on(&mut history, 3, 100, Access::Write, 30), [11, 21], "the writer is before them");
        assert_eq!(use_on(&mut history, 1, 100, Access::Read, 12), [30]);
    }

    #[test]
    fn order_that_is_not_made_is_missing_again() {
        let mut history = CapturedHistory::default();
        use_on(&mut history, 1, 100, Access::Write, 10);
        for _ in 0..2 {
            assert_eq!(history.missing(100, 2, Access::Write).nodes, [node(10)]);
        }
        assert_eq!(use_on(&mut history, 2, 100, Access::Write, 20), [10]);
        assert_eq!(history.missing(100, 2, Access::Write).nodes, []);
    }

    #[test]
    fn order_made_by_hand_is_not_made_again() {
        let mut history = CapturedHistory::default();
        use_on(&mut history, 1, 100, Access::Write, 10);
        let recorded = history.clock(1);
        use_on(&mut history, 1, 200, Access::Write, 11);
        history.merge(2, &recorded);
        assert_eq!(use_on(&mut history, 2, 100, Access::Read, 20), [0; 0]);
        assert_eq!(use_on(&mut history, 2, 200, Access::Read, 21), [11], "which came after the record");
        history.merge(3, &history.clock(2));
        assert_eq!(use_on(&mut history, 3, 200, Access::Read, 30), [0; 0], "by way of another stream");
    }

    #[test]
    fn a_stream_whose_dependencies_are_replaced_follows_what_the_new_ones_do() {
        let mut history = CapturedHistory::default();
        use_on(&mut history, 1, 100, Access::Write, 10);
        use_on(&mut history, 1, 200, Access::Write, 11);
        history.restart(1);
        assert_eq!(use_on(&mut history, 1, 100, Access::Write, 12), [10], "not its own work any more");
        history.restart(1);
        history.follow_nodes(1, &[node(12)]);
        assert_eq!(use_on(&mut history, 1, 100, Access::Read, 13), [0; 0], "which the new ones are");
        assert_eq!(use_on(&mut history, 1, 200, Access::Read, 14), [11]);
        assert_eq!(history.last_stream(200), Some(1));
    }

    #[test]
    fn a_node_that_follows_another_stands_for_both_wherever_their_memory_is() {
        for [earlier, later] in [[100, 200], [200, 100]] {
            let mut history = CapturedHistory::default();
            use_on(&mut history, 1, earlier, Access::Write, 10);
            history.merge(2, &history.clock(1));
            use_on(&mut history, 2, later, Access::Write, 20);
            let missing = history.missing_of_all(3);
            assert_eq!((&missing.nodes[..], missing.streams), (&[node(20)][..], 1));
        }
    }

    #[test]
    fn lanes_are_forgotten_that_no_known_use_is_of() {
        let mut history = CapturedHistory::default();
        use_on(&mut history, 1, 100, Access::Write, 0);
        for fork in 1..1000 {
            // A branch that is joined, and another one that begins anew.
            history.merge(1000 + fork, &history.clock(1));
            let made = fork as usize;
            assert_eq!(use_on(&mut history, 1000 + fork, 100, Access::Write, made), [0; 0]);
            history.merge(1, &history.clock(1000 + fork));
            history.restart(1);
            history.follow_nodes(1, &[node(made)]);
            assert_eq!(use_on(&mut history, 1, 100, Access::Write, 10_000 + made), [0; 0]);
            assert_eq!(use_on(&mut history, 2, 200, Access::Write, 20_000 + made), [0; 0]);
            assert!(history.clock(1).0.len() <= 64 && history.clocks.len() <= 1002);
        }
        assert_eq!(use_on(&mut history, 3, 100, Access::Read, 5), [10_999]);
        assert_eq!(use_on(&mut history, 3, 200, Access::Read, 6), [20_999]);
        // One whose uses were all forgotten is used again.
        assert_eq!(use_on(&mut history, 1001, 300, Access::Write, 7), [0; 0]);
        assert_eq!(use_on(&mut history, 1, 300, Access::Write, 8), [7]);
    }

    #[test]
    fn nodes_that_were_not_asked_for_are_those_that_the_stream_has_made_since() {
        let mut history = CapturedHistory::default();
        for address in [100, 200] {
            history.settle(1, &[(address, Access::Write)], None);
        }
        assert_eq!(history.missing(100, 2, Access::Read).unknown, Some(1));
        history.resolve(1, &[node(11)]);
        assert_eq!(use_on(&mut history, 1, 300, Access::Write, 12), [0; 0]);
        assert_eq!(use_on(&mut history, 2, 100, Access::Read, 20), [11]);
        assert_eq!(use_on(&mut history, 2, 300, Access::Read, 21), [12]);
    }
}
