//! Queries of graphs, and their drawings.

use super::graph_tools::{chain, digit, graph_of, handles, word};
use crate::case::{Case, Failed, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Live, Value, ValueOperation};
use anabranch::{
    ConditionalKind, EdgeData, Graph, GraphEdge, LaunchConfig, Node, NodeParameters, NodeWork, Status, WaitCondition,
};
use std::collections::BTreeSet;

pub(super) const CASES: &[Case] = &[
    Case::new("graph.nodes_and_roots", "G1", nodes_and_roots),
    Case::new("graph.edges_are_told", "G1", edges_are_told),
    Case::new("graph.neighbours_are_told", "G1", neighbours_are_told),
    Case::new("graph.kernel_parameters_read_back", "G1", kernel_parameters_read_back),
    Case::new("graph.copy_parameters_read_back", "G1", copy_parameters_read_back),
    Case::new("graph.fill_parameters_read_back", "G1", fill_parameters_read_back),
    Case::new("graph.event_parameters_read_back", "G1", event_parameters_read_back),
    Case::new("graph.value_parameters_read_back", "G1", value_parameters_read_back),
    Case::new("graph.memory_parameters_read_back", "M4", memory_parameters_read_back),
    Case::new("graph.child_parameters_read_back", "G1", child_parameters_read_back),
    Case::new("graph.questions_about_other_nodes", "G8", questions_about_other_nodes),
    Case::new("graph.picture_for_graphviz", "G1", picture_for_graphviz),
    Case::new("graph.picture_for_mermaid", "G1", picture_for_mermaid),
    Case::new("graph.description_as_json", "G1", description_as_json),
];

/// Two nodes that depend on one node, and a fourth node that depends on both.
fn diamond(environment: &Environment) -> anabranch::Result<(Graph, [Node; 4])> {
    let mut graph = environment.context().create_graph()?;
    let top = graph.add((), NodeWork::empty())?;
    let (left, right) = (graph.add(top, NodeWork::empty())?, graph.add(top, NodeWork::empty())?);
    let bottom = graph.add([left, right], NodeWork::empty())?;
    Ok((graph, [top, left, right, bottom]))
}

fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    items.into_iter().collect()
}

fn nodes_and_roots(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = diamond(environment)?;
    equal("the nodes", set(graph.nodes()?), set(nodes))?;
    equal("the roots", graph.root_nodes()?, vec![nodes[0]])?;
    let lone = graph.add((), NodeWork::empty())?;
    equal("the roots with another", set(graph.root_nodes()?), set([nodes[0], lone]))?;
    equal("handles of the driver", set(handles(environment, &graph)?.iter().map(|handle| handle.as_raw())).len(), 5)
}

fn edges_are_told(environment: &Environment) -> Verdict {
    let (graph, [top, left, right, bottom]) = diamond(environment)?;
    let pairs = |edges: Vec<GraphEdge>| set(edges.into_iter().map(|edge| (edge.from, edge.to)));
    equal("data", graph.edges()?.iter().all(|edge| edge.data == EdgeData::default()), true)?;
    equal("edges", pairs(graph.edges()?), set([(top, left), (top, right), (left, bottom), (right, bottom)]))
}

fn neighbours_are_told(environment: &Environment) -> Verdict {
    let (graph, [top, left, right, bottom]) = diamond(environment)?;
    let names = |list: Vec<(Node, EdgeData)>| set(list.into_iter().map(|(node, _)| node));
    equal("before the top", names(graph.dependencies_of(top)?), set([]))?;
    equal("after the top", names(graph.dependents_of(top)?), set([left, right]))?;
    equal("before the left", names(graph.dependencies_of(left)?), set([top]))?;
    equal("before the bottom", names(graph.dependencies_of(bottom)?), set([left, right]))?;
    equal("after the bottom", names(graph.dependents_of(bottom)?), set([]))
}

fn wrong(what: &str, parameters: &NodeParameters) -> Failed {
    Failed(format!("{what}: found {parameters:?}"))
}

