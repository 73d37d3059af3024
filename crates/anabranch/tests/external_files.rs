//! External memory and semaphores of the software device: files that several processes map. The other process is this
//! program, started again.

#![cfg(all(unix, feature = "host", not(loom)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "common/socket.rs"]
mod socket;

use anabranch::hal::{self, Call, Driver, ExternalMemoryHandle, Failure, Forward, Layered, MemoryPoolHandle};
use anabranch::{
    AllocationKind, Buffer, CaptureMode, Context, DualModule, ExternalMemory, ExternalSemaphore, ExternalSemaphoreKind,
    GraphNodeKind, HostFunction, ImportedMemoryPool, Instance, KernelFault, LaunchConfig, NodeWork, Result, Status,
    flush_deferred_drops,
};
use common::{assert_ends, checked_host, hold, host};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

anabranch::kernels! {
    struct Kernels {
        fn increment(numbers: &mut [u32]);
    }
}

/// Set in the other process.
const OTHER: &str = "ANABRANCH_TEST_EXTERNAL_FILES";
const COUNT: usize = 3000;
const BYTES: usize = 4 * COUNT;
const ROUNDS: u64 = 20;

fn file(bytes: usize) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}

fn memory_of(context: &Context, file: &File) -> ExternalMemory {
    // SAFETY: nobody makes the file shorter.
    unsafe { context.import_external_memory(file.as_fd().try_clone_to_owned().unwrap(), BYTES) }.unwrap()
}

fn semaphore_of(context: &Context, file: &File) -> ExternalSemaphore {
    let descriptor = file.as_fd().try_clone_to_owned().unwrap();
    // SAFETY: nobody makes the file shorter, and the number only grows.
    unsafe { context.import_external_semaphore(descriptor, ExternalSemaphoreKind::Timeline) }.unwrap()
}

fn buffer(memory: &ExternalMemory) -> Buffer<u32> {
    // SAFETY: files begin with zeros, no other buffer of this process has any of it, and semaphores order its uses.
    unsafe { memory.buffer(0, COUNT) }.unwrap()
}

fn value_of(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_ne_bytes(bytes)
}

fn set(file: &File, value: u64) {
    file.write_all_at(&value.to_ne_bytes(), 0).unwrap();
}

