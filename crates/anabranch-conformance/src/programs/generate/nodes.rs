//! What nodes of graphs do.

use super::super::call::{GraphCall, KernelSpec, NodeSpec, ValueSpec};
use super::super::numbers::Numbers;
use super::super::slots::{ConditionalSlot, GraphSlot, New};
use super::graphs::graph;
use super::{Generator, devices};
use anabranch::hal::ConditionalKind;

/// What a program is inclined to. Nodes of some kinds restrict what can be done with their graphs, so that most programs
/// have none of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taste {
    /// How many of 64 choices are wrong on purpose.
    wrong: usize,
    allocates: bool,
    has_conditions: bool,
    has_children: bool,
}

impl Taste {
    pub(super) fn new(generator: &mut Generator) -> Self {
        let numbers = &mut generator.numbers;
        Self {
            wrong: numbers.one_of([0, 1, 4]),
            allocates: numbers.chance(1, 4),
            // All kernels in a conditional node must be of one context.
            has_conditions: numbers.chance(1, 4) && !generator.has_two_devices,
            has_children: numbers.chance(1, 2),
        }
    }

    pub(super) fn is_wrong(self, numbers: &mut Numbers) -> bool {
        numbers.chance(self.wrong, 64)
    }
}

/// The kinds of work that a node can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kernel,
    Copy,
    Fill,
    Host,
    Child,
    EventRecord,
    EventWait,
    Allocate,
    Free,
    Values,
    Conditional,
    Empty,
}

impl Kind {
    fn of(work: &NodeSpec) -> Self {
        match work.work() {
            NodeSpec::Empty => Self::Empty,
            NodeSpec::Kernel(_) => Self::Kernel,
            NodeSpec::Copy { .. } => Self::Copy,
            NodeSpec::Fill { .. } => Self::Fill,
            NodeSpec::Host(_) => Self::Host,
            NodeSpec::Child(_) => Self::Child,
            NodeSpec::EventRecord(_) => Self::EventRecord,
            NodeSpec::EventWait(_) => Self::EventWait,
            NodeSpec::Allocate { .. } | NodeSpec::AllocateShared { .. } => Self::Allocate,
            NodeSpec::Free(_) => Self::Free,
            NodeSpec::Values(_) => Self::Values,
            NodeSpec::Conditional { .. } => Self::Conditional,
            // It is the same work in another context.
            NodeSpec::In(..) => Self::Empty,
        }
    }
}

/// What a node of a graph does, and whether that is probably accepted.
pub(super) fn node_spec(generator: &mut Generator, graph: GraphSlot, taste: Taste) -> (NodeSpec, bool) {
    let kind = match generator.numbers.below(24) {
        0..=6 => Kind::Kernel,
        7..=9 => Kind::Copy,
        10 | 11 => Kind::Fill,
        12 | 13 => Kind::Host,
        14 if taste.has_children => Kind::Child,
        15 => Kind::EventRecord,
        16 => Kind::EventWait,
        17 | 18 if taste.allocates => Kind::Allocate,
        19 if taste.allocates => Kind::Free,
        20 => Kind::Values,
        21 if taste.has_conditions => Kind::Conditional,
        _ => Kind::Empty,
    };
    let is_wrong = taste.is_wrong(&mut generator.numbers);
    let (work, is_right) = of_kind(generator, graph, kind, is_wrong);
    (devices::anywhere(generator, work), is_right)
}

/// Other work for a node, mostly of the kind that it has.
pub(super) fn node_spec_like(generator: &mut Generator, graph: GraphSlot, work: &NodeSpec, taste: Taste) -> NodeSpec {
    let kind = match generator.numbers.below(16) {
        0 => Kind::Kernel,
        1 => Kind::Empty,
        2 => Kind::Values,
        _ => Kind::of(work),
    };
    let is_wrong = taste.is_wrong(&mut generator.numbers);
    match kind {
        // These change nothing else than the node: their slots are those of nodes that exist.
        Kind::Allocate | Kind::Conditional => work.clone(),
        _ => {
            let other = of_kind(generator, graph, kind, is_wrong).0;
            devices::anywhere_like(generator, work, other)
        }
    }
}