fn kernel_parameters_read_back(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let (kernel, address) = (environment.kernel("add")?, word.device_pointer());
    let config = LaunchConfig::new((1, 2, 3), (4, 1, 1)).dynamic_shared_bytes(128);
    let mut graph = environment.context().create_graph()?;
    // SAFETY: it is never launched.
    let node = unsafe { graph.add_kernel((), &kernel, &config, (&mut word, 10u32, 7u32)) }?;
    let found = match graph.node_parameters(node)? {
        NodeParameters::Kernel(found) => found,
        other => return Err(wrong("a kernel", &other)),
    };
    equal("the grid", found.grid, [1, 2, 3])?;
    equal("the block", found.block, [4, 1, 1])?;
    equal("shared memory", found.dynamic_shared_bytes, 128)?;
    equal("cooperative", found.cooperative, false)?;
    equal("clusters", found.cluster, None)?;
    equal("the function", found.function, kernel.as_raw())?;
    // A driver that does not know the number of arguments reports none.
    let given = [address.0.to_ne_bytes().to_vec(), 10u32.to_ne_bytes().to_vec(), 7u32.to_ne_bytes().to_vec()];
    holds("the arguments are those given", found.arguments.is_empty() || found.arguments == given)
}

fn copy_parameters_read_back(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.allocate_zeroed::<u8>(64)?;
    let mut destination = environment.context().allocate_pinned::<u8>(64)?;
    let (from, to) = (source.device_pointer().0, destination.device_pointer().0);
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::copy(&mut destination, &source)?)?;
    let found = match graph.node_parameters(node)? {
        NodeParameters::Copy(found) => found,
        other => return Err(wrong("a copy", &other)),
    };
    equal("the addresses", (found.source.address, found.destination.address), (from, to))?;
    equal("which is the host's", (found.source.host, found.destination.host), (false, true))?;
    equal("the extent", found.extent, [64, 1, 1])
}

fn fill_parameters_read_back(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let address = word.device_pointer();
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::fill(&mut word, 7u32)?)?;
    let found = match graph.node_parameters(node)? {
        NodeParameters::Fill(found) => found,
        other => return Err(wrong("a fill", &other)),
    };
    equal("the address", found.address, address)?;
    equal("the pattern", found.pattern, anabranch::FillPattern::U32(7))?;
    equal("the extents", (found.width, found.height), (1, 1))
}

fn event_parameters_read_back(environment: &Environment) -> Verdict {
    let (event, mut graph) = (environment.context().create_event()?, environment.context().create_graph()?);
    let nodes = chain(&mut graph, [NodeWork::event_record(&event), NodeWork::event_wait(&event)])?;
    match graph.node_parameters(nodes[0])? {
        NodeParameters::EventRecord(found) => equal("the recorded event", found, event.as_raw())?,
        other => return Err(wrong("a record", &other)),
    }
    match graph.node_parameters(nodes[1])? {
        NodeParameters::EventWait(found) => equal("the awaited event", found, event.as_raw()),
        other => Err(wrong("a wait", &other)),
    }
}

fn value_parameters_read_back(environment: &Environment) -> Verdict {
    let (signal, mut graph) = (environment.context().create_signal()?, environment.context().create_graph()?);
    let works = [NodeWork::write_signal(&signal, 5), NodeWork::wait_signal(&signal, WaitCondition::GreaterOrEqual, 3)];
    let nodes = chain(&mut graph, works)?;
    match graph.node_parameters(nodes[0])? {
        NodeParameters::ValueOperations(found) => {
            holds("it writes a 5", matches!(found[..], [ValueOperation::Write { value: Value::U64(5), .. }]))?
        }
        other => return Err(wrong("a write", &other)),
    }
    match graph.node_parameters(nodes[1])? {
        NodeParameters::ValueOperations(found) => {
            holds("it waits for a 3", matches!(found[..], [ValueOperation::Wait { value: Value::U64(3), .. }]))
        }
        other => Err(wrong("a wait", &other)),
    }
}

fn memory_parameters_read_back(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: it is never launched.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 1024) }?;
    let address = memory.device_pointer();
    match graph.node_parameters(node)? {
        NodeParameters::Allocate(found) => {
            equal("the address", found.address, address)?;
            equal("the size", found.bytes, 4096)?;
            equal("the device", found.device, environment.device().ordinal())?;
        }
        other => return Err(wrong("an allocation", &other)),
    }
    // SAFETY: it is never launched.
    let free = unsafe { graph.add_free(node, memory) }?;
    match graph.node_parameters(free)? {
        NodeParameters::Free(found) => equal("the freed address", found, address),
        other => Err(wrong("a free", &other)),
    }
}

