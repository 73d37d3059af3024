//! The work of a child refers to the graph that is to be copied.

use anabranch::{Context, NodeWork, Result};

fn escape(context: &Context) -> Result<NodeWork<'static>> {
    let graph = context.create_graph()?;
    Ok(NodeWork::child(&graph))
}

fn main() {}
