//! Managed memory that is attached to a stream or to the host.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    CaptureMode, CaptureStatus, Context, DualModule, HostFunction, LaunchConfig, ManagedBuffer, MemoryAttachment,
    MemoryLocation, Prefetch, Result, Status, Stream,
};
use common::{hold, host, until};

fn streams<const COUNT: usize>(context: &Context) -> [Stream; COUNT] {
    std::array::from_fn(|_| context.create_stream().unwrap())
}

fn memory(context: &Context) -> ManagedBuffer<u32> {
    context.allocate_managed(100).unwrap()
}

#[track_caller]
fn refused<T>(result: Result<T>) {
    let Err(error) = result else { panic!("it is not refused") };
    assert_eq!(error.status(), Status::ILLEGAL_STATE, "{error}");
    assert!(error.to_string().contains("Stream::attach"), "{error}");
}

#[test]
fn other_streams_are_refused() {
    let context = host();
    let set = HostFunction::new("set", &[8], |_, arguments| arguments.slice::<u32>(0).set(0, 5));
    let kernel = DualModule::new().host_function(set).load(&context).unwrap().kernel("set").unwrap();
    let [own, other] = streams(&context);
    let mut memory = memory(&context);
    let mut target = other.allocate_zeroed::<u32>(100).unwrap();
    let config = LaunchConfig::new(1, 1);
    // Whoever has used it before has no privilege.
    other.fill(&mut memory, 1).unwrap();
    own.attach(&mut memory, MemoryAttachment::Single).unwrap();
    refused(other.fill(&mut memory, 2));
    refused(other.copy(&mut target, &memory));
    refused(other.copy(&mut memory, &target));
    refused(other.download(&memory));
    refused(other.launch_checked(&kernel, &config, (&mut memory,)));
    refused(other.prefetch_batch([Prefetch::new(&memory, MemoryLocation::Host).unwrap()]));
    assert_eq!(memory.as_slice().unwrap(), [1; 100]);
    own.fill(&mut memory, 3).unwrap();
    own.launch_checked(&kernel, &config, (&mut memory,)).unwrap();
    own.copy(&mut target, &memory).unwrap();
    assert_eq!(memory.as_slice().unwrap()[..2], [5, 3]);
    memory.as_mut_slice().unwrap()[1] = 6;
    assert_eq!(other.download(&target).unwrap()[..2], [5, 3]);
    other.attach(&mut memory, MemoryAttachment::Single).unwrap();
    refused(own.fill(&mut memory, 4));
    assert_eq!(other.download(&memory).unwrap()[..2], [5, 6]);
    own.attach(&mut memory, MemoryAttachment::Global).unwrap();
    own.fill(&mut memory, 7).unwrap();
    other.fill(&mut memory, 8).unwrap();
    assert_eq!(memory.as_slice().unwrap(), [8; 100]);
}

#[test]
fn the_host_alone_uses_what_is_attached_to_it() {
    let context = host();
    let [own, other] = streams(&context);
    let mut memory = memory(&context);
    own.attach(&mut memory, MemoryAttachment::Host).unwrap();
    memory.as_mut_slice().unwrap().fill(3);
    refused(own.fill(&mut memory, 1));
    refused(other.fill(&mut memory, 1));
    assert_eq!(memory.as_slice().unwrap(), [3; 100]);
    other.attach(&mut memory, MemoryAttachment::Global).unwrap();
    assert_eq!(own.download(&memory).unwrap(), [3; 100]);
}

#[test]
fn only_whole_managed_buffers_are_attached() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut memory, mut empty) = (memory(&context), context.allocate_managed::<u32>(0).unwrap());
    let (mut pinned, mut device) =
        (context.allocate_pinned::<u8>(4).unwrap(), stream.allocate_zeroed::<u8>(4).unwrap());
    let invalid = |result: Result<()>, about: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
        assert!(error.to_string().contains(about), "{error}");
    };
    let part = memory.slice_mut(1..).unwrap();
    invalid(stream.attach(part, MemoryAttachment::Host), "the whole buffer");
    let nothing = memory.slice_mut(..0).unwrap();
    invalid(stream.attach(nothing, MemoryAttachment::Host), "the whole buffer");
    invalid(stream.attach(&mut pinned, MemoryAttachment::Host), "not managed");
    invalid(stream.attach(&mut device, MemoryAttachment::Host), "not managed");
    // Nothing was attached.
    stream.fill(&mut memory, 1).unwrap();
    let all = memory.slice_mut(..).unwrap().cast::<u8>().unwrap();
    stream.attach(all, MemoryAttachment::Host).unwrap();
    refused(stream.fill(&mut memory, 1));
    stream.attach(&mut empty, MemoryAttachment::Host).unwrap();
    let mut of_no_size = context.allocate_managed::<()>(7).unwrap();
    stream.attach(&mut of_no_size, MemoryAttachment::Host).unwrap();
}

