//! Classes of defects that safe code must not be able to bring about, as far as no other file has their test.
//! `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::Live;
use anabranch::{
    Buffer, Context, ContextFlags, DualModule, Error, ErrorKind, Event, EventFlags, HostFunction, Instance, Kernel,
    KernelFault, LaunchConfig, ManagedBuffer, MemoryPool, Module, PinnedBuffer, Signal, Status, Stream, StreamFlags,
    flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use common::{hold, host};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Closures as a kernel of one parameter for memory, which they do not use.
fn kernel(context: &Context, body: impl Fn() + Send + Sync + 'static) -> Kernel {
    let function = HostFunction::new("kernel", &[8], move |_, _| body());
    DualModule::new().host_function(function).load(context).unwrap().kernel("kernel").unwrap()
}

/// A context of its own, lost to a fault, with a stream and a buffer of it.
fn lost(context: &Context) -> (Context, Stream, Buffer<u8>) {
    let lost = context.device().create_context(ContextFlags::empty()).unwrap();
    let stream = lost.create_stream().unwrap();
    let mut buffer = stream.allocate_zeroed::<u8>(64).unwrap();
    let fault = kernel(&lost, || KernelFault::trap("on purpose").raise());
    // SAFETY: the kernel uses no memory.
    unsafe { stream.launch(&fault, &LaunchConfig::new(1, 1), (&mut buffer,)) }.unwrap();
    assert!(stream.synchronize().unwrap_err().is_sticky());
    (lost, stream, buffer)
}

#[test]
fn safety_8_a_buffer_dropped_and_used_elsewhere_while_a_scope_copies_to_it() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let source = [3u8; 1 << 12];
    let mut dropped = stream.allocate_zeroed::<u8>(source.len()).unwrap();
    let mut changed = stream.allocate_zeroed::<u8>(source.len()).unwrap();
    let signal = hold(&context, &stream);
    let reused = stream
        .sync_scope(|scope| {
            scope.copy_from_host(&mut dropped, &source)?;
            scope.copy_from_host(&mut changed, &source)?;
            drop(dropped);
            let reused = other.allocate_zeroed::<u8>(source.len())?;
            other.fill(changed.slice_mut(..8)?, 9)?;
            assert!(!other.query()?, "the other stream does not wait for the copy");
            signal.set(1);
            Ok(reused)
        })
        .unwrap();
    let found = other.download(&changed).unwrap();
    assert!(found[..8].iter().all(|&byte| byte == 9) && found[8..].iter().all(|&byte| byte == 3));
    assert!(other.download(&reused).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn safety_10_a_code_that_nobody_knows_is_a_status_like_any_other() {
    let (unknown, again) = (Status(4242), Status(4242));
    assert_eq!(unknown, again);
    assert_eq!(unknown.result(), Err(unknown));
    assert_eq!((unknown.name(), unknown.is_sticky()), (None, false));
    assert!(unknown.to_string().contains("4242"));
}

#[test]
fn safety_14_neither_shutdown_nor_the_raw_handle_keeps_the_context() {
    let context = host();
    let free = || context.memory_info().unwrap().free;
    let before = free();
    let end_by: [fn(Stream); 3] = [|stream| stream.shutdown().unwrap(), |stream| _ = stream.into_raw(), drop];
    for end in end_by {
        let own = context.device().create_context(ContextFlags::empty()).unwrap();
        let stream = own.create_stream().unwrap();
        // Memory that is given back by nobody but its context when that is destroyed.
        // SAFETY: the context exists until it is dropped below.
        let call = unsafe { Live::new(own.as_raw()) }.into();
        context.device().driver().allocate(&call, 1 << 20).unwrap();
        assert!(free() < before);
        end(stream);
        drop(own);
        // A context is destroyed by a thread of its own, perhaps behind other things.
        for _ in 0..100 {
            flush_deferred_drops();
            if free() == before {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(free(), before, "the context is still there");
    }
}

#[test]
fn safety_15_shutdown_needs_the_only_handle() {
    let stream = Arc::new(host().create_stream().unwrap());
    let clone = stream.clone();
    // The type asks for the value itself, and gives it back where there is another handle.
    let stream = Arc::try_unwrap(stream).unwrap_err();
    stream.synchronize().unwrap();
    drop(clone);
    Arc::try_unwrap(stream).unwrap().shutdown().unwrap();
}

#[test]
fn safety_17_no_buffer_is_empty_where_an_allocation_failed() {
    let stream = host().create_stream().unwrap();
    let error = stream.allocate_zeroed::<u8>(1 << 50).unwrap_err();
    assert_eq!(error.status(), Status::OUT_OF_MEMORY);
    let empty = stream.allocate_zeroed::<u8>(0).unwrap();
    assert!(empty.is_empty() && stream.download(&empty).unwrap().is_empty());
}

#[test]
fn safety_18_dropping_never_waits() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let other = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let kernel = kernel(&context, || {});
    let mut device = stream.allocate_zeroed::<u8>(1 << 12).unwrap();
    let mut plain = context.allocate_zeroed::<u8>(&stream, 1 << 12).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(1 << 12).unwrap();
    let mut managed = context.allocate_managed::<u8>(1 << 12).unwrap();
    let gate = context.create_signal().unwrap();
    let signal = hold(&context, &stream);
    stream.wait_signal(&gate, anabranch::WaitCondition::GreaterOrEqual, 0).unwrap();
    stream.fill(&mut device, 1).unwrap();
    stream.fill(&mut plain, 1).unwrap();
    stream.copy(&mut pinned, &device).unwrap();
    stream.fill(&mut managed, 1).unwrap();
    // SAFETY: the kernel uses no memory.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut device,)) }.unwrap();
    let event = stream.record_event().unwrap();
    other.wait_event(&event).unwrap();
    // A wait here would never return: the stream is released only afterwards.
    drop((device, plain, pinned, managed, gate, event, kernel, stream));
    assert!(!other.query().unwrap());
    signal.set(1);
    other.synchronize().unwrap();
}

/// Freeing such memory would block for work in progress. It is not freed then, and not leaked either.
#[test]
fn safety_18_memory_that_cannot_be_freed_yet_is_used_again() {
    let context = host();
    let (busy, free) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let gate = hold(&context, &busy);
    let mut addresses = HashSet::new();
    for round in 0..20u8 {
        let mut pinned = context.allocate_pinned::<u8>(1000).unwrap();
        assert!(pinned.as_slice().unwrap().iter().all(|byte| *byte == 0), "what others wrote is not seen");
        free.fill(&mut pinned, round + 1).unwrap();
        addresses.insert(pinned.device_pointer());
        let managed = context.allocate_managed::<u8>(1000).unwrap();
        addresses.insert(managed.device_pointer());
        drop((pinned, managed));
        free.synchronize().unwrap();
        // It is for others when its own work is complete, which the reaper finds out.
        flush_deferred_drops();
    }
    assert!(addresses.len() <= 6, "{} pieces of memory for two at a time", addresses.len());
    gate.set(1);
}

#[test]
fn safety_18_dropping_what_the_default_stream_of_another_thread_uses_never_waits() {
    let context = host();
    let home = context.create_stream().unwrap();
    let mut device = home.allocate_zeroed::<u8>(1 << 12).unwrap();
    let mut plain = context.allocate_zeroed::<u8>(&home, 1 << 12).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(1 << 12).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let other = context.clone();
    let thread = std::thread::spawn(move || {
        let stream = other.per_thread_stream().unwrap();
        let mut own = stream.allocate_zeroed::<u8>(1 << 12).unwrap();
        let mut kept = stream.allocate_zeroed::<u8>(1 << 12).unwrap();
        let signal = hold(&other, &stream);
        for memory in [&mut device, &mut plain, &mut own, &mut kept] {
            stream.fill(memory, 1).unwrap();
        }
        stream.copy(&mut pinned, &own).unwrap();
        let (dropped, wait) = std::sync::mpsc::channel::<()>();
        sender.send(((device, plain, pinned, own), signal, dropped)).unwrap();
        // The stream continues while others hold what it captured for them.
        stream.fill(&mut kept, 2).unwrap();
        wait.recv().unwrap();
        stream.fill(kept.slice_mut(..1).unwrap(), 3).unwrap();
        stream.download(&kept).unwrap()
    });
    let (memory, signal, dropped) = receiver.recv().unwrap();
    // A wait here would never return: the stream is released only afterwards.
    drop(memory);
    let reused = home.allocate_zeroed::<u8>(1 << 12).unwrap();
    dropped.send(()).unwrap();
    signal.set(1);
    let kept = thread.join().unwrap();
    assert!(kept[0] == 3 && kept[1..].iter().all(|&byte| byte == 2));
    assert!(home.download(&reused).unwrap().iter().all(|&byte| byte == 0), "memory was given away while it was used");
}

#[test]
fn safety_26_an_error_of_a_drop_goes_to_the_hook_and_nowhere_else() {
    let context = host();
    let told: Arc<Mutex<Vec<Error>>> = Arc::default();
    let hook = told.clone();
    set_drop_error_hook(move |error| hook.lock().unwrap().push(error.clone()));
    let (lost, stream, buffer) = lost(&context);
    drop((buffer, stream, lost));
    flush_deferred_drops();
    // Unrelated calls do not report it.
    let unrelated = context.create_stream().unwrap();
    let memory = unrelated.upload(&[1u8, 2, 3]).unwrap();
    assert_eq!(unrelated.download(&memory).unwrap(), [1, 2, 3]);
    context.synchronize().unwrap();
    reset_drop_error_hook();
    let told = told.lock().unwrap();
    let freeing = told.iter().find(|error| error.status() == Status::LAUNCH_FAILED).expect("the hook is called");
    assert_eq!(freeing.kind(), ErrorKind::Asynchronous);
}

#[test]
fn safety_21_what_crosses_threads_and_tasks_can() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Instance>();
    crosses::<Context>();
    crosses::<Stream>();
    crosses::<Event>();
    crosses::<Signal>();
    crosses::<Buffer<f32>>();
    crosses::<PinnedBuffer<f32>>();
    crosses::<ManagedBuffer<f32>>();
    crosses::<MemoryPool>();
    crosses::<Module>();
    crosses::<Kernel>();
    crosses::<Error>();
}

#[test]
fn safety_29_a_handle_that_comes_again_is_another_stream() {
    let context = host();
    let mut memory = context.create_stream().unwrap().upload(&[1u32; 4]).unwrap();
    let first = context.create_stream().unwrap();
    let (handle, id) = (first.as_raw(), first.id());
    let signal = hold(&context, &first);
    first.fill(&mut memory, 7).unwrap();
    drop(first);
    let (mut ids, mut later) = (HashSet::from([id]), Vec::new());
    for _ in 0..64 {
        let stream = context.create_stream().unwrap();
        assert!(ids.insert(stream.id()), "an id came again");
        later.push(stream);
    }
    // A stream with the handle of the dropped stream, if there is one, is not mistaken for it.
    let same = later.iter().position(|stream| stream.as_raw() == handle).unwrap_or(0);
    let reader = later.swap_remove(same);
    let mut copy = reader.allocate_zeroed::<u32>(4).unwrap();
    reader.copy(&mut copy, &memory).unwrap();
    assert!(!reader.query().unwrap(), "the reader does not wait for the writer that was dropped");
    signal.set(1);
    assert_eq!(reader.download(&copy).unwrap(), [7; 4]);
}

#[test]
fn safety_18_a_panic_of_queued_work_survives_the_drop_of_what_the_stream_used() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u8>(64).unwrap();
    stream.fill(&mut pinned, 1).unwrap();
    stream.launch_host_func(|| panic!("on purpose")).unwrap();
    // The library itself waits for an event behind the panic before it gives the memory back.
    let event = stream.record_event_with_flags(EventFlags::DISABLE_TIMING).unwrap();
    drop((pinned, event));
    for _ in 0..20 {
        flush_deferred_drops();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(stream.synchronize().unwrap_err().kind(), ErrorKind::Panicked);
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

// SAFETY: all zeros are a value, there is no padding, and every pattern of bits is a value.
unsafe impl bytemuck::Zeroable for Page {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Page {}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(256))]
struct Block([u8; 256]);

// SAFETY: as above.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Block {}

/// The result of each way to allocate memory for elements of a type.
fn allocations<T: bytemuck::Pod>(context: &Context) -> Vec<Result<(), Error>> {
    let (stream, length) = (context.create_stream().unwrap(), 3);
    let pool = context.device().create_memory_pool(&anabranch::MemoryPoolOptions::default()).unwrap();
    let elements = vec![T::zeroed(); length];
    let aligned = |slice: &[T]| assert!(slice.len() == length && slice.as_ptr().is_aligned());
    let pinned = || {
        let mut pinned = context.allocate_pinned::<T>(length)?;
        aligned(pinned.as_mut_slice()?);
        pinned.read(aligned)
    };
    let managed = || {
        let mut managed = context.allocate_managed::<T>(length)?;
        aligned(managed.as_mut_slice()?);
        managed.read(aligned)
    };
    vec![
        pinned(),
        managed(),
        stream.upload(&elements).and_then(|buffer| stream.download(&buffer)).map(|slice| aligned(&slice)),
        futures::executor::block_on(stream.upload_async(&elements))
            .and_then(|buffer| futures::executor::block_on(stream.download_async(&buffer)))
            .map(|slice| aligned(&slice)),
        stream.allocate_zeroed::<T>(length).map(drop),
        stream.allocate_zeroed_from::<T>(&pool, length).map(drop),
        context.allocate_zeroed::<T>(&stream, length).map(drop),
        // SAFETY: nothing uses the memory.
        unsafe { context.create_graph().unwrap().add_allocation::<T>((), length) }.map(drop),
    ]
}

#[test]
fn safety_36_elements_that_no_memory_is_aligned_for_are_refused() {
    let context = host();
    // The first pieces of memory are not more aligned by chance than these.
    let _kept: Vec<_> = (0..20).map(|_| context.allocate_pinned::<u8>(1).unwrap()).collect();
    for refused in allocations::<Page>(&context) {
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
    }
    for allocated in allocations::<Block>(&context) {
        allocated.unwrap();
    }
}

#[test]
fn safety_36_elements_of_no_size_are_elements_like_any_others() {
    let context = host();
    for allocated in allocations::<[u64; 0]>(&context).into_iter().chain(allocations::<()>(&context)).enumerate() {
        // A graph has no allocation of no size.
        match allocated {
            (7 | 15, result) => assert_eq!(result.unwrap_err().status(), Status::INVALID_VALUE),
            (_, result) => result.unwrap(),
        }
    }
}
