//! A body that is swapped with a graph would outlive the graph around it.

use anabranch::{Context, Graph, Node, Result};

fn swap(context: &Context, graph: &mut Graph, node: Node) -> Result<Graph> {
    let mut other = context.create_graph()?;
    std::mem::swap(&mut *graph.body(node, 0)?, &mut other);
    Ok(other)
}

fn main() {}
