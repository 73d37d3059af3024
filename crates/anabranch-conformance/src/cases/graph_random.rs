//! Large graphs, and random graphs that are compared with the same work run one after the other.

use super::graph_tools::{add, graph_of, launch, word};
use super::order_tools::Log;
use crate::case::{Case, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{Buffer, Graph, LaunchConfig, Node, NodeWork, Result};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.random_work_on_buffers", "G1", random_work_on_buffers),
    Case::new("graph.random_edges", "G1", random_edges),
    Case::new("graph.random_children", "G1", random_children),
    Case::new("graph.ten_thousand_nodes_in_a_row", "G1", ten_thousand_nodes_in_a_row),
    Case::new("graph.ten_thousand_nodes_side_by_side", "G1", ten_thousand_nodes_side_by_side),
];

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        // The constants are Knuth's. The upper bits have better statistical properties.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}

const WORDS: usize = 5;

/// The nodes that use a number.
#[derive(Default)]
struct Uses {
    writer: Option<Node>,
    readers: Vec<Node>,
}

impl Uses {
    fn before_a_write(&self) -> impl Iterator<Item = Node> {
        self.writer.iter().chain(&self.readers).copied()
    }

    fn wrote(&mut self, node: Node) {
        *self = Self { writer: Some(node), readers: Vec::new() };
    }
}

/// Adds random work, with edges between nodes that use the same number. Applies the work to `expected` too.
fn random_graph(
    environment: &Environment,
    numbers: &mut Numbers,
    words: &mut [Buffer<u32>],
    expected: &mut [u32; WORDS],
    count: usize,
) -> Result<Graph> {
    let mut graph = environment.context().create_graph()?;
    let mut uses: [Uses; WORDS] = Default::default();
    for value in 0..count as u32 {
        let target = numbers.below(WORDS);
        let mut before: Vec<Node> = uses[target].before_a_write().collect();
        let kind = numbers.below(4);
        let source = (target + 1 + numbers.below(WORDS - 1)) % WORDS;
        let work = match kind {
            0 => {
                before.extend(uses[source].writer);
                expected[target] = expected[source];
                match words.get_disjoint_mut([target, source]) {
                    Ok([target, source]) => NodeWork::copy(target, &*source)?,
                    Err(_) => NodeWork::empty(),
                }
            }
            1 => {
                expected[target] = value;
                NodeWork::fill(&mut words[target], value)?
            }
            _ => {
                expected[target] = expected[target].wrapping_mul(31).wrapping_add(value);
                add(environment, &mut words[target], 31, value)?
            }
        };
        before.sort_unstable();
        before.dedup();
        let node = graph.add(&before, work)?;
        uses[target].wrote(node);
        if kind == 0 {
            uses[source].readers.push(node);
        }
    }
    Ok(graph)
}

fn words(environment: &Environment) -> Result<Vec<Buffer<u32>>> {
    let stream = environment.stream()?;
    let words = (0..WORDS).map(|_| stream.allocate_zeroed(1)).collect::<Result<_>>()?;
    stream.synchronize()?;
    Ok(words)
}

fn random_work_on_buffers(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for seed in [1, 20_240_229, 77] {
        let (mut numbers, mut words, mut expected) = (Numbers(seed), words(environment)?, [0; WORDS]);
        let graph = random_graph(environment, &mut numbers, &mut words, &mut expected, 200)?;
        launch(&graph.instantiate()?, &stream)?;
        for (word, expected) in words.iter().zip(expected) {
            equal(&format!("a number with seed {seed}"), stream.download(word)?, vec![expected])?;
        }
    }
    Ok(())
}

/// Checks that with random edges, every node runs after all nodes that it depends on.
fn random_edges(environment: &Environment) -> Verdict {
    const COUNT: usize = 100;
    let (stream, log, mut numbers) = (environment.stream()?, Log::default(), Numbers(19_690_720));
    let mut graph = environment.context().create_graph()?;
    let (mut nodes, mut edges): (Vec<Node>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    for number in 0..COUNT {
        let mut before: Vec<usize> =
            (0..numbers.below(4)).filter(|_| number > 0).map(|_| numbers.below(number.max(1))).collect();
        before.sort_unstable();
        before.dedup();
        let dependencies: Vec<Node> = before.iter().map(|&earlier| nodes[earlier]).collect();
        nodes.push(graph.add(&dependencies, super::graph_tools::note(&log, number as u32))?);
        edges.extend(before.into_iter().map(|earlier| (earlier, number)));
    }
    equal("edges", graph.edges()?.len(), edges.len())?;
    launch(&graph.instantiate()?, &stream)?;
    let order = log.numbers();
    equal("nodes that ran", order.len(), COUNT)?;
    let position = |number: usize| order.iter().position(|&found| found as usize == number);
    for (from, to) in edges {
        holds(&format!("node {from} ran before node {to}"), position(from) < position(to))?;
    }
    Ok(())
}

fn random_children(environment: &Environment) -> Verdict {
    let (stream, mut numbers) = (environment.stream()?, Numbers(19_370_417));
    let (mut words, mut expected) = (words(environment)?, [0; WORDS]);
    let mut graph = environment.context().create_graph()?;
    let mut last: Option<Node> = None;
    for _ in 0..8 {
        let count = numbers.below(20);
        let child = random_graph(environment, &mut numbers, &mut words, &mut expected, count)?;
        let before: Vec<Node> = last.into_iter().collect();
        last = Some(graph.add(&before, NodeWork::child(&child))?);
    }
    let around = graph_of(environment, NodeWork::child(&graph))?;
    launch(&around.instantiate()?, &stream)?;
    for (word, expected) in words.iter().zip(expected) {
        equal("a number", stream.download(word)?, vec![expected])?;
    }
    Ok(())
}

const MANY: u32 = 10_000;

fn ten_thousand_nodes_in_a_row(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    super::graph_tools::chain(
        &mut graph,
        (0..MANY).map(|_| add(environment, &mut word, 1, 1)).collect::<Result<Vec<_>>>()?,
    )?;
    equal("nodes", graph.nodes()?.len(), MANY as usize)?;
    equal("edges", graph.edges()?.len(), MANY as usize - 1)?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![2 * MANY])
}

fn ten_thousand_nodes_side_by_side(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let kernel = environment.kernel("count_up")?;
    let mut graph = environment.context().create_graph()?;
    let top = graph.add((), NodeWork::empty())?;
    for _ in 0..MANY {
        // SAFETY: `count_up` atomically adds 1 to the number that its argument points to.
        unsafe { graph.add_kernel(top, &kernel, &LaunchConfig::new(1, 1), (&mut word,)) }?;
    }
    launch(&graph.instantiate()?, &stream)?;
    equal("the number", stream.download(&word)?, vec![MANY])
}
