//! The graph inside a conditional node is destroyed with the graph around it.

use anabranch::{BodyGraph, ConditionalKind, Context, Result};

fn escape(context: &Context) -> Result<BodyGraph<'static>> {
    let mut graph = context.create_graph()?;
    let value = graph.create_conditional(None)?;
    let node = graph.add_conditional((), value, ConditionalKind::If, 1)?;
    graph.body(node, 0)
}

fn main() {}
