//! What graphs and executable graphs keep of what their nodes refer to, and when they let it go: programs made up at random,
//! beside a model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, ExecutableGraph, Graph, GraphNodeKind, MemoryPool, MemoryPoolOptions, Node, NodeWork,
    Stream, flush_deferred_drops,
};
use common::{hold, host};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// What a node refers to: a host function, or a buffer that it fills. Each has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Function(usize),
    Buffer(usize),
}

/// A graph with what the model says of it.
struct ModelGraph {
    graph: Graph,
    nodes: BTreeMap<Node, BTreeSet<Thing>>,
    /// What no node in particular refers to.
    others: BTreeSet<Thing>,
}

impl ModelGraph {
    fn kept(&self) -> BTreeSet<Thing> {
        self.nodes.values().flatten().chain(&self.others).copied().collect()
    }

    /// A node that has one thing of its own.
    fn node(&self, pick: usize) -> Option<(Node, Thing)> {
        let is_child = |node| self.graph.node_kind(node).unwrap() == GraphNodeKind::CHILD;
        let own: Vec<_> = self.nodes.iter().filter(|(node, things)| things.len() == 1 && !is_child(**node)).collect();
        let (node, things) = own.get(pick.checked_rem(own.len())?)?;
        Some((**node, *things.first()?))
    }
}

/// An executable graph. It keeps the graph that it was made from, too.
struct ModelExecutable {
    executable: ExecutableGraph,
    source: Rc<RefCell<ModelGraph>>,
    nodes: BTreeMap<Node, BTreeSet<Thing>>,
    others: BTreeSet<Thing>,
}

impl ModelExecutable {
    fn kept(&self) -> BTreeSet<Thing> {
        self.nodes.values().flatten().chain(&self.others).copied().collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create,
    Add { graph: usize, is_function: bool },
    AddChild { graph: usize, child: usize },
    Capture,
    Set { graph: usize, node: usize },
    Remove { graph: usize, node: usize },
    TryClone { graph: usize },
    Instantiate { graph: usize },
    SetExecutable { executable: usize, node: usize },
    Update { executable: usize, graph: usize },
    Launch { executable: usize },
    DropGraph { graph: usize },
    DropExecutable { executable: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::Create),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(graph, is_function)| Step::Add { graph, is_function }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(graph, child)| Step::AddChild { graph, child }),
        1 => Just(Step::Capture),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(graph, node)| Step::Set { graph, node }),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(graph, node)| Step::Remove { graph, node }),
        1 => any::<usize>().prop_map(|graph| Step::TryClone { graph }),
        2 => any::<usize>().prop_map(|graph| Step::Instantiate { graph }),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(executable, node)| Step::SetExecutable { executable, node }),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(executable, graph)| Step::Update { executable, graph }),
        2 => any::<usize>().prop_map(|executable| Step::Launch { executable }),
        1 => any::<usize>().prop_map(|graph| Step::DropGraph { graph }),
        1 => any::<usize>().prop_map(|executable| Step::DropExecutable { executable }),
    ];
    proptest::collection::vec(step, 1..40)
}

struct World {
    stream: Stream,
    pool: MemoryPool,
    /// What one buffer takes of the pool.
    unit: u64,
    functions: Vec<Weak<()>>,
    buffers: usize,
    graphs: Vec<Rc<RefCell<ModelGraph>>>,
    executables: Vec<ModelExecutable>,
    ran: Arc<Mutex<BTreeSet<usize>>>,
    context: Context,
}

fn pick<T>(list: &[T], index: usize) -> Option<&T> {
    list.get(index.checked_rem(list.len())?)
}

impl World {
    fn new() -> Self {
        let context = host();
        let stream = context.create_stream().unwrap();
        let pool = context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap();
        let first = stream.allocate_zeroed_from::<u32>(&pool, 16).unwrap();
        let unit = pool.used_bytes().unwrap();
        drop(first);
        stream.synchronize().unwrap();
        let (functions, graphs, executables, ran) = Default::default();
        Self { stream, pool, unit, functions, buffers: 0, graphs, executables, ran, context }
    }

    fn buffer(&mut self) -> (Thing, Buffer<u32>) {
        self.buffers += 1;
        let buffer = self.stream.allocate_zeroed_from::<u32>(&self.pool, 16).unwrap();
        (Thing::Buffer(self.buffers), buffer)
    }

    fn function(&mut self) -> (Thing, impl Fn() + Send + Sync + 'static) {
        let (number, token, ran) = (self.functions.len(), Arc::new(()), self.ran.clone());
        self.functions.push(Arc::downgrade(&token));
        let function = move || {
            let _kept = &token;
            ran.lock().unwrap().insert(number);
        };
        (Thing::Function(number), function)
    }