/// The work of other streams that uses the memory is over before it is attached.
#[test]
fn it_is_attached_behind_earlier_uses() {
    let context = host();
    let [writer, own] = streams(&context);
    let mut memory = memory(&context);
    let gate = hold(&context, &writer);
    writer.fill(&mut memory, 7).unwrap();
    own.attach(&mut memory, MemoryAttachment::Single).unwrap();
    assert!(!own.query().unwrap());
    gate.set(1);
    assert_eq!(own.download(&memory).unwrap(), [7; 100]);
}

#[test]
fn graphs_are_launched_where_their_memory_is_attached() {
    let context = host();
    let [own, other] = streams(&context);
    let mut memory = memory(&context);
    let executable = other.capture_executable(CaptureMode::Relaxed, |scope| scope.fill(&mut memory, 7)).unwrap();
    own.attach(&mut memory, MemoryAttachment::Single).unwrap();
    refused(executable.launch(&other));
    for _ in 0..3 {
        executable.launch(&own).unwrap();
    }
    // Also where nothing else would have to be ordered.
    own.attach(&mut memory, MemoryAttachment::Host).unwrap();
    refused(executable.launch(&own));
    own.attach(&mut memory, MemoryAttachment::Global).unwrap();
    executable.launch(&other).unwrap();
    assert_eq!(memory.read(<[u32]>::to_vec).unwrap(), [7; 100]);
}

#[test]
fn it_stays_attached_to_a_stream_that_has_ended() {
    let context = host();
    let [own, other] = streams(&context);
    let mut memory = memory(&context);
    own.attach(&mut memory, MemoryAttachment::Single).unwrap();
    own.fill(&mut memory, 7).unwrap();
    drop(own);
    refused(other.fill(&mut memory, 8));
    assert_eq!(memory.as_slice().unwrap(), [7; 100]);
    other.attach(&mut memory, MemoryAttachment::Single).unwrap();
    assert_eq!(other.download(&memory).unwrap(), [7; 100]);
}

/// Memory that cannot be freed yet is used again, but not by those who know nothing of its attachment.
#[test]
fn attached_memory_is_no_memory_of_others() {
    let context = host();
    let [held, own, other] = streams(&context);
    let (mut attached, again) = (memory(&context), memory(&context));
    let gate = hold(&context, &held);
    own.attach(&mut attached, MemoryAttachment::Single).unwrap();
    own.synchronize().unwrap();
    let (taken, free) = (attached.device_pointer(), again.device_pointer());
    drop((attached, again));
    let (mut addresses, mut buffers) = (Vec::new(), Vec::new());
    // Nothing is used again while streams of other tests capture.
    until("the use of idle memory", || {
        let mut buffer = context.allocate_managed::<u32>(100).unwrap();
        other.fill(&mut buffer, 1).unwrap();
        addresses.push(buffer.device_pointer());
        buffers.push(buffer);
        addresses.contains(&free)
    });
    assert!(!addresses.contains(&taken));
    gate.set(1);
}

#[test]
fn what_cannot_be_attached_is_refused() {
    let context = host();
    let elsewhere = context.device().create_context(anabranch::ContextFlags::empty()).unwrap();
    let [stream, other] = streams(&context);
    let legacy = context.legacy_stream().unwrap();
    let (mut memory, mut foreign) = (memory(&context), memory(&elsewhere));
    let mut empty = context.allocate_managed::<u32>(0).unwrap();
    let status = |result: Result<()>| result.unwrap_err().status();
    legacy.attach(&mut memory, MemoryAttachment::Single).unwrap();
    assert_eq!(status(stream.fill(&mut memory, 1u32)), Status::ILLEGAL_STATE);
    legacy.attach(&mut memory, MemoryAttachment::Host).unwrap();
    legacy.attach(&mut memory, MemoryAttachment::Global).unwrap();
    assert_eq!(status(stream.attach(&mut foreign, MemoryAttachment::Host)), Status::INVALID_HANDLE);
    stream.attach(&mut empty, MemoryAttachment::Single).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(&mut memory, 2)?;
            for stream in [&**scope, &other] {
                let refused = stream.attach(&mut memory, MemoryAttachment::Single);
                assert_eq!(status(refused), Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            assert_eq!(other.capture_status()?, CaptureStatus::None);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    drop(graph);
    other.fill(&mut memory, 3).unwrap();
    assert_eq!(memory.read(|elements| elements[0]).unwrap(), 3);
}
