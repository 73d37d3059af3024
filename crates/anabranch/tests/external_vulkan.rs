//! Memory and semaphores of Vulkan in another process, on a GPU. The other process is this program, started again. Without a
//! GPU, or without Vulkan for it, the tests say so and end.

#![cfg(all(feature = "cuda", target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "external_vulkan/other_side.rs"]
mod other_side;
#[path = "common/socket.rs"]
mod socket;

use anabranch::{
    Buffer, CaptureMode, Context, DualModule, ExternalMemory, ExternalSemaphore, ExternalSemaphoreKind, GraphNodeKind,
    Instance, LaunchConfig, NodeParameters, NodeWork, Status, Stream, flush_deferred_drops,
};
use common::is_a_chain;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

anabranch::kernels! {
    /// The kernels of `twice.cu`.
    struct Kernels {
        fn twice(data: &mut [f32], count: u32);
    }
}

/// What the other process is to use: the bytes of the GPU's identifier.
const DEVICE: &str = "ANABRANCH_TEST_VULKAN_DEVICE";
const COUNT: usize = 1 << 16;
const FIRST: f32 = 1.5;

fn gpu() -> Option<Context> {
    match Instance::new().unwrap().device("cuda:0") {
        Ok(device) => Some(device.context().unwrap()),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// The other process. Does nothing where it was not started as that.
#[test]
fn the_other_process() {
    let Ok(device) = std::env::var(DEVICE) else { return };
    let byte = |index: usize| u8::from_str_radix(&device[2 * index..2 * index + 2], 16).unwrap();
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    other_side::run(&socket, std::array::from_fn(byte));
}

/// The other process, which is ended if it is still there.
struct Other {
    child: Child,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Other {
    fn start(context: &Context) -> (Self, UnixStream) {
        let uuid = context.device().properties().uuid;
        let device: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"]).env(DEVICE, device);
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
        (Self { child }, ours)
    }

    /// Waits for the stream, and fails where the other process does.
    fn wait_for(&mut self, stream: &Stream) {
        let begin = Instant::now();
        while !stream.query().unwrap() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none_or(|status| status.success()), "the other process has failed: {ended:?}");
            assert!(begin.elapsed() < Duration::from_secs(60), "the other side does not signal");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// What the other process has exported.
struct Exported {
    memory: ExternalMemory,
    timeline: ExternalSemaphore,
    /// Signalled by the other side, and by this one.
    binaries: [ExternalSemaphore; 2],
}

fn import(context: &Context, socket: &UnixStream) -> Option<Exported> {
    let (said, descriptors) = socket::receive(socket);
    let mut words = said.split(' ');
    let (Some("memory"), Some(bytes), Some(kind)) = (words.next(), words.next(), words.next()) else {
        eprintln!("skipped: {said}");
        return None;
    };
    let bytes: usize = bytes.parse().unwrap();
    let [memory, timeline, one, other] = <[OwnedFd; 4]>::try_from(descriptors).unwrap();
    let semaphore = |descriptor, kind| {
        // SAFETY: the other side has exported a semaphore of that kind, and both sides use it by the rules.
        unsafe { context.import_external_semaphore(descriptor, kind) }.unwrap()
    };
    // SAFETY: the other side has allocated so many bytes, in this way, and waits for this process.
    let memory = unsafe {
        match kind {
            "dedicated" => context.import_dedicated_external_memory(memory, bytes),
            _ => context.import_external_memory(memory, bytes),
        }
    };
    let binary = ExternalSemaphoreKind::Binary;
    Some(Exported {
        memory: memory.unwrap(),
        timeline: semaphore(timeline, ExternalSemaphoreKind::Timeline),
        binaries: [semaphore(one, binary), semaphore(other, binary)],
    })
}

/// The other side waits for 2 and 4 before it signals 3 and 5, and checks the memory behind 2 and 6.
#[test]
fn vulkan_in_another_process_is_the_other_side() {
    let Some(context) = gpu() else { return };
    let (mut other, socket) = Other::start(&context);
    let Some(exported) = import(&context, &socket) else { return other.end() };
    let Exported { memory, timeline, binaries: [theirs, ours] } = exported;
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().ptx(include_str!("data/twice.ptx")).load(&context).unwrap();
    let (kernels, config) = (Kernels::load(&module).unwrap(), LaunchConfig::for_elements(COUNT as u32));
    // SAFETY: no other buffer has any of it, and the other side fills it and uses it behind the semaphores.
    let mut buffer: Buffer<f32> = unsafe { memory.buffer(0, COUNT) }.unwrap();
    drop(memory);
    let mut seen = stream.allocate_zeroed::<f32>(COUNT).unwrap();

    // In stream order: waits for two at once, and signals two at once.
    stream.batch_wait_external_semaphores(&[(&timeline, 1), (&theirs, 0)]).unwrap();
    stream.copy(&mut seen, &buffer).unwrap();
    // SAFETY: the kernel uses as many elements as there are.
    unsafe { kernels.twice(&mut buffer, COUNT as u32).launch(&stream, &config) }.unwrap();
    stream.batch_signal_external_semaphores(&[(&timeline, 2), (&ours, 0)]).unwrap();
    drop((theirs, ours));
    other.wait_for(&stream);
    assert!(stream.download(&seen).unwrap().iter().all(|&value| value == FIRST));

    by_hand(&context, &stream, &timeline);
    other.wait_for(&stream);

    // Captured, and everything is dropped before the launch: the graph retains what it uses.
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.wait_external_semaphore(&timeline, 5)?;
        // SAFETY: the kernel uses as many elements as there are.
        unsafe { kernels.twice(&mut buffer, COUNT as u32).launch(scope, &config) }?;
        scope.signal_external_semaphore(&timeline, 6)
    });
    let graph = graph.unwrap();
    drop((buffer, timeline));
    let kinds: Vec<_> = graph.nodes().unwrap().into_iter().map(|node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds, [GraphNodeKind::EXTERNAL_WAIT, GraphNodeKind::KERNEL, GraphNodeKind::EXTERNAL_SIGNAL]);
    assert!(is_a_chain(&graph));
    let executable = graph.instantiate().unwrap();
    drop(graph);
    flush_deferred_drops();
    executable.launch(&stream).unwrap();
    drop(executable);
    other.wait_for(&stream);
    other.end();
    flush_deferred_drops();
}

/// A graph that was made by hand, and whose nodes were changed: waits for 3 and signals 4.
fn by_hand(context: &Context, stream: &Stream, timeline: &ExternalSemaphore) {
    let mut graph = context.create_graph().unwrap();
    let wait = graph.add((), NodeWork::wait_external_semaphore(timeline, 1000)).unwrap();
    let signal = graph.add(wait, NodeWork::signal_external_semaphore(timeline, 1001)).unwrap();
    assert_eq!(graph.node_kind(signal).unwrap(), GraphNodeKind::EXTERNAL_SIGNAL);
    graph.set_node(wait, NodeWork::wait_external_semaphore(timeline, 3)).unwrap();
    match graph.node_parameters(wait).unwrap() {
        NodeParameters::ExternalWait(operations) => assert!(matches!(&operations[..], [one] if one.value == 3)),
        other => panic!("{other:?}"),
    }
    let executable = graph.instantiate().unwrap();
    executable.set_node(signal, NodeWork::signal_external_semaphore(timeline, 4)).unwrap();
    executable.launch(stream).unwrap();
}

/// How many file descriptors this process has. Other tests of this file must not run meanwhile.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn what_is_no_memory_and_no_semaphore_is_refused_and_closed() {
    let Some(context) = gpu() else { return };
    let other = || OwnedFd::from(File::open("/dev/null").unwrap());
    for round in 0..2 {
        let before = descriptors();
        // SAFETY: the descriptors are not those of memory or semaphores.
        let errors = unsafe {
            [
                context.import_external_memory(other(), 4096).err(),
                context.import_dedicated_external_memory(other(), 4096).err(),
                context.import_external_semaphore(other(), ExternalSemaphoreKind::Timeline).err(),
                context.import_external_semaphore(other(), ExternalSemaphoreKind::Binary).err(),
            ]
        };
        for error in errors {
            let error = error.unwrap();
            eprintln!("refused: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("opaque file descriptor")), "{error}");
        }
        // What the driver opens at first stays open.
        assert!(round == 0 || descriptors() == before);
    }
    // SAFETY: there are no bytes.
    let error = unsafe { context.import_external_memory(other(), 0) }.unwrap_err();
    assert_eq!(error.status(), Status::INVALID_VALUE);
}
