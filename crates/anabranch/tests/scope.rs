//! Scopes: what borrows host memory is waited for on every way out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{ErrorKind, Status};
use common::{hold, host};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn safety_4_a_scope_waits_when_its_closure_panics() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let memory = stream.upload(&vec![9u8; 1 << 20]).unwrap();
    let mut destination = vec![0u8; 1 << 20];
    let signal = hold(&context, &stream);
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.sync_scope(|scope| -> anabranch::Result<()> {
            scope.stream().launch_host_func(std::thread::yield_now)?;
            scope.copy_to_host(&mut destination, &memory)?;
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert!(stream.query().unwrap(), "the stream is still running after the scope");
    assert!(destination.iter().all(|&byte| byte == 9));
    opener.join().unwrap();
}

#[test]
fn a_scope_returns_the_error_of_its_closure_after_waiting() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut memory = stream.allocate_zeroed::<u8>(4).unwrap();
    let error = stream
        .sync_scope(|scope| {
            scope.copy_from_host(&mut memory, &[1, 2, 3, 4])?;
            scope.copy_from_host(memory.slice_mut(..2)?, &[1, 2, 3])
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(error.status(), Status::INVALID_VALUE);
    assert_eq!(stream.download(&memory).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_scope_is_refused_inside_of_a_host_function() {
    let context = host();
    let stream = std::sync::Arc::new(context.create_stream().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let inside = stream.clone();
    stream
        .launch_host_func(move || {
            sender.send(inside.sync_scope(|_| Ok(())).unwrap_err().status()).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), Status::NOT_PERMITTED);
    stream.synchronize().unwrap();
}
