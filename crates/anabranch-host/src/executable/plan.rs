//! A graph and all graphs inside of it, flattened.
//!
//! Each node has one index; a child graph has one for its beginning and one for its end, with its nodes between. Indices
//! follow the order in which nodes were made, so that graphs of the same structure have the same indices. The nodes of
//! the graphs that a conditional node runs have indices too, and are kept in an order in which they can run.

use super::conditionals::Conditionals;
use crate::graph::{Action, Contents, GraphState};
use crate::module::KernelWork;
use anabranch_hal::{ConditionalHandle, Failure, Result, Status};
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// What a launch does: replaced as a whole, so that a launch that is queued is never changed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) shape: Arc<Shape>,
    /// By index.
    pub(super) steps: Vec<Step>,
    /// The values of conditional nodes, if there are some.
    pub(super) conditionals: Option<Arc<Conditionals>>,
    /// The graphs that steps were made from, by the index of the first. They keep what the steps use.
    pub(super) sources: BTreeMap<u32, Arc<GraphState>>,
}

/// What one node does.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(super) action: Arc<Action>,
    /// The launch of a kernel, which knows the values that it can set.
    pub(super) kernel: Option<Arc<KernelWork>>,
    pub(super) enabled: bool,
}

/// The structure, which updates do not change.
#[derive(Debug)]
pub(crate) struct Shape {
    /// How many nodes come right before each.
    pub(super) before: Vec<u32>,
    /// The nodes that more than one comes right before.
    pub(super) joins: Vec<u32>,
    /// Where in `targets` the nodes right after each begin.
    offsets: Vec<usize>,
    targets: Vec<u32>,
    /// The nodes that nothing comes before.
    pub(super) roots: Vec<u32>,
    /// How many nodes there are outside of conditional nodes' graphs.
    pub(super) scheduled: usize,
    /// Whether two nodes can run at the same time.
    pub(super) is_concurrent: bool,
    /// The graphs of each conditional node, in an order in which their nodes can run.
    pub(super) bodies: HashMap<u32, Vec<Vec<u32>>>,
    /// The indices by the ids of the nodes of the graph that was instantiated.
    pub(super) index_of: HashMap<u64, u32>,
    /// The nodes that record events.
    pub(super) records: Vec<u32>,
    /// The nodes that wait for events.
    pub(super) waits: Vec<u32>,
}

impl Shape {
    pub(super) fn after(&self, index: u32) -> &[u32] {
        let index = index as usize;
        match (self.offsets.get(index), self.offsets.get(index + 1)) {
            (Some(&begin), Some(&end)) => self.targets.get(begin..end).unwrap_or(&[]),
            _ => &[],
        }
    }
}

impl Step {
    pub(super) fn new(action: Arc<Action>, conditionals: Option<&Arc<Conditionals>>) -> Self {
        let kernel = match (&*action, conditionals) {
            (Action::Kernel(kernel), Some(conditionals)) => Some(Arc::new(KernelWork {
                conditionals: Some(Arc::clone(conditionals) as _),
                ..(*kernel.work).clone()
            })),
            (Action::Kernel(kernel), None) => Some(Arc::clone(&kernel.work)),
            _ => None,
        };
        Self { action, kernel, enabled: true }
    }
}

/// A graph that is being flattened.
#[derive(Debug, Default)]
pub(super) struct Flat {
    actions: Vec<Arc<Action>>,
    edges: Vec<(u32, u32)>,
    bodies: HashMap<u32, Vec<Vec<u32>>>,
    index_of: HashMap<u64, u32>,
    values: Vec<(ConditionalHandle, Option<u32>)>,
    /// The indices of nodes in conditional nodes' graphs.
    inside: Vec<Range<u32>>,
}

/// Where a graph begins and ends.
struct Ends {
    first: Vec<u32>,
    last: Vec<u32>,
}

impl Flat {
    pub(super) fn new(graph: &GraphState) -> Result<Self> {
        let mut flat = Self::default();
        flat.add_graph(&graph.lock())?;
        flat.actions.iter().try_for_each(|action| match &**action {
            // A capture has not looked whether there is memory.
            Action::Fill(fill) => graph.check_fill(fill),
            _ => Ok(()),
        })?;
        Ok(flat)
    }

    fn push(&mut self, action: &Arc<Action>) -> Result<u32> {
        let index = u32::try_from(self.actions.len()).map_err(|_| Failure::new(Status::OUT_OF_MEMORY))?;
        self.actions.push(Arc::clone(action));
        Ok(index)
    }

    fn end(&self) -> u32 {
        // `push` keeps it within bounds.
        self.actions.len() as u32
    }

