//! Memory and semaphores of other APIs and processes. Files stand for them where the device takes files.

use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{
    Buffer, Capabilities, CaptureMode, ContextFlags, ExternalMemory, ExternalSemaphore, ExternalSemaphoreKind,
    GraphNodeKind, NodeParameters, NodeWork, Status, flush_deferred_drops,
};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

const MEMORY: &[Need] = &[Need::Capability(Capabilities::EXTERNAL_MEMORY)];
const SEMAPHORES: &[Need] = &[Need::Capability(Capabilities::EXTERNAL_SEMAPHORES)];
const WITHOUT: &[Need] = &[Need::Without(Capabilities::EXTERNAL_MEMORY)];
const FILES: &[Need] = &[Need::ExternalFiles];

pub(super) const CASES: &[Case] = &[
    Case::new("external.memory_is_shared", "M10", memory_is_shared).needs(FILES),
    Case::new("external.memory_outlives_its_owner", "M10", memory_outlives_its_owner).needs(FILES),
    Case::new("external.parts_of_memory", "M10", parts_of_memory).needs(FILES),
    Case::new("external.no_memory", "M10", no_memory).needs(MEMORY),
    Case::new("external.without", "M10", without).needs(WITHOUT),
    Case::new("external.wait_and_signal", "S11", wait_and_signal).needs(FILES),
    Case::new("external.several_by_one_call", "S11", several_by_one_call).needs(FILES),
    Case::new("external.signals_only_raise", "S11", signals_only_raise).needs(FILES),
    Case::new("external.captured", "S11", captured).needs(FILES),
    Case::new("external.nodes_by_hand", "S11", nodes_by_hand).needs(FILES),
    Case::new("external.semaphore_of_another_context", "S11", semaphore_of_another_context).needs(FILES),
    Case::new("external.no_semaphore", "S11", no_semaphore).needs(SEMAPHORES),
    Case::new("external.inside_a_host_function", "S11", inside_a_host_function),
];

/// What goes wrong with files.
fn failed(error: std::io::Error) -> Failed {
    Failed(format!("a file: {error}"))
}

/// A file without a name, of zeros.
fn shared(bytes: u64) -> Result<File, Failed> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("anabranch-external-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    file.set_len(bytes).map_err(failed)?;
    Ok(file)
}

fn copy(file: &File) -> Result<OwnedFd, Failed> {
    file.try_clone().map(OwnedFd::from).map_err(failed)
}

/// What is neither memory nor a semaphore.
fn nothing() -> Result<OwnedFd, Failed> {
    File::open("/dev/null").map(OwnedFd::from).map_err(failed)
}

fn memory_of(environment: &Environment, file: &File, bytes: usize) -> Result<ExternalMemory, Failed> {
    // SAFETY: the file has so many bytes, or it is refused, and nobody makes it shorter.
    Ok(unsafe { environment.context().import_external_memory(copy(file)?, bytes) }?)
}

/// A semaphore, and the file that is its number.
fn semaphore(environment: &Environment) -> Result<(File, ExternalSemaphore), Failed> {
    let file = shared(8)?;
    // SAFETY: the number only grows, and nobody makes the file shorter.
    let semaphore =
        unsafe { environment.context().import_external_semaphore(copy(&file)?, ExternalSemaphoreKind::Timeline) };
    Ok((file, semaphore?))
}

fn set(file: &File, value: u64) -> Verdict {
    file.write_all_at(&value.to_ne_bytes(), 0).map_err(failed)
}

fn value_of(file: &File) -> Result<u64, Failed> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn memory_is_shared(environment: &Environment) -> Verdict {
    let (file, stream) = (shared(8192)?, environment.stream()?);
    let memory = memory_of(environment, &file, 8192)?;
    equal("the size", memory.byte_len(), 8192)?;
    // SAFETY: files begin with zeros, no other buffer has any of it, and the file is used when the work is complete.
    let mut buffer: Buffer<u32> = unsafe { memory.buffer(0, 2048) }?;
    equal("at first", stream.download(&buffer)?, vec![0; 2048])?;
    stream.fill(&mut buffer, 0x0102_0304)?;
    stream.synchronize()?;
    let mut found = vec![0; 8192];
    file.read_exact_at(&mut found, 0).map_err(failed)?;
    equal("in the file", found, 0x0102_0304_u32.to_ne_bytes().repeat(2048))?;
    file.write_all_at(&7u32.to_ne_bytes(), 4096).map_err(failed)?;
    equal("in the buffer", stream.download(&buffer)?[1023..1026].to_vec(), vec![0x0102_0304, 7, 0x0102_0304])
}

