//! Memory of other processes. What needs a GPU starts this program again as the other process; without a GPU, those tests
//! say so and end.

#![cfg(all(unix, not(loom)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, Context, ImportedMemoryPool, Instance, InterprocessMemoryHandle, InterprocessPoolMemoryHandle, MemoryPool,
    MemoryPoolOptions, Status, Stream, flush_deferred_drops,
};
use common::{hold, host};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _, stderr};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

/// What the other process is to do: a word, then the exported bytes.
const TASK: &str = "ANABRANCH_TEST_INTERPROCESS_TASK";
/// The test that is the other process.
const OTHER: &str = "the_other_process";
const COUNT: usize = 1000;

fn numbers() -> Vec<u32> {
    (0..COUNT as u32).collect()
}

fn to_text(bytes: &[u8; 64]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn from_text(text: &str) -> [u8; 64] {
    std::array::from_fn(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap())
}

fn gpu() -> Option<Context> {
    match Instance::new().unwrap().device("cuda:0") {
        Ok(device) => Some(device.context().unwrap()),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Starts this program again, which runs [`the_other_process`] alone.
fn start(task: &str, exported: &[u8; 64], input: Stdio) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([OTHER, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(TASK, format!("{task} {}", to_text(exported)));
    command.stdin(input).stderr(Stdio::piped()).spawn().unwrap()
}

/// What it wrote to its standard error. It has succeeded.
fn end(mut child: Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    said
}

/// The other process. Does nothing where it was not started as that.
#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (task, exported) = task.split_once(' ').unwrap();
    let (context, exported) = (gpu().unwrap(), from_text(exported));
    let stream = context.create_stream().unwrap();
    match task {
        "export" => {
            let buffer = context.allocate_zeroed::<u32>(&stream, COUNT).unwrap();
            stream.synchronize().unwrap();
            writeln!(stderr(), "\nexported {}", to_text(&buffer.export().unwrap().0)).unwrap();
        }
        "plain" => use_plain(&context, &stream, &InterprocessMemoryHandle(exported)),
        "pool" => use_pool(&context, &stream, &InterprocessPoolMemoryHandle(exported)),
        other => panic!("no such task: {other}"),
    }
}

fn use_plain(context: &Context, stream: &Stream, exported: &InterprocessMemoryHandle) {
    // SAFETY: the other process has so many numbers there, and waits for this one.
    let open = |length| unsafe { Buffer::<u32>::open(context, exported, length) };
    // 64 MiB are more than the driver maps for one small allocation.
    assert_eq!(open(1 << 24).unwrap_err().status(), Status::INVALID_VALUE);
    flush_deferred_drops();
    for round in 0..2 {
        let mut buffer = open(COUNT).unwrap();
        let again = open(COUNT).unwrap_err();
        assert_eq!(again.status(), Status::ALREADY_MAPPED, "{again}");
        assert_eq!(stream.download(&buffer).unwrap(), if round == 0 { numbers() } else { vec![7; COUNT] });
        // It is closed behind this work, which is pending when the buffer is dropped.
        let signal = hold(context, stream);
        stream.fill(&mut buffer, 7).unwrap();
        drop(buffer);
        assert_eq!(open(COUNT).unwrap_err().status(), Status::ALREADY_MAPPED);
        signal.set(1);
        flush_deferred_drops();
    }
}

fn use_pool(context: &Context, stream: &Stream, exported: &InterprocessPoolMemoryHandle) {
    let pool = ImportedMemoryPool::open(context, std::io::stdin()).unwrap();
    let nobody = InterprocessPoolMemoryHandle([0x5a; 64]);
    // SAFETY: it is refused.
    assert!(unsafe { pool.open_buffer::<u32>(&nobody, COUNT) }.is_err());
    // SAFETY: the other process has so many numbers there, and waits for this one.
    let mut buffer = unsafe { pool.open_buffer::<u32>(exported, COUNT) }.unwrap();
    drop(pool);
    assert_eq!(stream.download(&buffer).unwrap(), numbers());
    stream.fill(&mut buffer, 8).unwrap();
    drop(buffer);
    flush_deferred_drops();
}

#[test]
fn plain_memory_is_used_by_another_process() {
    let Some(context) = gpu() else { return };
    let stream = context.create_stream().unwrap();
    let mut buffer = context.allocate_zeroed::<u32>(&stream, COUNT).unwrap();
    stream.copy_from_host(&mut buffer, &numbers()).unwrap();
    stream.synchronize().unwrap();
    let exported = buffer.export().unwrap();
    end(start("plain", &exported.0, Stdio::null()));
    assert_eq!(stream.download(&buffer).unwrap(), [7; COUNT]);
}

#[test]
fn memory_of_a_pool_is_used_by_another_process() {
    let Some(context) = gpu() else { return };
    let stream = context.create_stream().unwrap();
    let options = MemoryPoolOptions { interprocess: true, ..MemoryPoolOptions::default() };
    let pool = context.device().create_memory_pool(&options).unwrap();
    let mut buffer = stream.allocate_zeroed_from::<u32>(&pool, COUNT).unwrap();
    stream.copy_from_host(&mut buffer, &numbers()).unwrap();
    stream.synchronize().unwrap();
    // In either order.
    let exported = buffer.export_from_pool().unwrap();
    let descriptor: OwnedFd = pool.export().unwrap();
    assert_eq!(buffer.export_from_pool().unwrap(), exported);
    end(start("pool", &exported.0, Stdio::from(descriptor)));
    assert_eq!(stream.download(&buffer).unwrap(), [8; COUNT]);
}

#[test]
fn memory_of_a_process_that_has_ended_is_refused() {
    let Some(context) = gpu() else { return };
    let said = end(start("export", &[0; 64], Stdio::null()));
    let exported = said.lines().find_map(|line| line.strip_prefix("exported ")).unwrap();
    let exported = InterprocessMemoryHandle(from_text(exported));
    // SAFETY: it is refused.
    let error = unsafe { Buffer::<u32>::open(&context, &exported, COUNT) }.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("still runs")), "{error}");
}

#[test]
fn a_file_descriptor_of_something_else_is_no_pool() {
    let Some(context) = gpu() else { return };
    let error = ImportedMemoryPool::open(&context, std::io::stdin()).unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("MemoryPool::export")), "{error}");
}