fn of_kind(generator: &mut Generator, graph: GraphSlot, kind: Kind, is_wrong: bool) -> (NodeSpec, bool) {
    let work = match kind {
        Kind::Empty => NodeSpec::Empty,
        Kind::Kernel => {
            let kernel = generator.kernel();
            NodeSpec::Kernel(KernelSpec { wrong: is_wrong.then(|| generator.wrong()), ..kernel })
        }
        Kind::Copy => {
            let ((from, to), region) = (generator.ends(), generator.region());
            let rows = generator.numbers.one_of([1, 1, 2]);
            let width = generator.numbers.below(17).max(usize::from(!is_wrong));
            NodeSpec::Copy { from, to, region, extent: [width, rows, rows] }
        }
        Kind::Fill => NodeSpec::Fill {
            region: generator.region(),
            width: if is_wrong { 8 } else { generator.numbers.one_of([1, 2, 4]) },
            count: 1 + generator.numbers.below(8) as u8,
            rows: generator.numbers.one_of([1, 1, 2]),
            pitch: generator.numbers.one_of([16, 32]),
            odd: is_wrong,
        },
        Kind::Host => NodeSpec::Host(generator.numbers.below(1000) as u32),
        Kind::Child => {
            let child = self::graph(generator);
            return (NodeSpec::Child(child), child != graph);
        }
        Kind::EventRecord => NodeSpec::EventRecord(generator.event()),
        Kind::EventWait => NodeSpec::EventWait(generator.event()),
        Kind::Allocate => {
            let memory = generator.model.new_memory();
            let bytes = if is_wrong { 1 << 50 } else { generator.numbers.one_of([1, 512, 4096]) };
            if !is_wrong {
                generator.model.memory.push(memory);
            }
            NodeSpec::Allocate { memory: New(memory), bytes }
        }
        Kind::Free => match generator.numbers.pick(&generator.model.memory) {
            Some(memory) if !is_wrong => NodeSpec::Free(Some(memory)),
            _ => return (NodeSpec::Free(None), false),
        },
        Kind::Values => NodeSpec::Values(values(generator, is_wrong)),
        Kind::Conditional => conditional(generator, graph, is_wrong),
    };
    (work, !is_wrong)
}

fn values(generator: &mut Generator, is_wrong: bool) -> Vec<ValueSpec> {
    let count = if is_wrong { generator.numbers.one_of([0, 1]) } else { generator.numbers.one_of([1, 1, 2, 3]) };
    let operation = |generator: &mut Generator| match generator.numbers.below(3) {
        0 if is_wrong => ValueSpec::WaitOdd,
        0 => ValueSpec::WaitOpen,
        _ => ValueSpec::Write(generator.numbers.below(8) as u8),
    };
    (0..count).map(|_| operation(generator)).collect()
}

/// A conditional node, after a call that creates its value.
pub(super) fn conditional(generator: &mut Generator, graph: GraphSlot, is_wrong: bool) -> NodeSpec {
    let value = ConditionalSlot(generator.model.new_value());
    let kind = generator.numbers.one_of([ConditionalKind::If, ConditionalKind::While, ConditionalKind::Switch]);
    // The body of a loop would run for ever.
    let default = if kind == ConditionalKind::While { 0 } else { generator.numbers.below(3) as u32 };
    let of = if is_wrong { self::graph(generator) } else { graph };
    generator.push(GraphCall::ConditionalCreate { graph: of, value: New(value), default: Some(default) });
    let bodies = match kind {
        ConditionalKind::While => 1,
        ConditionalKind::If => 1 + u32::from(generator.numbers.chance(1, 2)),
        ConditionalKind::Switch => 1 + generator.numbers.below(3) as u32,
    };
    let bodies = if is_wrong { generator.numbers.one_of([0, 1, 3]) } else { bodies };
    let first = generator.model.new_graph();
    (1..bodies).for_each(|_| {
        generator.model.new_graph();
    });
    NodeSpec::Conditional { value, kind, bodies, first: New(first) }
}