    /// Work with something of its own, of which the program keeps nothing.
    fn with_work<R>(&mut self, is_function: bool, with: impl FnOnce(&mut Self, NodeWork<'_>) -> R) -> (Thing, R) {
        if is_function {
            let (thing, function) = self.function();
            (thing, with(self, NodeWork::host_func(function)))
        } else {
            let (thing, mut buffer) = self.buffer();
            let work = NodeWork::fill(&mut buffer, 1u32).unwrap();
            let result = with(self, work);
            (thing, result)
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Create => {
                let graph = self.context.create_graph().unwrap();
                self.add_graph(ModelGraph { graph, nodes: BTreeMap::new(), others: BTreeSet::new() });
            }
            Step::Add { graph, is_function } => {
                let Some(graph) = pick(&self.graphs, graph).cloned() else { return };
                let mut graph = graph.borrow_mut();
                let before: Vec<_> = graph.nodes.keys().last().copied().into_iter().collect();
                let (thing, node) = self.with_work(is_function, |_, work| graph.graph.add(&before, work).unwrap());
                graph.nodes.insert(node, BTreeSet::from([thing]));
            }
            Step::AddChild { graph, child } => {
                let (Some(graph), Some(child)) = (pick(&self.graphs, graph), pick(&self.graphs, child)) else { return };
                if Rc::ptr_eq(graph, child) {
                    return;
                }
                let (mut graph, child) = (graph.borrow_mut(), child.borrow());
                if let Ok(node) = graph.graph.add((), NodeWork::child(&child.graph)) {
                    graph.nodes.insert(node, child.kept());
                }
            }
            Step::Capture => {
                let (thing, mut buffer) = self.buffer();
                let (other, function) = self.function();
                let captured = self.stream.capture(CaptureMode::Global, |scope| {
                    scope.fill(&mut buffer, 2u32)?;
                    scope.launch_repeatable_host_func(function)
                });
                let graph = captured.unwrap();
                let nodes = graph.nodes().unwrap().into_iter().map(|node| (node, BTreeSet::new())).collect();
                self.add_graph(ModelGraph { graph, nodes, others: BTreeSet::from([thing, other]) });
            }
            Step::Set { graph, node } => {
                let Some(graph) = pick(&self.graphs, graph).cloned() else { return };
                let mut graph = graph.borrow_mut();
                let Some((node, before)) = graph.node(node) else { return };
                let is_function = matches!(before, Thing::Function(_));
                // Work of another kind is refused, and leaves everything as it is.
                let _ = self.with_work(!is_function, |_, work| graph.graph.set_node(node, work).unwrap_err());
                let (thing, ()) = self.with_work(is_function, |_, work| graph.graph.set_node(node, work).unwrap());
                graph.nodes.insert(node, BTreeSet::from([thing]));
            }
            Step::Remove { graph, node } => {
                let Some(graph) = pick(&self.graphs, graph) else { return };
                let mut graph = graph.borrow_mut();
                let nodes: Vec<_> = graph.nodes.keys().copied().collect();
                let Some(&node) = pick(&nodes, node) else { return };
                graph.graph.remove_node(node).unwrap();
                graph.nodes.remove(&node);
            }
            Step::TryClone { graph } => {
                let Some(graph) = pick(&self.graphs, graph).cloned() else { return };
                let graph = graph.borrow();
                let clone = graph.graph.try_clone().unwrap();
                let nodes = clone.nodes().unwrap().into_iter().map(|node| (node, BTreeSet::new())).collect();
                self.add_graph(ModelGraph { graph: clone, nodes, others: graph.kept() });
            }
            Step::Instantiate { graph } => {
                let Some(source) = pick(&self.graphs, graph).cloned() else { return };
                let graph = source.borrow();
                let executable = graph.graph.instantiate().unwrap();
                let (nodes, others) = (graph.nodes.clone(), graph.others.clone());
                drop(graph);
                self.executables.push(ModelExecutable { executable, source, nodes, others });
            }
            Step::SetExecutable { executable, node } => {
                let Some(place) = executable.checked_rem(self.executables.len()) else { return };
                let Some((node, thing)) = self.executables[place].source.borrow().node(node) else { return };
                let is_function = matches!(thing, Thing::Function(_));
                let mut set = |is_function| {
                    let set =
                        |world: &mut Self, work: NodeWork<'_>| world.executables[place].executable.set_node(node, work);
                    self.with_work(is_function, set)
                };
                let _ = set(!is_function).1.unwrap_err();
                // A node that was added after the executable graph was made is refused.
                if let (thing, Ok(())) = set(is_function) {
                    self.executables[place].nodes.insert(node, BTreeSet::from([thing]));
                }
            }
            Step::Update { executable, graph } => {
                let Some(place) = executable.checked_rem(self.executables.len()) else { return };
                let Some(graph) = pick(&self.graphs, graph).cloned() else { return };
                let own = &mut self.executables[place];
                let graph = graph.borrow();
                // An update that is refused changes nothing.
                if own.executable.update(&graph.graph).is_ok() {
                    // It pairs nodes by the driver's rules, so that it is not known which node has what.
                    (own.nodes, own.others) = (BTreeMap::new(), graph.kept());
                }
            }
            Step::Launch { executable } => {
                let Some(own) = pick(&self.executables, executable) else { return };
                own.executable.launch(&self.stream).unwrap();
                self.stream.synchronize().unwrap();
                let ran = std::mem::take(&mut *self.ran.lock().unwrap());
                let kept = own.kept();
                assert!(ran.iter().all(|&number| kept.contains(&Thing::Function(number))), "{ran:?} of {kept:?}");
            }
            Step::DropGraph { graph } => {
                if let Some(place) = graph.checked_rem(self.graphs.len()) {
                    self.graphs.swap_remove(place);
                }
            }
            Step::DropExecutable { executable } => {
                if let Some(place) = executable.checked_rem(self.executables.len()) {
                    self.executables.swap_remove(place);
                }
            }
        }
    }

    fn add_graph(&mut self, graph: ModelGraph) {
        self.graphs.push(Rc::new(RefCell::new(graph)));
    }

    /// What graphs and executable graphs keep is what the model says.
    fn check(&self) {
        let sources = self.executables.iter().map(|own| own.source.borrow().kept());
        let graphs = self.graphs.iter().map(|graph| graph.borrow().kept());
        let kept: BTreeSet<_> =
            self.executables.iter().map(ModelExecutable::kept).chain(sources).chain(graphs).flatten().collect();
        let is_kept = |number| kept.contains(&Thing::Function(number));
        let buffers = kept.iter().filter(|thing| matches!(thing, Thing::Buffer(_))).count() as u64;
        let begin = Instant::now();
        loop {
            flush_deferred_drops();
            self.stream.synchronize().unwrap();
            let alive: Vec<_> = self.functions.iter().map(|function| function.strong_count() > 0).collect();
            assert!(alive.iter().enumerate().all(|(number, &alive)| alive || !is_kept(number)), "a function is gone");
            let used = self.pool.used_bytes().unwrap() / self.unit;
            assert!(used >= buffers, "a buffer is gone");
            if used == buffers && alive.iter().enumerate().all(|(number, &alive)| alive == is_kept(number)) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{used} buffers, not {buffers}; {alive:?} of {kept:?}");
            std::thread::yield_now();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_keep_what_their_nodes_refer_to_and_nothing_else(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
            world.check();
        }
        world.executables.clear();
        world.graphs.clear();
        world.check();
    }
}

#[test]
fn what_a_launch_in_flight_uses_is_kept_after_its_node_has_got_other_work() {
    let mut world = World::new();
    let mut graph = world.context.create_graph().unwrap();
    let (_, function) = world.function();
    let node = graph.add((), NodeWork::host_func(function)).unwrap();
    let executable = graph.instantiate().unwrap();
    let (_, function) = world.function();
    graph.set_node(node, NodeWork::host_func(function)).unwrap();
    let signal = hold(&world.context, &world.stream);
    executable.launch(&world.stream).unwrap();
    let (_, function) = world.function();
    executable.set_node(node, NodeWork::host_func(function)).unwrap();
    executable.update(&graph).unwrap();
    flush_deferred_drops();
    let is_alive =
        |world: &World| world.functions.iter().map(|function| function.strong_count() > 0).collect::<Vec<_>>();
    assert_eq!(is_alive(&world)[..2], [true, true], "the launch has not run yet, and the graph has the second");
    signal.set(1);
    world.stream.synchronize().unwrap();
    assert_eq!(*world.ran.lock().unwrap(), BTreeSet::from([0]));
    let begin = Instant::now();
    while is_alive(&world) != [false, true, false] {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", is_alive(&world));
        flush_deferred_drops();
    }
}

#[test]
fn pinned_memory_can_be_written_again_when_no_node_refers_to_it() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut first, mut second) =
        (context.allocate_pinned::<u32>(4).unwrap(), context.allocate_pinned::<u32>(4).unwrap());
    let mut buffer = stream.allocate_zeroed::<u32>(4).unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::copy(&mut first, &buffer).unwrap()).unwrap();
    first.as_slice().unwrap_err();
    graph.set_node(node, NodeWork::copy(&mut second, &buffer).unwrap()).unwrap();
    assert_eq!(first.as_slice().unwrap(), [0; 4]);
    graph.set_node(node, NodeWork::copy(&mut buffer, &second).unwrap()).unwrap();
    assert_eq!(second.as_slice().unwrap(), [0; 4], "the graph only reads it now");
    graph.remove_node(node).unwrap();
    second.write(|second| second.fill(1)).unwrap();
}
