//! Tensors of other libraries. A structure that is made here by hand stands for the other library.

#![cfg(feature = "dlpack")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
mod theirs;

use anabranch::dlpack::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLTensor, DlpackElement, ManagedTensor,
    READ_ONLY,
};
use anabranch::hal::{FillPattern, Live};
use anabranch::{
    Buffer, CaptureMode, Context, DevicePointer, Error, ErrorKind, Instance, MemoryAttachment, NodeWork, RegisterFlags,
    Status, Stream, WaitCondition, flush_deferred_drops,
};
use common::{checked_host, hold, host, until};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use theirs::Theirs;

fn exported<B>(result: Result<ManagedTensor, (Error, B)>) -> ManagedTensor {
    result.map_err(|(error, _)| error).unwrap()
}

unsafe extern "C" fn delete_unversioned(tensor: *mut DLManagedTensor) {
    // SAFETY: the tensor is a box, whose context is a counter.
    let counter = unsafe { Arc::from_raw(Box::from_raw(tensor).manager_ctx.cast::<AtomicUsize>()) };
    counter.fetch_add(1, Ordering::SeqCst);
}

/// Fills a word as another library does: by the driver, with a raw handle.
fn fill_raw(context: &Context, stream: &Stream, address: u64, value: u32, count: usize) {
    let (driver, pattern) = (context.device().driver(), FillPattern::U32(value));
    // SAFETY: context and stream outlive the call, and the memory is that of a tensor which is not deleted yet.
    unsafe {
        let context = Live::new(context.as_raw());
        driver.fill_async(&context.into(), DevicePointer(address), pattern, count, Live::new(stream.as_raw())).unwrap();
    }
}

#[test]
fn an_exported_tensor_describes_the_buffer() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let address = buffer.device_pointer().0;
    let raw = exported(ManagedTensor::export(buffer, &[2, 3], Some(&stream))).into_versioned();
    // SAFETY: the tensor was exported, and is not deleted yet.
    let (tensor, version) = unsafe { ((*raw.as_ptr()).dl_tensor, (*raw.as_ptr()).version) };
    assert_eq!((version.major, tensor.ndim, tensor.byte_offset, tensor.data as u64), (1, 2, 0, address));
    assert_eq!(tensor.device, DLDevice { device_type: DLDeviceType::CPU, device_id: 0 });
    assert_eq!(tensor.dtype, DLDataType { code: DLDataTypeCode::FLOAT, bits: 32, lanes: 1 });
    // SAFETY: there are two dimensions.
    let numbers = |at: *mut i64| unsafe { std::slice::from_raw_parts(at, 2) };
    assert_eq!((numbers(tensor.shape), numbers(tensor.strides)), (&[2, 3][..], &[3, 1][..]));
    // SAFETY: nobody else has the pointer.
    let tensor = unsafe { ManagedTensor::from_versioned(raw) }.unwrap();
    assert!(!tensor.is_read_only() && tensor.version().is_some());
    let buffer = tensor.into_buffer::<f32>(&context, Some(&stream)).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    drop(buffer);
    stream.synchronize().unwrap();
    until("the release of the memory", || {
        flush_deferred_drops();
        context.device().memory_report().unwrap().allocations.iter().all(|live| live.address != address)
    });
}

#[test]
fn all_kinds_of_buffers_are_exported() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.register_pinned(vec![1u8; 4]).map_err(|(error, _)| error).unwrap();
    pinned.fill_with(|index| index as u8).unwrap();
    let tensor = exported(ManagedTensor::export_part(pinned, 1, &[2], None));
    assert_eq!(stream.download(&tensor.into_buffer::<u8>(&context, None).unwrap()).unwrap(), [1, 2]);
    let managed = context.allocate_managed::<i64>(1).unwrap();
    // No dimensions, one element.
    let tensor = exported(ManagedTensor::export(managed, &[], None));
    assert_eq!((tensor.shape(), tensor.data_type().code), (&[][..], DLDataTypeCode::INT));
    assert_eq!(stream.download(&tensor.into_buffer::<i64>(&context, None).unwrap()).unwrap(), [0]);
    let nothing = stream.upload::<f64>(&[]).unwrap();
    let tensor = exported(ManagedTensor::export(nothing, &[3, 0, 2], Some(&stream)));
    assert_eq!(tensor.shape(), [3, 0, 2]);
    assert!(tensor.into_buffer::<f64>(&context, None).unwrap().is_empty());
}

