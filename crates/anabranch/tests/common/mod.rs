//! What the tests share.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::{Context, Graph, Instance, Node, Signal, Stream, WaitCondition};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The host device, with workers of its own, so that tests do not wait for each other.
#[allow(dead_code, reason = "not every test file needs threads")]
pub(crate) fn host() -> Context {
    let instance = Instance::builder().cuda(false).isolated().build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// As [`host`], and memory is checked.
#[allow(dead_code, reason = "not every test file is about memory")]
pub(crate) fn checked_host() -> Context {
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// Makes later work of `stream` wait until the signal is set to 1.
#[allow(dead_code, reason = "not every test file holds a stream up")]
pub(crate) fn hold(context: &Context, stream: &Stream) -> Signal {
    let signal = context.create_signal().unwrap();
    stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
    signal
}

/// Waits for what other threads bring about.
#[allow(dead_code, reason = "not every test file waits for other threads")]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not come about");
}

/// Fails where `body` does not end.
#[allow(dead_code, reason = "not every test file looks for hangs")]
pub(crate) fn assert_ends(body: impl FnOnce() + Send + 'static) {
    let (over, wait) = channel();
    let thread = std::thread::spawn(move || {
        body();
        over.send(()).unwrap();
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().unwrap(),
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}

/// Whether a node depends on another, also by way of others.
#[allow(dead_code, reason = "not every test file captures")]
pub(crate) fn is_behind(graph: &Graph, later: Node, earlier: Node) -> bool {
    let edges = graph.edges().unwrap();
    let (mut reached, mut next) = (vec![earlier], 0);
    while let Some(&node) = reached.get(next) {
        next += 1;
        for edge in edges.iter().filter(|edge| edge.from == node) {
            if !reached.contains(&edge.to) {
                reached.push(edge.to);
            }
        }
    }
    reached.contains(&later)
}

/// Whether all nodes are in one order.
#[allow(dead_code, reason = "not every test file captures")]
pub(crate) fn is_a_chain(graph: &Graph) -> bool {
    let nodes = graph.nodes().unwrap();
    let are_ordered = |one, other| is_behind(graph, one, other) || is_behind(graph, other, one);
    nodes.iter().all(|&one| nodes.iter().all(|&other| are_ordered(one, other)))
}
