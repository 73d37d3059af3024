//! Nodes of one launch that use the same memory, and of which one writes it, run one after the other, in any order, even if
//! no edge orders them: kernels rely on being alone with the memory that they are declared to use.

use super::plan::Plan;
use super::run::Due;
use super::step::fill_bytes;
use crate::graph::Action;
use crate::memory::volume_range;
use anabranch_hal::{Access, CopyPlace};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Memory that a node uses: addresses from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemoryUse {
    begin: u64,
    end: u64,
    writes: bool,
}

pub(super) type MemoryUses = SmallVec<[MemoryUse; 4]>;

/// The nodes of a launch that use memory.
#[derive(Debug, Default)]
pub(super) struct Exclusion {
    running: Running,
    /// Those that wait, by what they use: very many may use the same.
    waiting: BTreeMap<MemoryUses, VecDeque<Due>>,
}

#[derive(Debug, Default)]
struct Running(Vec<(u32, MemoryUses)>);

impl MemoryUse {
    fn new(begin: u64, bytes: u64, writes: bool) -> Self {
        Self { begin, end: begin.saturating_add(bytes), writes }
    }

    fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.begin < other.end && other.begin < self.end
    }
}

/// The memory that a node uses, a conditional one with its graphs.
pub(super) fn memory_uses(plan: &Plan, node: u32) -> MemoryUses {
    let mut uses = MemoryUses::new();
    add_uses(plan, node, &mut uses);
    uses
}

fn add_uses(plan: &Plan, node: u32, uses: &mut MemoryUses) {
    let Some(step) = plan.steps.get(node as usize) else { return };
    match (&*step.action, &step.kernel) {
        (Action::Kernel(_), Some(work)) => uses.extend(work.ranges.iter().map(|range| {
            let declared = range.declared();
            MemoryUse::new(declared.address, declared.bytes, declared.access != Access::Read)
        })),
        (Action::Copy(copy), _) => {
            let end = |place: &CopyPlace, writes| {
                let (address, bytes) = volume_range(place, copy.parameters.extent)?;
                Some(MemoryUse::new(address, bytes as u64, writes))
            };
            uses.extend(end(&copy.parameters.source, false));
            uses.extend(end(&copy.parameters.destination, true));
        }
        (Action::Fill(fill), _) => uses.push(MemoryUse::new(fill.address.0, fill_bytes(fill) as u64, true)),
        (Action::Conditional(_), _) => {
            let bodies = plan.shape.bodies.get(&node).into_iter().flatten();
            bodies.flatten().for_each(|&inside| add_uses(plan, inside, uses));
        }
        _ => {}
    }
}

impl Running {
    /// Adds a node, unless it is not to run beside another one.
    fn add(&mut self, node: u32, uses: &MemoryUses) -> bool {
        let conflicts = |running: &MemoryUses| running.iter().any(|one| uses.iter().any(|other| one.conflicts(other)));
        let admits = !self.0.iter().any(|(_, running)| conflicts(running));
        if admits {
            self.0.push((node, uses.clone()));
        }
        admits
    }
}

impl Exclusion {
    /// Lets a node run, unless another one has to be done before. Then [`leave`](Self::leave) lets it run.
    pub(super) fn enter(&mut self, due: Due, uses: MemoryUses) -> bool {
        let admits = self.running.add(due.node, &uses);
        if !admits {
            self.waiting.entry(uses).or_default().push_back(due);
        }
        admits
    }

    /// Notes that a node is done, if it has entered, and lets those run that have waited for it.
    pub(super) fn leave(&mut self, node: u32, ready: &mut VecDeque<Due>) {
        self.running.0.retain(|(running, _)| *running != node);
        self.waiting.retain(|uses, waiting| {
            let runs = waiting.iter().take_while(|due| self.running.add(due.node, uses)).count();
            ready.extend(waiting.drain(..runs).map(|due| Due { part: due.part + 1, ..due }));
            !waiting.is_empty()
        });
    }

    pub(super) fn clear(&mut self) {
        self.running.0.clear();
        self.waiting.clear();
    }
}