#[cfg(feature = "half")]
#[test]
fn numbers_of_16_bits_have_types_of_their_own() {
    use anabranch::half::{bf16, f16};
    let context = host();
    let stream = context.create_stream().unwrap();
    let tensor = exported(ManagedTensor::export(stream.upload(&[bf16::ONE]).unwrap(), &[1], None));
    assert_eq!(tensor.data_type(), DLDataType { code: DLDataTypeCode::BFLOAT, bits: 16, lanes: 1 });
    assert_eq!(tensor.into_buffer::<f16>(&context, None).unwrap_err().status(), Status::INVALID_VALUE);
}

#[test]
fn the_consumer_s_stream_comes_after_the_work_and_before_the_free() {
    let context = checked_host();
    let [own, consumer, third] = [(); 3].map(|()| context.create_stream().unwrap());
    // No others: their memory would be freed, which waits for work.
    let (before, behind) = (context.create_signal().unwrap(), context.create_signal().unwrap());
    for round in 1..=20 {
        let mut buffer = own.upload(&[1u32; 1000]).unwrap();
        own.wait_signal(&before, WaitCondition::GreaterOrEqual, round).unwrap();
        own.fill(&mut buffer, 2).unwrap();
        let address = buffer.device_pointer().0;
        let raw = exported(ManagedTensor::export(buffer, &[1000], Some(&consumer))).into_versioned();
        // Their work, which comes after the fill, and more of it behind another signal.
        fill_raw(&context, &consumer, address, 3, 500);
        consumer.wait_signal(&behind, WaitCondition::GreaterOrEqual, round).unwrap();
        fill_raw(&context, &consumer, address, 4, 1000);
        // SAFETY: nobody else has the pointer. The work is in the stream that the tensor was exported for.
        let tensor = unsafe { ManagedTensor::from_versioned(raw) }.unwrap();
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        flush_deferred_drops();
        before.set(round);
        // Where the memory was, if it had been freed.
        let other = third.upload(&[7u32; 1000]).unwrap();
        assert_eq!(third.download(&other).unwrap(), [7; 1000]);
        assert!(!consumer.query().unwrap());
        behind.set(round);
        consumer.synchronize().unwrap();
        assert_eq!(third.download(&other).unwrap(), [7; 1000]);
    }
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn without_a_stream_the_export_waits() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[1u32; 4]).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut buffer, 2).unwrap();
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    let tensor = exported(ManagedTensor::export(buffer, &[4], None));
    assert!(stream.query().unwrap());
    opener.join().unwrap();
    let raw = tensor.into_unversioned().map_err(|(error, _)| error).unwrap();
    // SAFETY: the tensor has four numbers, and all work is complete.
    assert_eq!(unsafe { std::slice::from_raw_parts((*raw.as_ptr()).dl_tensor.data.cast::<u32>(), 4) }, [2; 4]);
    // SAFETY: nobody else has the pointer.
    let tensor = unsafe { ManagedTensor::from_unversioned(raw) };
    assert_eq!((tensor.version(), tensor.shape()), (None, &[4][..]));
    // With a version again, and deleted by its pointer.
    let raw = tensor.into_versioned();
    // SAFETY: the tensor is used by nobody any more.
    unsafe { (*raw.as_ptr()).deleter.unwrap()(raw.as_ptr()) };
    flush_deferred_drops();
}