fn child_parameters_read_back(environment: &Environment) -> Verdict {
    let (child, _) = diamond(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::child(&child))?;
    let inner = match graph.node_parameters(node)? {
        NodeParameters::Child(inner) => inner,
        other => return Err(wrong("a child", &other)),
    };
    holds("the child is a copy", inner != child.as_raw())?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    // SAFETY: the child belongs to a node of a graph that is live, and that no other thread uses.
    let inner = unsafe { Live::new(inner) };
    let nodes = driver.graph_nodes(&context.into(), inner);
    equal("querying its nodes", status_of(nodes.clone()), Status::SUCCESS)?;
    equal("its nodes", nodes.map_or(0, |nodes| nodes.len()), 4)
}

fn questions_about_other_nodes(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = diamond(environment)?;
    let (_other, theirs) = diamond(environment)?;
    graph.remove_node(nodes[3])?;
    for (what, node) in [("another graph's node", theirs[0]), ("a node that was removed", nodes[3])] {
        refused(what, graph.node_kind(node), Status::INVALID_VALUE)?;
        refused(what, graph.node_parameters(node), Status::INVALID_VALUE)?;
        refused(what, graph.dependencies_of(node), Status::INVALID_VALUE)?;
        refused(what, graph.dependents_of(node), Status::INVALID_VALUE)?;
        refused(what, graph.remove_node(node), Status::INVALID_VALUE)?;
        refused(what, graph.set_node(node, NodeWork::empty()), Status::INVALID_VALUE)?;
    }
    Ok(())
}

/// A graph with a kernel, a child and a conditional node.
fn picture(environment: &Environment) -> anabranch::Result<Graph> {
    let (_, mut word) = word(environment)?;
    let child = graph_of(environment, NodeWork::fill(&mut word, 1u32)?)?;
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), digit(environment, &mut word, 1)?)?;
    let second = graph.add(first, NodeWork::child(&child))?;
    let value = graph.create_conditional(Some(1))?;
    let third = graph.add_conditional(second, value, ConditionalKind::If, 1)?;
    graph.body(third, 0)?.add((), digit(environment, &mut word, 2)?)?;
    Ok(graph)
}

/// Counts the occurrences of a part in a text.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

fn picture_for_graphviz(environment: &Environment) -> Verdict {
    let text = picture(environment)?.to_dot()?;
    holds("it begins as a graph", text.starts_with("digraph {"))?;
    holds("it ends as one", text.trim_end().ends_with('}'))?;
    equal("brackets", count(&text, "{"), count(&text, "}"))?;
    equal("quotation marks", count(&text, "\"") % 2, 0)?;
    holds("the kernel has its name", count(&text, "add") >= 1)?;
    holds("there are both edges", count(&text, " -> ") >= 2)?;
    holds("the child is in it", count(&text, "subgraph") >= 1)
}

fn picture_for_mermaid(environment: &Environment) -> Verdict {
    let text = picture(environment)?.to_mermaid()?;
    holds("it begins as a flow chart", text.starts_with("flowchart TD\n"))?;
    equal("square brackets", count(&text, "["), count(&text, "]"))?;
    equal("quotation marks", count(&text, "\"") % 2, 0)?;
    let ends = text.lines().filter(|line| line.trim() == "end").count();
    equal("graphs inside, and their ends", count(&text, "subgraph "), ends)?;
    holds("there are both edges", count(&text, "-->") >= 2)?;
    holds("the kernel has its name", count(&text, "add") >= 1)
}

fn description_as_json(environment: &Environment) -> Verdict {
    let graph = picture(environment)?;
    let (text, description) = (graph.to_json()?, graph.describe()?);
    equal("nodes", description.nodes().len(), 3)?;
    equal("edges", description.edges().len(), 2)?;
    let kinds = set(description.nodes().iter().map(|node| node.kind()));
    equal("kinds", kinds, set(["kernel", "child graph", "conditional"]))?;
    let child = description.nodes().iter().find(|node| node.kind() == "child graph");
    equal(
        "what is in the child",
        child.map(|node| node.graphs().iter().map(|inner| inner.nodes().len()).sum()),
        Some(1),
    )?;
    equal("curly brackets", count(&text, "{"), count(&text, "}"))?;
    equal("square brackets", count(&text, "["), count(&text, "]"))?;
    equal("edges in the text", count(&text, "\"from\""), 2)
}
