//! The levels of a description are those of a graph, which are few. Otherwise, writing it would overflow the stack.

use anabranch::GraphDescription;

fn nest(mut outer: GraphDescription, inner: GraphDescription) -> GraphDescription {
    outer.nodes[0].graphs.push(inner);
    outer
}

fn main() {}