#[test]
fn what_cannot_be_exported_is_given_back() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let refused = |result: Result<ManagedTensor, (Error, Buffer<u32>)>, status| {
        let (error, buffer) = result.map(drop).unwrap_err();
        assert_eq!(error.status(), status, "{error}");
        buffer
    };
    let buffer = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    for shape in [&[3][..], &[2, 3], &[], &[0], &[usize::MAX, 2], &[usize::MAX, usize::MAX]] {
        let buffer = stream.upload(&[1u32, 2, 3, 4]).unwrap();
        refused(ManagedTensor::export(buffer, shape, Some(&stream)), Status::INVALID_VALUE);
    }
    for shape in [[usize::MAX, 2, 0], [0, usize::MAX, 2]] {
        let buffer = stream.allocate_zeroed::<u32>(0).unwrap();
        let (error, _) = ManagedTensor::export(buffer, &shape, Some(&stream)).map(drop).unwrap_err();
        assert!(error.to_string().contains("is larger than the address space"), "{error}");
    }
    let buffer = refused(ManagedTensor::export_part(buffer, 2, &[3], None), Status::INVALID_VALUE);
    let buffer = refused(ManagedTensor::export_part(buffer, usize::MAX, &[1], None), Status::INVALID_VALUE);

    let other = Instance::builder().cuda(false).isolated().host_devices(2).build().unwrap();
    let other = other.device("host:1").unwrap().context().unwrap().create_stream().unwrap();
    let mut buffer = refused(ManagedTensor::export(buffer, &[4], Some(&other)), Status::INVALID_HANDLE);

    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(&mut buffer, 5).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    drop(graph);
    let buffer = refused(ManagedTensor::export(buffer, &[4], Some(&stream)), Status::ILLEGAL_STATE);
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    drop(executable);

    let mut kept = Some(buffer);
    let unsupported = Status::STREAM_CAPTURE_UNSUPPORTED;
    let captured = stream.capture(CaptureMode::Global, |_| {
        kept = Some(refused(ManagedTensor::export(kept.take().unwrap(), &[4], Some(&stream)), unsupported));
        Ok(())
    });
    assert!(captured.unwrap().nodes().unwrap().is_empty());

    let (sender, receiver) = std::sync::mpsc::channel();
    let buffer = kept.take().unwrap();
    stream
        .launch_host_func(move || {
            let (error, buffer) = ManagedTensor::export(buffer, &[4], None).map(drop).unwrap_err();
            sender.send((error.status(), buffer)).unwrap();
        })
        .unwrap();
    let (status, buffer) = receiver.recv().unwrap();
    assert_eq!(status, Status::NOT_PERMITTED);
    assert_eq!(stream.download(&buffer).unwrap(), [5; 4]);
}