fn memory_outlives_its_owner(environment: &Environment) -> Verdict {
    let (file, stream) = (shared(4096)?, environment.stream()?);
    let memory = memory_of(environment, &file, 4096)?;
    // SAFETY: no other buffer has any of it, and the file is used when the work is complete.
    let mut buffer: Buffer<u8> = unsafe { memory.buffer(0, 4096) }?;
    drop(memory);
    let graph = stream.capture(CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 5))?;
    drop(buffer);
    flush_deferred_drops();
    let executable = graph.instantiate()?;
    drop(graph);
    executable.launch(&stream)?;
    drop(executable);
    stream.synchronize()?;
    flush_deferred_drops();
    let mut found = vec![0; 4096];
    file.read_exact_at(&mut found, 0).map_err(failed)?;
    equal("in the file", found, vec![5; 4096])
}

fn parts_of_memory(environment: &Environment) -> Verdict {
    let (file, stream) = (shared(4096)?, environment.stream()?);
    let memory = memory_of(environment, &file, 4096)?;
    // SAFETY: the parts are apart, and the others are refused.
    let (one, other, past, beyond, aligned) = unsafe {
        (
            memory.buffer::<u32>(0, 512),
            memory.buffer::<u16>(2048, 1024),
            memory.buffer::<u8>(4095, 2),
            memory.buffer::<u8>(usize::MAX, 1),
            memory.buffer::<u32>(2, 1),
        )
    };
    refused("past the end", past, Status::INVALID_VALUE)?;
    refused("beyond all", beyond, Status::INVALID_VALUE)?;
    refused("misaligned", aligned, Status::INVALID_VALUE)?;
    let (mut one, mut other) = (one?, other?);
    stream.fill(&mut one, 1)?;
    stream.fill(&mut other, 2)?;
    stream.synchronize()?;
    let mut found = [0; 4];
    file.read_exact_at(&mut found, 2046).map_err(failed)?;
    equal("around the border", found[2..].to_vec(), 2u16.to_ne_bytes().to_vec())
}

fn no_memory(environment: &Environment) -> Verdict {
    let context = environment.context();
    // SAFETY: it is that of no memory, and is refused.
    let [plain, dedicated, empty] = unsafe {
        [
            context.import_external_memory(nothing()?, 4096),
            context.import_dedicated_external_memory(nothing()?, 4096),
            context.import_external_memory(nothing()?, 0),
        ]
    };
    holds("no memory", plain.is_err_and(|error| error.hint().is_some()))?;
    holds("no dedicated memory", dedicated.is_err_and(|error| error.hint().is_some()))?;
    refused("no bytes", empty, Status::INVALID_VALUE)?;
    // A file is no memory of a GPU, and a short file is none of the software device.
    let file = shared(100)?;
    holds("a short file", memory_of(environment, &file, 101).is_err())
}

fn without(environment: &Environment) -> Verdict {
    let context = environment.context();
    // SAFETY: it is refused.
    refused("memory", unsafe { context.import_external_memory(nothing()?, 1) }, Status::NOT_SUPPORTED)
}

fn wait_and_signal(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (file, semaphore) = semaphore(environment)?;
    let mut buffer = stream.allocate_zeroed::<u32>(1)?;
    stream.synchronize()?;
    stream.wait_external_semaphore(&semaphore, 2)?;
    stream.fill(&mut buffer, 6)?;
    stream.signal_external_semaphore(&semaphore, 9)?;
    holds("waiting", !stream.query()?)?;
    set(&file, 1)?;
    holds("still waiting", !stream.query()?)?;
    // A greater value is enough.
    set(&file, 5)?;
    equal("behind the wait", stream.download(&buffer)?, vec![6])?;
    equal("signalled", value_of(&file)?, 9)?;
    stream.wait_external_semaphore(&semaphore, 9)?;
    stream.synchronize()?;
    // It is given up behind what is queued.
    stream.wait_external_semaphore(&semaphore, 10)?;
    drop(semaphore);
    set(&file, 10)?;
    stream.synchronize()?;
    flush_deferred_drops();
    Ok(())
}

fn several_by_one_call(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let ((one_file, one), (other_file, other)) = (semaphore(environment)?, semaphore(environment)?);
    stream.batch_wait_external_semaphores(&[])?;
    stream.batch_signal_external_semaphores(&[])?;
    stream.batch_wait_external_semaphores(&[(&one, 1), (&other, 2)])?;
    stream.batch_signal_external_semaphores(&[(&one, 10), (&other, 20)])?;
    set(&other_file, 2)?;
    holds("one of two", !stream.query()?)?;
    set(&one_file, 1)?;
    stream.synchronize()?;
    equal("both", (value_of(&one_file)?, value_of(&other_file)?), (10, 20))
}