    fn add_graph(&mut self, graph: &Contents) -> Result<Ends> {
        self.values.extend(graph.conditionals.iter().map(|value| (value.handle, value.default)));
        // Where each node begins and ends, by number.
        let mut places: HashMap<u64, (u32, u32)> = HashMap::with_capacity(graph.nodes.len());
        let nothing = Arc::new(Action::Empty);
        for (&number, node) in &graph.nodes {
            let begin = self.push(&node.action)?;
            let mut end = begin;
            self.index_of.insert(node.source, begin);
            match &*node.action {
                Action::Child(child) => {
                    let ends = self.add_graph(&child.lock())?;
                    end = self.push(&nothing)?;
                    if ends.first.is_empty() {
                        self.edges.push((begin, end));
                    }
                    self.edges.extend(ends.first.iter().map(|&first| (begin, first)));
                    self.edges.extend(ends.last.iter().map(|&last| (last, end)));
                }
                Action::Conditional(conditional) => {
                    let bodies = conditional.bodies.iter().map(|body| self.add_body(&body.lock()));
                    let bodies = bodies.collect::<Result<_>>()?;
                    self.bodies.insert(begin, bodies);
                }
                _ => {}
            }
            places.insert(number, (begin, end));
        }
        let mut ends = Ends { first: Vec::new(), last: Vec::new() };
        for (number, node) in &graph.nodes {
            let Some(&(begin, end)) = places.get(number) else { continue };
            if node.before.is_empty() {
                ends.first.push(begin);
            }
            if node.after.is_empty() {
                ends.last.push(end);
            }
            self.edges.extend(node.before.iter().filter_map(|(from, _)| Some((places.get(from)?.1, begin))));
        }
        Ok(ends)
    }

    /// Adds a graph that a conditional node runs. Returns its nodes in an order in which they can run.
    fn add_body(&mut self, graph: &Contents) -> Result<Vec<u32>> {
        let outside = mem::take(&mut self.edges);
        let begin = self.end();
        self.add_graph(graph)?;
        let edges = mem::replace(&mut self.edges, outside);
        let range = begin..self.end();
        // Inner bodies belong to their own conditional nodes.
        let inner: Vec<_> = self.inside.extract_if(.., |inner| inner.start >= range.start).collect();
        let own = range.clone().filter(|index| !inner.iter().any(|inner| inner.contains(index))).collect();
        self.inside.push(range);
        Ok(order(own, &edges))
    }

    /// The values of conditional nodes, if there are some.
    pub(super) fn conditionals(&self) -> Option<Arc<Conditionals>> {
        let conditionals = Conditionals::new(self.values.iter().copied());
        (!conditionals.is_empty()).then(|| Arc::new(conditionals))
    }

    pub(super) fn steps(&self, conditionals: Option<&Arc<Conditionals>>) -> Vec<Step> {
        self.actions.iter().map(|action| Step::new(Arc::clone(action), conditionals)).collect()
    }

    /// The indices of nodes that are not in conditional nodes' graphs.
    fn outside(&self) -> Vec<u32> {
        let count = self.actions.len();
        let mut is_inside = vec![false; count];
        for range in &self.inside {
            if let Some(inside) = is_inside.get_mut(range.start as usize..range.end as usize) {
                inside.fill(true);
            }
        }
        (0..self.end()).filter(|&index| is_inside.get(index as usize) == Some(&false)).collect()
    }

    /// The structure of a graph that was checked.
    pub(super) fn into_shape(self) -> Shape {
        let count = self.actions.len();
        let outside = self.outside();
        let scheduled = outside.len();
        let mut before = vec![0u32; count];
        let mut offsets = vec![0usize; count + 1];
        for &(from, to) in &self.edges {
            if let (Some(before), Some(offset)) = (before.get_mut(to as usize), offsets.get_mut(from as usize + 1)) {
                *before += 1;
                *offset += 1;
            }
        }
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        // Sorted by the earlier node, the later ones lie where the offsets say.
        let mut edges = self.edges;
        edges.sort_unstable();
        let roots: Vec<u32> = outside.into_iter().filter(|&index| before.get(index as usize) == Some(&0)).collect();
        let is_concurrent = roots.len() > 1 || offsets.windows(2).any(|offsets| offsets[1] - offsets[0] > 1);
        let indices_of = |is_kind: fn(&Action) -> bool| {
            let nodes = self.actions.iter().enumerate().filter(|(_, action)| is_kind(action));
            nodes.map(|(index, _)| index as u32).collect()
        };
        let joins = before.iter().enumerate().filter(|&(_, &count)| count > 1).map(|(index, _)| index as u32);
        Shape {
            joins: joins.collect(),
            records: indices_of(|action| matches!(action, Action::EventRecord(_))),
            waits: indices_of(|action| matches!(action, Action::EventWait(_))),
            before,
            offsets,
            targets: edges.into_iter().map(|(_, to)| to).collect(),
            roots,
            scheduled,
            is_concurrent,
            bodies: self.bodies,
            index_of: self.index_of,
        }
    }
}

/// Puts the nodes of an acyclic graph into an order in which they can run.
fn order(nodes: Vec<u32>, edges: &[(u32, u32)]) -> Vec<u32> {
    let mut before: HashMap<u32, u32> = nodes.iter().map(|&node| (node, 0)).collect();
    let mut after: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(from, to) in edges {
        after.entry(from).or_default().push(to);
        *before.entry(to).or_default() += 1;
    }
    let mut order: Vec<u32> = nodes.into_iter().filter(|node| before.get(node) == Some(&0)).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for to in after.get(&node).into_iter().flatten() {
            if let Some(count) = before.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    order.push(*to);
                }
            }
        }
    }
    order
}