#[test]
fn memory_that_is_read_only_stays_so() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let pinned = context.register_pinned_with_flags(vec![6u32; 3], RegisterFlags::READ_ONLY);
    let tensor = exported(ManagedTensor::export(pinned.map_err(|(error, _)| error).unwrap(), &[3], Some(&stream)));
    assert!(tensor.is_read_only());
    let (error, tensor) = tensor.into_unversioned().unwrap_err();
    assert_eq!(error.status(), Status::NOT_SUPPORTED);
    let mut buffer = tensor.into_buffer::<u32>(&context, Some(&stream)).unwrap();
    assert_eq!(stream.fill(&mut buffer, 1).unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(stream.download(&buffer).unwrap(), [6; 3]);
    // Also of another library, whose memory is registered.
    let (tensor, _) = Theirs::tensor(vec![8; 3], &[3], |theirs| theirs.tensor.flags = READ_ONLY);
    let mut buffer = tensor.into_buffer::<u32>(&context, None).unwrap();
    assert_eq!(stream.fill(&mut buffer, 1).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(stream.download(&buffer).unwrap(), [8; 3]);
}

#[test]
fn an_imported_tensor_is_deleted_behind_its_last_use() {
    let context = checked_host();
    let (stream, producer) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (tensor, deleted) = Theirs::tensor(vec![1; 12], &[3, 4], |theirs| theirs.strides = vec![4, 1]);
    let address = (&raw const *tensor.shape()).addr();
    assert_ne!(address, 0);
    let ready = hold(&context, &producer);
    let mut buffer = tensor.into_buffer::<u32>(&context, Some(&producer)).unwrap();
    assert_eq!(buffer.len(), 12);
    stream.fill(&mut buffer, 5).unwrap();
    assert!(!stream.query().unwrap(), "it comes after the producer's stream");
    let mut copy = stream.allocate_zeroed::<u32>(12).unwrap();
    stream.copy(&mut copy, &buffer).unwrap();
    drop(buffer);
    flush_deferred_drops();
    assert_eq!(deleted.load(Ordering::SeqCst), 0);
    ready.set(1);
    assert_eq!(stream.download(&copy).unwrap(), [5; 12]);
    until("the deletion", || deleted.load(Ordering::SeqCst) == 1);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn tensors_without_a_version_are_imported() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut memory, mut shape, deleted) = (vec![3u16, 4, 5], [2i64], Arc::new(AtomicUsize::new(0)));
    let tensor = Box::new(DLManagedTensor {
        dl_tensor: DLTensor {
            data: memory.as_mut_ptr().cast(),
            device: DLDevice { device_type: DLDeviceType::CPU, device_id: 0 },
            ndim: 1,
            dtype: u16::TYPE,
            shape: shape.as_mut_ptr(),
            strides: null_mut(),
            byte_offset: 2,
        },
        manager_ctx: Arc::into_raw(deleted.clone()).cast_mut().cast(),
        deleter: Some(delete_unversioned),
    });
    // SAFETY: memory and shape outlive the tensor, and nobody else has it.
    let tensor = unsafe { ManagedTensor::from_unversioned(NonNull::from(Box::leak(tensor))) };
    let buffer = tensor.into_buffer::<u16>(&context, None).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [4, 5]);
    drop(buffer);
    until("the deletion", || deleted.load(Ordering::SeqCst) == 1);
    drop((memory, shape));
}

#[test]
fn each_tensor_that_does_not_fit_has_an_error_and_is_deleted_once() {
    let context = host();
    type Change = fn(&mut Theirs);
    let wrong: &[(&str, Change, Status)] = &[
        ("signed", |theirs| theirs.tensor.dl_tensor.dtype.code = DLDataTypeCode::INT, Status::INVALID_VALUE),
        ("unknown code", |theirs| theirs.tensor.dl_tensor.dtype.code = DLDataTypeCode(99), Status::INVALID_VALUE),
        ("64 bits", |theirs| theirs.tensor.dl_tensor.dtype.bits = 64, Status::INVALID_VALUE),
        ("vectors", |theirs| theirs.tensor.dl_tensor.dtype.lanes = 2, Status::INVALID_VALUE),
        ("column-major", |theirs| theirs.strides = vec![1, 3], Status::INVALID_VALUE),
        ("gaps", |theirs| theirs.strides = vec![8, 2], Status::INVALID_VALUE),
        ("reversed", |theirs| theirs.strides = vec![4, -1], Status::INVALID_VALUE),
        ("repeated", |theirs| theirs.strides = vec![0, 1], Status::INVALID_VALUE),
        ("dimensions", |theirs| theirs.tensor.dl_tensor.ndim = -1, Status::INVALID_VALUE),
        ("no shape", |theirs| theirs.tensor.dl_tensor.shape = null_mut(), Status::INVALID_VALUE),
        ("negative extent", |theirs| theirs.shape[0] = -3, Status::INVALID_VALUE),
        (
            "too many elements",
            |theirs| (theirs.shape[0], theirs.shape[1]) = (i64::MAX, i64::MAX),
            Status::INVALID_VALUE,
        ),
        ("too many bytes", |theirs| theirs.shape[0] = i64::MAX / 8, Status::OUT_OF_MEMORY),
        ("no memory", |theirs| theirs.tensor.dl_tensor.data = null_mut(), Status::INVALID_VALUE),
        ("offset", |theirs| theirs.tensor.dl_tensor.byte_offset = 2, Status::INVALID_VALUE),
        ("offset beyond", |theirs| theirs.tensor.dl_tensor.byte_offset = u64::MAX - 3, Status::INVALID_VALUE),
        ("a GPU", |theirs| theirs.tensor.dl_tensor.device.device_type = DLDeviceType::CUDA, Status::INVALID_DEVICE),
        (
            "unknown device",
            |theirs| theirs.tensor.dl_tensor.device.device_type = DLDeviceType(77),
            Status::INVALID_DEVICE,
        ),
    ];
    for (name, change, status) in wrong {
        let (tensor, deleted) = Theirs::tensor(vec![1; 12], &[3, 4], change);
        let error = tensor.into_buffer::<u32>(&context, None).unwrap_err();
        assert_eq!((error.status(), error.kind()), (*status, ErrorKind::Argument), "{name}: {error}");
        until(name, || deleted.load(Ordering::SeqCst) == 1);
    }
    let (raw, deleted) = Theirs::raw(vec![1; 12], &[3, 4], |theirs| theirs.tensor.version.major = 2);
    // SAFETY: nobody else has the pointer.
    let error = unsafe { ManagedTensor::from_versioned(raw) }.unwrap_err();
    assert_eq!((error.status(), deleted.load(Ordering::SeqCst)), (Status::NOT_SUPPORTED, 1));
    // Strides of dimensions with one element, or of nothing, mean nothing.
    for (shape, strides, length) in [([1, 12], [77, 1], 12), ([12, 1], [1, 0], 12), ([0, 12], [5, 5], 0)] {
        let (tensor, _) = Theirs::tensor(vec![1; 12], &shape, |theirs| theirs.strides = strides.to_vec());
        assert_eq!(tensor.into_buffer::<u32>(&context, None).unwrap().len(), length);
        flush_deferred_drops();
    }
}