fn signals_only_raise(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (file, semaphore) = semaphore(environment)?;
    // Greater than what is positive with a sign.
    for value in [u64::MAX - 1, 3] {
        stream.signal_external_semaphore(&semaphore, value)?;
        stream.synchronize()?;
        equal("the number", value_of(&file)?, u64::MAX - 1)?;
    }
    stream.wait_external_semaphore(&semaphore, u64::MAX - 1)?;
    stream.synchronize()?;
    Ok(())
}

fn captured(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (file, semaphore) = semaphore(environment)?;
    let mut buffer = stream.allocate_zeroed::<u32>(1)?;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.wait_external_semaphore(&semaphore, 1)?;
        scope.fill(&mut buffer, 3)?;
        scope.signal_external_semaphore(&semaphore, 2)
    })?;
    drop(semaphore);
    let kinds = graph.nodes()?.into_iter().map(|node| graph.node_kind(node)).collect::<Result<Vec<_>, _>>()?;
    equal("the nodes", kinds, vec![GraphNodeKind::EXTERNAL_WAIT, GraphNodeKind::FILL, GraphNodeKind::EXTERNAL_SIGNAL])?;
    equal("the edges", graph.edges()?.len(), 2)?;
    equal("before a launch", value_of(&file)?, 0)?;
    let executable = graph.instantiate()?;
    drop(graph);
    flush_deferred_drops();
    executable.launch(&stream)?;
    drop(executable);
    holds("waiting", !stream.query()?)?;
    set(&file, 1)?;
    stream.synchronize()?;
    equal("signalled", value_of(&file)?, 2)?;
    flush_deferred_drops();
    equal("filled", stream.download(&buffer)?, vec![3])
}

fn nodes_by_hand(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let (file, semaphore) = semaphore(environment)?;
    let mut graph = context.create_graph()?;
    let wait = graph.add((), NodeWork::wait_external_semaphore(&semaphore, 100))?;
    let signal = graph.add(wait, NodeWork::signal_external_semaphore(&semaphore, 200))?;
    graph.set_node(wait, NodeWork::wait_external_semaphore(&semaphore, 1))?;
    let other_kind = graph.set_node(wait, NodeWork::signal_external_semaphore(&semaphore, 1));
    refused("a node of another kind", other_kind, Status::INVALID_VALUE)?;
    match graph.node_parameters(wait)? {
        NodeParameters::ExternalWait(operations) => {
            equal("the values", operations.iter().map(|operation| operation.value).collect::<Vec<_>>(), vec![1])?;
        }
        other => return Err(Failed(format!("the parameters: {other:?}"))),
    }
    let executable = graph.instantiate()?;
    executable.set_node(signal, NodeWork::signal_external_semaphore(&semaphore, 2))?;
    for value in [1, 2] {
        executable.launch(&stream)?;
        set(&file, value)?;
        stream.synchronize()?;
        equal("signalled", value_of(&file)?, 2)?;
    }
    Ok(())
}

fn semaphore_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, (_file, semaphore)) = (other.create_stream()?, semaphore(environment)?);
    refused("waiting", stream.wait_external_semaphore(&semaphore, 1), Status::INVALID_HANDLE)?;
    refused("signalling", stream.signal_external_semaphore(&semaphore, 1), Status::INVALID_HANDLE)?;
    let mut graph = other.create_graph()?;
    let added = graph.add((), NodeWork::wait_external_semaphore(&semaphore, 1));
    refused("a node", added, Status::INVALID_HANDLE)
}

fn no_semaphore(environment: &Environment) -> Verdict {
    let context = environment.context();
    for kind in [ExternalSemaphoreKind::Timeline, ExternalSemaphoreKind::Binary] {
        // SAFETY: it is that of no semaphore, and is refused.
        let imported = unsafe { context.import_external_semaphore(nothing()?, kind) };
        holds("refused, and why", imported.is_err_and(|error| error.hint().is_some()))?;
    }
    Ok(())
}

fn inside_a_host_function(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context().clone(), environment.stream()?);
    let (memory, semaphore, (report, reported)) = (nothing()?, nothing()?, channel());
    stream.launch_host_func(move || {
        // SAFETY: both are refused.
        let (memory, semaphore) = unsafe {
            let kind = ExternalSemaphoreKind::Timeline;
            (context.import_external_memory(memory, 1), context.import_external_semaphore(semaphore, kind))
        };
        let _ = report.send([memory.err(), semaphore.err()].map(|error| error.map(|error| error.status())));
    })?;
    stream.synchronize()?;
    let statuses = reported.recv().map_err(|_| Failed("the host function has said nothing".to_owned()))?;
    equal("refused", statuses, [Some(Status::NOT_PERMITTED); 2])
}
