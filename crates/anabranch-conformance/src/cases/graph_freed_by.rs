//! Which nodes can free what a graph allocates.

use super::graph_raw::RawGraph;
use crate::case::{Case, Failed, Need, Verdict};
use crate::environment::Environment;
use anabranch::{AllocationNode, Capabilities, DevicePointer, NodeParameters, Status};

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.memory_freed_by_its_graph_and_another", "M4", by_its_graph_and_another).needs(POOLS),
    Case::new("graph.memory_freed_by_another_graph_and_its_own", "M4", by_another_graph_and_its_own).needs(POOLS),
    Case::new("graph.memory_freed_by_its_graph_too_late", "M4", by_its_graph_too_late).needs(POOLS),
];

/// A graph that allocates, and a node that frees the memory.
fn allocating(environment: &Environment) -> Result<(RawGraph<'_>, NodeParameters), Failed> {
    let graph = RawGraph::new(environment)?;
    let allocation = AllocationNode {
        device: environment.device().ordinal(),
        bytes: 4096,
        access: Vec::new(),
        address: DevicePointer::NULL,
    };
    let added = graph.must_add(&[], NodeParameters::Allocate(allocation))?;
    let address = added.address.ok_or(Failed("an allocation has no address".to_owned()))?;
    Ok((graph, NodeParameters::Free(address)))
}

fn by_its_graph_and_another(environment: &Environment) -> Verdict {
    let (graph, free) = allocating(environment)?;
    graph.must_add(&[0], free.clone())?;
    RawGraph::new(environment)?.refuses("another graph", &[], &free, Status::INVALID_VALUE)
}

fn by_another_graph_and_its_own(environment: &Environment) -> Verdict {
    let (graph, free) = allocating(environment)?;
    let (other, third) = (RawGraph::new(environment)?, RawGraph::new(environment)?);
    other.must_add(&[], free.clone())?;
    graph.refuses("its graph", &[], &free, Status::INVALID_VALUE)?;
    other.refuses("the other graph again", &[], &free, Status::INVALID_VALUE)?;
    third.must_add(&[], free).map(drop)
}

fn by_its_graph_too_late(environment: &Environment) -> Verdict {
    let (graph, free) = allocating(environment)?;
    let _executable = graph.must_instantiate()?;
    graph.refuses("its graph", &[], &free, Status::INVALID_VALUE)?;
    RawGraph::new(environment)?.must_add(&[], free).map(drop)
}