#[test]
fn streams_that_cannot_order_an_import_are_refused() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (tensor, deleted) = Theirs::tensor(vec![1; 4], &[4], |_| ());
    let mut tensor = Some(tensor);
    let captured = stream.capture(CaptureMode::Global, |_| {
        let error = tensor.take().unwrap().into_buffer::<u32>(&context, Some(&stream)).unwrap_err();
        assert_eq!(error.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        Ok(())
    });
    assert!(captured.unwrap().nodes().unwrap().is_empty());
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
    let other = host().create_stream().unwrap();
    let (tensor, deleted) = Theirs::tensor(vec![1; 4], &[4], |_| ());
    let error = tensor.into_buffer::<u32>(&context, Some(&other)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    until("the deletion", || deleted.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_tensor_is_deleted_inside_of_a_host_function() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u32; 100]).unwrap();
    let tensor = exported(ManagedTensor::export(buffer, &[100], Some(&stream)));
    stream.launch_host_func(move || drop(tensor)).unwrap();
    stream.synchronize().unwrap();
    flush_deferred_drops();
    stream.synchronize().unwrap();
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty() && report.allocations.is_empty(), "{report:?}");
}

#[test]
fn safety_95_a_tensor_that_comes_back_follows_the_work_that_used_it() {
    let context = host();
    let stream = context.create_stream().unwrap();
    // Contexts of the same driver wait in their streams, and those of another one on the host.
    for is_of_another_instance in [false, true] {
        for has_stream in [false, true] {
            let other_context = if is_of_another_instance { host() } else { context.clone() };
            let other = other_context.create_stream().unwrap();
            let mut memory = stream.upload(&[1u32; 64]).unwrap();
            let signal = hold(&context, &stream);
            stream.fill(&mut memory, 2u32).unwrap();
            let tensor = exported(ManagedTensor::export(memory, &[64], Some(&stream)));
            // A moment later, so that a use that does not wait is seen.
            let opening = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                signal.set(1);
            });
            let buffer = tensor.into_buffer::<u32>(&other_context, has_stream.then_some(&other)).unwrap();
            assert_eq!(other.download(&buffer).unwrap(), [2; 64]);
            opening.join().unwrap();
        }
    }
}

