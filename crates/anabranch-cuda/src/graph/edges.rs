//! Edges: conversion between the contract's types and the driver's arrays.
//!
//! Edges with data came with CUDA 12.3. Where all have the default, the functions of CUDA 12.0 are called, which every
//! driver has.

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{CUgraphEdgeData, CUgraphNode};
use crate::handles::{node_handle, raw_graph, raw_node};
use anabranch_hal::{Dependency, Edge, EdgeData, EdgeKind, GraphHandle, Live, Result};
use std::ptr;

/// The dependencies of a node, as the driver takes them.
pub(crate) struct RawDependencies {
    pub(crate) nodes: Vec<CUgraphNode>,
    /// As many as nodes, unless all have the default.
    data: Option<Vec<CUgraphEdgeData>>,
}

impl RawDependencies {
    pub(crate) fn new(dependencies: &[Dependency]) -> Self {
        let nodes = dependencies.iter().map(|dependency| raw_node(dependency.node)).collect();
        Self { nodes, data: raw_data(dependencies.iter().map(|dependency| dependency.data)) }
    }

    pub(crate) fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// The data, or null, which stands for the default.
    pub(crate) fn data(&self) -> *const CUgraphEdgeData {
        self.data.as_ref().map_or(ptr::null(), |data| data.as_ptr())
    }
}

/// None where all have the default.
fn raw_data(data: impl Iterator<Item = EdgeData> + Clone) -> Option<Vec<CUgraphEdgeData>> {
    data.clone().any(|data| data != EdgeData::default()).then(|| data.map(to_raw).collect())
}

fn to_raw(data: EdgeData) -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: data.from_port,
        to_port: data.to_port,
        type_: data.kind.0,
        ..CUgraphEdgeData::zeroed()
    }
}

/// The contract's data of an edge.
pub(crate) fn edge_data(raw: &CUgraphEdgeData) -> EdgeData {
    EdgeData { from_port: raw.from_port, to_port: raw.to_port, kind: EdgeKind(raw.type_) }
}

/// The edges of a graph.
pub(super) fn all(driver: &CudaDriver, graph: Live<'_, GraphHandle>) -> Result<Vec<Edge>> {
    let (functions, graph) = (&driver.functions, raw_graph(graph));
    let list = |from, to, data, count: &mut usize| {
        // SAFETY: the graph is live, as its type says; there is room for as many edges as stated, or only their number
        // is asked for.
        check(unsafe {
            // A driver without the newer function knows no data, and leaves the default.
            if functions.cuGraphGetEdges_v2.is_some() {
                functions.cuGraphGetEdges_v2(graph, from, to, data, count)
            } else {
                functions.cuGraphGetEdges(graph, from, to, count)
            }
        })
    };
    let mut count = 0;
    list(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &mut count)?;
    let (mut from, mut to) = (vec![ptr::null_mut(); count], vec![ptr::null_mut(); count]);
    let mut data = vec![CUgraphEdgeData::zeroed(); count];
    if count > 0 {
        list(from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &mut count)?;
    }
    let edges = from.iter().zip(&to).zip(&data).take(count);
    Ok(edges
        .map(|((&from, &to), data)| Edge { from: node_handle(from), to: node_handle(to), data: edge_data(data) })
        .collect())
}

/// Adds edges.
///
/// # Safety
///
/// The nodes of the edges exist.
pub(super) unsafe fn add(driver: &CudaDriver, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
    let (graph, (from, to, data)) = (raw_graph(graph), split(edges));
    let (from, to, count) = (from.as_ptr(), to.as_ptr(), edges.len());
    // SAFETY: the graph is live, as its type says, and the caller promises that the nodes exist; there are as many
    // nodes at each end as stated, and as many data.
    check(unsafe {
        match data {
            None => driver.functions.cuGraphAddDependencies(graph, from, to, count),
            Some(data) => driver.functions.cuGraphAddDependencies_v2(graph, from, to, data.as_ptr(), count),
        }
    })
}

/// Removes edges.
///
/// # Safety
///
/// The nodes of the edges exist.
pub(super) unsafe fn remove(driver: &CudaDriver, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
    let (graph, (from, to, data)) = (raw_graph(graph), split(edges));
    let (from, to, count) = (from.as_ptr(), to.as_ptr(), edges.len());
    // SAFETY: the graph is live, as its type says, and the caller promises that the nodes exist; there are as many
    // nodes at each end as stated, and as many data.
    check(unsafe {
        match data {
            None => driver.functions.cuGraphRemoveDependencies(graph, from, to, count),
            Some(data) => driver.functions.cuGraphRemoveDependencies_v2(graph, from, to, data.as_ptr(), count),
        }
    })
}

type Split = (Vec<CUgraphNode>, Vec<CUgraphNode>, Option<Vec<CUgraphEdgeData>>);

fn split(edges: &[Edge]) -> Split {
    let (from, to) = edges.iter().map(|edge| (raw_node(edge.from), raw_node(edge.to))).unzip();
    (from, to, raw_data(edges.iter().map(|edge| edge.data)))
}

#[cfg(test)]
mod tests {
    use super::{RawDependencies, edge_data};
    use crate::ffi::Zeroed;
    use crate::ffi::cuda_types::{
        CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CUgraphEdgeData,
    };
    use anabranch_hal::{Dependency, EdgeData, EdgeKind, GraphNodeHandle};

    #[test]
    fn default_data_is_left_out_and_other_data_is_kept() {
        let plain = Dependency::from(GraphNodeHandle::from_raw(0x10));
        let raw = RawDependencies::new(&[plain, plain]);
        assert!(!raw.has_data() && raw.data().is_null() && raw.nodes.len() == 2);

        let data = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
        assert_eq!(edge_data(&CUgraphEdgeData::zeroed()), EdgeData::default());
        let raw = RawDependencies::new(&[plain, Dependency { data, ..plain }]);
        let back: Vec<EdgeData> = raw.data.iter().flatten().map(edge_data).collect();
        assert_eq!(back, [EdgeData::default(), data]);
    }

    #[test]
    fn the_contract_has_the_drivers_numbers() {
        assert_eq!(u32::from(EdgeKind::PROGRAMMATIC.0), CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
        assert_eq!(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 1);
    }
}
