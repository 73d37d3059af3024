//! A process in which no thread can be started for a while. It has its own test program, because the limit is the process's.
//! `docs/safety.md` lists the classes by the numbers in the tests' names.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::{ErrorKind, Instance, Status, flush_deferred_drops};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Only a hang takes so long.
const HANGS: Duration = Duration::from_secs(60);

/// What is left of the addresses of the process: enough for small objects, and too little for the stack of a thread.
const LEFT: u64 = 1 << 20;

/// More than a process has that no sanitizer looks at, whose own memory this would make short.
const LARGEST: u64 = 1 << 42;

/// While it exists, the process can start no thread.
struct WithoutThreads(Rlimit);

impl WithoutThreads {
    fn begin() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let addresses = size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        if addresses > LARGEST {
            return None;
        }
        let before = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: Some(addresses + LEFT), ..before }).unwrap();
        let shortage = Self(before);
        std::thread::Builder::new().spawn(|| ()).expect_err("a thread could be started all the same");
        Some(shortage)
    }
}

impl Drop for WithoutThreads {
    fn drop(&mut self) {
        setrlimit(Resource::As, self.0).unwrap();
    }
}

#[test]
fn safety_175_nothing_is_opened_that_would_be_without_the_threads_of_the_library() {
    let instance = Instance::builder().cuda(false).isolated().host_workers(1).build().unwrap();
    let device = instance.device("host").unwrap();
    let Some(shortage) = WithoutThreads::begin() else { return };
    let error = device.context().unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Absent, Status::OPERATING_SYSTEM));
    assert!(error.to_string().contains("thread cannot be started"), "{error}");
    assert!(error.hint().is_some());
    flush_deferred_drops();
    drop(shortage);
    let context = device.context().unwrap();

    // No worker has been started yet. One is as soon as that is possible again, without a further call.
    let stream = context.create_stream().unwrap();
    let (sender, receiver) = channel();
    let shortage = WithoutThreads::begin();
    stream.launch_host_func(move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(Duration::from_millis(20)).expect_err("there is a thread");
    drop(shortage);
    receiver.recv_timeout(HANGS).unwrap();
    context.synchronize().unwrap();
}