fn numbers(file: &File) -> Vec<u32> {
    let mut bytes = vec![0; BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes.chunks(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

/// Adds 1 to each number, `ROUNDS` times, in turns: behind 2n + `first`, and then it makes that one more.
fn take_turns(context: &Context, first: u64, memory: &File, semaphore: &File) {
    let increment = Kernels::host_function("increment", |block, arguments| {
        let numbers = arguments.slice::<u32>(0);
        block.phase(|thread, _shared| {
            let index = thread.global_x();
            if index < numbers.len() {
                numbers.set(index, numbers.get(index) + 1);
            }
        });
    });
    let kernels = Kernels::load(&DualModule::new().host_function(increment).load(context).unwrap()).unwrap();
    let (mut numbers, stream) = (buffer(&memory_of(context, memory)), context.create_stream().unwrap());
    let (semaphore, config) = (semaphore_of(context, semaphore), LaunchConfig::for_elements(COUNT as u32));
    for round in 0..ROUNDS {
        stream.wait_external_semaphore(&semaphore, 2 * round + first).unwrap();
        kernels.increment(&mut numbers).launch_checked(&stream, &config).unwrap();
        stream.signal_external_semaphore(&semaphore, 2 * round + first + 1).unwrap();
    }
    drop((numbers, semaphore));
    stream.synchronize().unwrap();
}

/// The other process. Does nothing where it was not started as that.
#[test]
fn the_other_process() {
    if std::env::var_os(OTHER).is_none() {
        return;
    }
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (_, descriptors) = socket::receive(&socket);
    let [memory, semaphore] = <[OwnedFd; 2]>::try_from(descriptors).unwrap().map(File::from);
    take_turns(&host(), 1, &memory, &semaphore);
}

#[test]
fn two_processes_take_turns() {
    for context in [host(), checked_host()] {
        let (memory, semaphore) = (file(BYTES), file(8));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_other_process", "--exact", "--test-threads=1"]).env(OTHER, "1");
        let mut child = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn().unwrap();
        let copy = |file: &File| OwnedFd::from(file.try_clone().unwrap());
        socket::send(&ours, "files", &[copy(&memory), copy(&semaphore)]);
        take_turns(&context, 0, &memory, &semaphore);
        assert!(child.wait().unwrap().success());
        assert_eq!(value_of(&semaphore), 2 * ROUNDS);
        assert_eq!(numbers(&memory), [2 * ROUNDS as u32; COUNT]);
    }
}

/// How many file descriptors of this process are of the file.
#[cfg(target_os = "linux")]
fn descriptors_of(file: &File) -> usize {
    let (wanted, all) = (file.metadata().unwrap(), std::fs::read_dir("/proc/self/fd").unwrap());
    let is_of_file = |path: std::path::PathBuf| {
        path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    all.filter(|entry| entry.as_ref().is_ok_and(|entry| is_of_file(entry.path()))).count()
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_imported_is_given_up_behind_its_last_use() {
    let context = checked_host();
    let (memory_file, semaphore_file, stream) = (file(BYTES), file(8), context.create_stream().unwrap());
    let external = || {
        let report = context.device().memory_report().unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        report.allocations.iter().filter(|live| live.kind == AllocationKind::External).count()
    };
    let (memory, semaphore) = (memory_of(&context, &memory_file), semaphore_of(&context, &semaphore_file));
    assert_eq!((memory.byte_len(), semaphore.kind()), (BYTES, ExternalSemaphoreKind::Timeline));
    assert_eq!((external(), descriptors_of(&memory_file)), (1, 2));
    let signal = hold(&context, &stream);
    let mut numbers_there = buffer(&memory);
    drop(memory);
    stream.fill(&mut numbers_there, 4).unwrap();
    stream.signal_external_semaphore(&semaphore, 1).unwrap();
    drop((numbers_there, semaphore));
    assert_eq!((external(), descriptors_of(&memory_file)), (1, 2));
    signal.set(1);
    stream.synchronize().unwrap();
    flush_deferred_drops();
    assert_eq!((external(), descriptors_of(&memory_file), descriptors_of(&semaphore_file)), (0, 1, 1));
    assert_eq!((value_of(&semaphore_file), numbers(&memory_file)), (1, vec![4; COUNT]));
}

/// The error names what is wrong, and what to do.
fn assert_refused<T>(result: Result<T>, status: Status, words: &[&str]) {
    let error = result.err().unwrap();
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    assert!(error.hint().is_some() && words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn what_cannot_be_imported_says_why_and_is_closed() {
    let context = host();
    let timeline = ExternalSemaphoreKind::Timeline;
    let memory = |descriptor: OwnedFd, bytes| {
        // SAFETY: it is refused.
        unsafe { context.import_external_memory(descriptor, bytes) }
    };
    let semaphore = |descriptor: OwnedFd, kind| {
        // SAFETY: it is refused.
        unsafe { context.import_external_semaphore(descriptor, kind) }
    };
    // The other end of a socket sees that this one was closed.
    let closed = |refused: &dyn Fn(OwnedFd)| {
        let (one, mut other) = UnixStream::pair().unwrap();
        refused(one.into());
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
    };
    let importing = "importing external memory";
    closed(&|one| assert_refused(memory(one, 8), Status::INVALID_VALUE, &[importing, "not that of a file"]));
    closed(&|one| assert_refused(memory(one, 0), Status::INVALID_VALUE, &[importing, "no bytes"]));
    let importing = "importing an external semaphore";
    closed(&|one| assert_refused(semaphore(one, timeline), Status::INVALID_VALUE, &[importing, "not that of a file"]));
    let binary = ExternalSemaphoreKind::Binary;
    closed(&|one| assert_refused(semaphore(one, binary), Status::NOT_SUPPORTED, &[importing, "timeline"]));
    assert_refused(memory(file(99).into(), 100), Status::INVALID_VALUE, &["99 bytes, and not 100"]);
    assert_refused(semaphore(file(7).into(), timeline), Status::INVALID_VALUE, &["7 bytes, and not 8"]);
    let name = tempfile::NamedTempFile::new().unwrap();
    name.as_file().set_len(8).unwrap();
    let read_only = File::open(name.path()).unwrap();
    assert_refused(memory(read_only.into(), 8), Status::INVALID_VALUE, &["cannot be mapped"]);
}

#[test]
fn parts_that_are_not_there_are_refused() {
    let context = host();
    let memory = memory_of(&context, &file(BYTES));
    // SAFETY: they are refused.
    let (past, misaligned, huge, all) = unsafe {
        (
            memory.buffer::<u32>(4, COUNT),
            memory.buffer::<u64>(4, 1),
            memory.buffer::<u64>(0, usize::MAX),
            memory.buffer::<u8>(usize::MAX, 2),
        )
    };
    assert_refused(past, Status::INVALID_VALUE, &["do not fit", "fewer elements"]);
    assert_refused(misaligned, Status::INVALID_VALUE, &["not aligned", "multiple"]);
    assert_eq!(huge.unwrap_err().status(), Status::OUT_OF_MEMORY);
    assert_refused(all, Status::INVALID_VALUE, &["do not fit"]);
    // SAFETY: there are no elements.
    assert!(unsafe { memory.buffer::<u32>(BYTES, 0) }.unwrap().is_empty());
}

#[test]
fn a_wait_blocks_no_worker() {
    assert_ends(|| {
        // One worker, and none: the thread that synchronizes runs the work.
        let instances = [Instance::builder().host_workers(1), Instance::builder().host_seed(5)];
        for instance in instances {
            let instance = instance.cuda(false).isolated().build().unwrap();
            let context = instance.device("host").unwrap().context().unwrap();
            let (waiting, free) = (context.create_stream().unwrap(), context.create_stream().unwrap());
            let number = file(8);
            let semaphore = semaphore_of(&context, &number);
            waiting.wait_external_semaphore(&semaphore, 1).unwrap();
            waiting.signal_external_semaphore(&semaphore, 2).unwrap();
            let graph = waiting.capture(CaptureMode::Relaxed, |scope| {
                scope.wait_external_semaphore(&semaphore, 3)?;
                scope.signal_external_semaphore(&semaphore, 4)
            });
            graph.unwrap().instantiate().unwrap().launch(&waiting).unwrap();
            assert_eq!(free.download(&free.upload(&[1, 2, 3]).unwrap()).unwrap(), [1, 2, 3]);
            assert_eq!(value_of(&number), 0);
            // By another stream, and by another process's way, while this thread waits.
            free.signal_external_semaphore(&semaphore, 1).unwrap();
            free.synchronize().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while value_of(&number) != 2 {
                        std::thread::yield_now();
                    }
                    set(&number, 3);
                });
                waiting.synchronize().unwrap();
            });
            assert_eq!(value_of(&number), 4);
        }
    });
}

#[test]
fn a_lost_context_waits_for_nobody() {
    assert_ends(|| {
        let context = host();
        let number = file(8);
        let (waiting, faulty) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let semaphore = semaphore_of(&context, &number);
        // Before there is work: loading waits for it.
        let trap = HostFunction::new("trap", &[], |_, _| KernelFault::trap("on purpose").raise());
        let module = DualModule::new().host_function(trap).load(&context).unwrap();
        let (kernel, other) = (module.kernel("trap").unwrap(), context.create_stream().unwrap());
        let graph =
            waiting.capture(CaptureMode::Relaxed, |scope| scope.wait_external_semaphore(&semaphore, 1)).unwrap();
        let executable = graph.instantiate().unwrap();
        executable.launch(&faulty).unwrap();
        waiting.wait_external_semaphore(&semaphore, 1).unwrap();
        waiting.signal_external_semaphore(&semaphore, 5).unwrap();
        // SAFETY: it has no arguments.
        unsafe { other.launch(&kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
        assert!(other.synchronize().is_err() && waiting.synchronize().is_err() && faulty.synchronize().is_err());
        drop((semaphore, graph, executable));
        flush_deferred_drops();
        assert_eq!(value_of(&number), 0);
    });
}

#[test]
fn a_node_keeps_how_many_semaphores_it_has() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let files = [file(8), file(8)];
    let [one, other] = files.each_ref().map(|file| semaphore_of(&context, file));
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.batch_signal_external_semaphores(&[(&one, 1), (&other, 2)])?;
        scope.batch_wait_external_semaphores(&[(&one, 1), (&other, 2)])
    });
    let graph = graph.unwrap();
    let nodes = graph.nodes().unwrap();
    let kinds: Vec<_> = nodes.iter().map(|&node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds, [GraphNodeKind::EXTERNAL_SIGNAL, GraphNodeKind::EXTERNAL_WAIT]);
    let description = graph.to_json().unwrap();
    assert!(description.contains("external signal") && description.contains("semaphores"), "{description}");
    let executable = graph.instantiate().unwrap();
    for node in nodes {
        let work = match graph.node_kind(node).unwrap() {
            GraphNodeKind::EXTERNAL_SIGNAL => NodeWork::signal_external_semaphore(&one, 9),
            _ => NodeWork::wait_external_semaphore(&one, 9),
        };
        assert_eq!(executable.set_node(node, work).unwrap_err().status(), Status::INVALID_VALUE);
    }
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(files.each_ref().map(value_of), [1, 2]);
}

/// Closes what it refuses to import, as drivers of GPUs do. The number is another file's at once.
struct Closes {
    inner: Arc<dyn Driver>,
    opened: Arc<Mutex<Vec<File>>>,
}

impl fmt::Debug for Closes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Closes")
    }
}

