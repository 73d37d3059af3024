//! The end of the process while a thread of the library is doing something.

use crate::common::host;
use anabranch::NodeWork;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const CHILD: &str = "ANABRANCH_TEST_EXITS";

/// Tells that its drop has begun, takes its time, and then writes a line.
struct Slow(Sender<()>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        println!("the drop has ended");
    }
}

/// What the other process does: it exits while the library's thread drops a closure.
#[test]
fn a_process_that_exits() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let context = host();
    let (began, begun) = channel();
    let slow = Slow(began);
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::host_func(move || _ = &slow)).unwrap();
    drop(graph);
    begun.recv().unwrap();
    std::process::exit(0);
}

#[test]
fn safety_58_a_process_exits_when_the_library_s_threads_do_nothing() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "exit::a_process_that_exits", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let written = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{:?}", child.status);
    assert!(written.contains("the drop has ended"), "{written}");
}
