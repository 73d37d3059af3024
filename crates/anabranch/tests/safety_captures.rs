//! What safe code cannot do with captures, on the host device. The numbers are those of docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, Status};
use common::checked_host;

#[test]
fn safety_32_nobody_but_the_closure_ends_its_capture() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let mut graph = context.create_graph().unwrap();
    stream
        .capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| {
            let refused = scope.end_capture().map(drop).unwrap_err();
            assert_eq!(refused.status(), Status::ILLEGAL_STATE);
            assert!(refused.to_string().contains("closure"), "{refused}");
            let elsewhere =
                std::thread::scope(|threads| threads.spawn(|| stream.end_capture().map(drop)).join().unwrap());
            assert_eq!(elsewhere.unwrap_err().status(), Status::ILLEGAL_STATE);
            scope.fill(&mut buffer, 3u32)
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3; 4]);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}