impl Closes {
    fn refuse<R>(&self, descriptor: i32) -> hal::Result<R> {
        // SAFETY: the driver gets a descriptor that nobody else closes if it does.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let other = tempfile::tempfile().unwrap();
        assert_eq!(other.as_raw_fd(), descriptor, "the lowest number that is free");
        self.opened.lock().unwrap().push(other);
        Err(Failure::from(Status::INVALID_VALUE))
    }
}

// SAFETY: all calls are forwarded as they are, but for imports, which are refused.
unsafe impl Forward for Closes {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn external_memory_import(
        &self,
        _: &Call<'_>,
        descriptor: i32,
        _: usize,
        _: bool,
    ) -> hal::Result<ExternalMemoryHandle> {
        self.refuse(descriptor)
    }

    unsafe fn memory_pool_import(&self, descriptor: i32) -> hal::Result<MemoryPoolHandle> {
        self.refuse(descriptor)
    }
}

/// Whether this is a process of its own, where no other test opens files meanwhile. Otherwise the test runs in one.
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "ANABRANCH_TEST_DESCRIPTORS";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1").status();
    assert!(status.unwrap().success());
    false
}

/// A context whose driver closes what it refuses, and the files that were opened by those numbers since.
fn closing() -> (Context, Arc<Mutex<Vec<File>>>) {
    let opened = Arc::<Mutex<Vec<File>>>::default();
    let others = opened.clone();
    let wrap = move |inner| Arc::new(Layered(Closes { inner, opened: others.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), opened)
}

#[test]
fn safety_124_a_descriptor_that_is_lent_stays_open_where_a_driver_closes_what_it_refuses() {
    if !is_alone("a_descriptor_that_is_lent_stays_open_where_a_driver_closes_what_it_refuses") {
        return;
    }
    let (context, opened) = closing();
    let lent = file(8);
    for _ in 0..10 {
        let refused = ImportedMemoryPool::open(&context, &lent);
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
    }
    assert_eq!(lent.metadata().unwrap().len(), 8);
    for file in opened.lock().unwrap().iter() {
        file.set_len(1).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn safety_124_a_descriptor_that_is_lent_has_no_copy_afterwards() {
    let (context, lent) = (host(), file(8));
    for _ in 0..10 {
        let refused = ImportedMemoryPool::open(&context, &lent);
        assert_eq!(refused.unwrap_err().status(), Status::NOT_SUPPORTED);
    }
    assert_eq!(descriptors_of(&lent), 1);
}

#[test]
fn safety_110_a_descriptor_that_a_driver_has_closed_is_not_closed_again() {
    if !is_alone("safety_110_a_descriptor_that_a_driver_has_closed_is_not_closed_again") {
        return;
    }
    let (context, opened) = closing();
    for _ in 0..10 {
        // SAFETY: it is refused.
        let refused = unsafe { context.import_external_memory(file(8).into(), 8) };
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
    }
    for file in opened.lock().unwrap().iter() {
        file.set_len(1).unwrap();
    }
}
