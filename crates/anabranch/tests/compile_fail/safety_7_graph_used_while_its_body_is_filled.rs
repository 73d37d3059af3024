//! A graph is not changed, nor made executable, while somebody fills a graph inside of it.

use anabranch::{Graph, Node, NodeWork, Result};

fn both(graph: &mut Graph, node: Node) -> Result<()> {
    let mut body = graph.body(node, 0)?;
    graph.instantiate()?;
    body.add((), NodeWork::empty())?;
    Ok(())
}

fn main() {}