#[test]
fn safety_95_memory_that_a_graph_allocates_is_not_exported() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        for consumer in [None, Some(&other)] {
            let memory = scope.allocate_zeroed::<u32>(16)?;
            let (error, memory) = ManagedTensor::export(memory, &[16], consumer).unwrap_err();
            assert_eq!(error.status(), Status::INVALID_VALUE);
            drop(memory);
        }
        Ok(())
    });
    let executable = graph.unwrap().instantiate().unwrap();
    executable.launch(&stream).unwrap();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn registered_memory_is_imported_while_other_memory_is_to_be_unregistered() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let register = || context.register_pinned(vec![1u32; 64]).map_err(|(error, _)| error).unwrap();
    let mut pending = register();
    let signal = hold(&context, &stream);
    stream.fill(&mut pending, 2u32).unwrap();
    drop(pending);
    let tensor = exported(ManagedTensor::export(register(), &[64], None));
    let buffer = tensor.into_buffer::<u32>(&context, None).unwrap();
    signal.set(1);
    assert_eq!(stream.download(&buffer).unwrap(), [1; 64]);
}

#[test]
fn a_buffer_is_shared_with_its_consumer() {
    let context = checked_host();
    let (stream, consumer) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let memory = Arc::new(stream.upload(&[1u32, 2, 3, 4]).unwrap());
    assert_eq!(ManagedTensor::device_of(&*memory).unwrap().device_type, DLDeviceType::CPU);
    // SAFETY: nobody uses the memory but this thread, in work that is ordered.
    let tensor = unsafe { ManagedTensor::share(memory.clone(), 1, &[3], Some(&consumer)) }.unwrap();
    assert_eq!((tensor.shape(), tensor.is_read_only()), (&[3][..], false));
    // What the consumer submits by its handle, nobody has noted before the tensor is deleted.
    let signal = hold(&context, &consumer);
    drop(tensor);
    let part = memory.slice(..).unwrap();
    let before = stream.orders_inserted();
    // SAFETY: nobody else submits work meanwhile, and nobody has references to the elements.
    stream.fill(unsafe { part.assume_exclusive() }, 7u32).unwrap();
    assert_eq!(stream.orders_inserted(), before + 1);
    assert!(!stream.query().unwrap());
    signal.set(1);
    assert_eq!(stream.download(&*memory).unwrap(), [7; 4]);
}

#[test]
fn memory_that_is_shared_lives_as_long_as_its_tensor() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let memory = Arc::new(stream.upload(&[1u32, 2]).unwrap());
    let address = memory.device_pointer();
    // SAFETY: nobody uses the memory but this thread.
    let tensor = unsafe { ManagedTensor::share(memory.clone(), 0, &[2], None) }.unwrap();
    drop(memory);
    let buffer = tensor.into_buffer::<u32>(&context, None).unwrap();
    assert_eq!((buffer.device_pointer(), stream.download(&buffer).unwrap()), (address, vec![1, 2]));
    let memory = Arc::new(stream.upload(&[1u32, 2]).unwrap());
    // SAFETY: as before.
    let error = unsafe { ManagedTensor::share(memory, 0, &[3], None) }.unwrap_err();
    assert_eq!(error.status(), Status::INVALID_VALUE);
}

#[test]
fn safety_131_attached_memory_does_not_become_a_tensor() {
    let context = host();
    let (own, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for (attachment, consumer) in [
        (MemoryAttachment::Single, None),
        (MemoryAttachment::Single, Some(&own)),
        (MemoryAttachment::Single, Some(&other)),
        (MemoryAttachment::Host, None),
        (MemoryAttachment::Host, Some(&own)),
    ] {
        let mut memory = context.allocate_managed::<u32>(8).unwrap();
        own.attach(&mut memory, attachment).unwrap();
        let (refused, mut memory) = ManagedTensor::export(memory, &[8], consumer).map(drop).unwrap_err();
        assert_eq!(refused.status(), Status::ILLEGAL_STATE, "{refused}");
        assert!(refused.to_string().contains("Stream::attach"), "{refused}");
        own.attach(&mut memory, MemoryAttachment::Global).unwrap();
        let tensor = ManagedTensor::export(memory, &[8], consumer).unwrap();
        other.fill(&mut tensor.into_buffer::<u32>(&context, None).unwrap(), 1).unwrap();
    }
}