#[test]
fn handles_are_bytes() {
    let bytes: [u8; 64] = std::array::from_fn(|index| 3 * index as u8);
    assert_eq!(from_text(&to_text(&bytes)), bytes);
    assert_eq!(InterprocessMemoryHandle(bytes), InterprocessMemoryHandle(bytes));
    assert_ne!(InterprocessPoolMemoryHandle(bytes), InterprocessPoolMemoryHandle([0; 64]));
}

/// The error names what is missing, and what to do.
fn assert_refused<T>(result: anabranch::Result<T>, status: Status, hint: &str) {
    let error = result.err().unwrap();
    assert_eq!(error.status(), status, "{error}");
    let is_named = if hint.is_empty() { true } else { error.hint().is_some_and(|text| text.contains(hint)) };
    assert!(is_named, "{error}");
}

#[test]
fn what_cannot_be_exported_says_what_can() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u32, 2]).unwrap();
    assert_refused(buffer.export(), Status::INVALID_VALUE, "Context::allocate_zeroed");
    assert_refused(buffer.export_from_pool(), Status::INVALID_VALUE, "MemoryPoolOptions::interprocess");
    let empty = context.allocate_zeroed::<u32>(&stream, 0).unwrap();
    assert_refused(empty.export(), Status::INVALID_VALUE, "at least one element");
    let pools = [MemoryPoolOptions::default(), MemoryPoolOptions { max_bytes: 1 << 20, interprocess: false }]
        .map(|options| context.device().create_memory_pool(&options).unwrap());
    let own: Vec<MemoryPool> = pools.into_iter().chain(context.device().default_memory_pool()).collect();
    for pool in &own {
        assert_refused(pool.export(), Status::INVALID_VALUE, "MemoryPoolOptions::interprocess");
    }
}

#[test]
fn the_software_device_has_no_memory_of_other_processes() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let plain = context.allocate_zeroed::<u32>(&stream, 4).unwrap();
    assert_refused(plain.export(), Status::NOT_SUPPORTED, "");
    // SAFETY: it is refused.
    let opened = unsafe { Buffer::<u32>::open(&context, &InterprocessMemoryHandle([1; 64]), 4) };
    assert_refused(opened, Status::NOT_SUPPORTED, "");
    // SAFETY: it is refused.
    let opened = unsafe { Buffer::<u64>::open(&context, &InterprocessMemoryHandle([1; 64]), usize::MAX) };
    assert_refused(opened, Status::OUT_OF_MEMORY, "");
    let options = MemoryPoolOptions { interprocess: true, ..MemoryPoolOptions::default() };
    assert_refused(context.device().create_memory_pool(&options), Status::NOT_SUPPORTED, "");
    assert_refused(ImportedMemoryPool::open(&context, stderr()), Status::NOT_SUPPORTED, "");
    // The thread is in a host function, where nothing is opened.
    let (inside, sender) = (context.clone(), std::sync::mpsc::channel());
    let report = sender.0;
    stream
        .launch_host_func(move || {
            // SAFETY: it is refused.
            let opened = unsafe { Buffer::<u32>::open(&inside, &InterprocessMemoryHandle([1; 64]), 4) };
            let imported = ImportedMemoryPool::open(&inside, stderr());
            report.send([opened.err(), imported.err()].map(|error| error.unwrap().status())).unwrap();
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sender.1.recv().unwrap(), [Status::NOT_PERMITTED; 2]);
}
