//! Streams, events, host work, and what the device says of itself.

use crate::kernels::{PTX, spin};
use crate::support::{DEVICE, Gpu, live};
use anabranch_hal::{
    ContextFlags, Contexts, DeviceOrdinal, DevicePointer, Devices, EventFlags, EventRecordFlags, EventWaitFlags,
    Events, HostWork, Live, Memory, Modules, Status, StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle,
    Streams, SynchronizationPolicy, Value, WaitValueFlags, WriteValueFlags,
};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_device_has_properties() {
    let Some(gpu) = Gpu::find() else { return };
    let count = gpu.device_count().expect("the driver can say");
    assert!(count >= 1);
    let properties = gpu.device_properties(DEVICE).expect("the device is there");
    assert!(!properties.name.is_empty() && properties.uuid != [0; 16], "{properties:?}");
    assert!(properties.warp_size == 32 && properties.total_memory > 1 << 28, "{properties:?}");
    assert!(properties.priority_range.greatest <= properties.priority_range.least, "{properties:?}");
    eprintln!("{properties:#?}");
    assert_eq!(gpu.device_properties(DeviceOrdinal(count)).unwrap_err().status, Status::INVALID_DEVICE);
    assert_eq!(gpu.primary_context_retain(DeviceOrdinal(u32::MAX)).unwrap_err().status, Status::INVALID_DEVICE);
}

#[test]
fn a_stream_says_what_it_is() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let range = gpu.device_properties(DEVICE).expect("the device is there").priority_range;
        let stream =
            live(gpu.stream_create(&gpu.context.into(), StreamFlags::empty(), range.greatest - 100).expect("a stream"));
        assert_eq!(gpu.stream_priority(&gpu.context.into(), stream), Ok(range.greatest));
        assert_eq!(gpu.stream_flags(&gpu.context.into(), stream), Ok(StreamFlags::empty()));
        assert_eq!(gpu.stream_flags(&gpu.context.into(), gpu.stream), Ok(StreamFlags::NON_BLOCKING));
        assert_ne!(gpu.stream_id(&gpu.context.into(), stream), gpu.stream_id(&gpu.context.into(), gpu.stream));
        for stream in [stream, Live::<StreamHandle>::NULL, Live::LEGACY, Live::PER_THREAD] {
            assert_eq!(gpu.stream_context(&gpu.context.into(), stream), Ok(gpu.context.handle()));
            gpu.stream_id(&gpu.context.into(), stream).expect("every stream has an id");
            gpu.stream_synchronize(&gpu.context.into(), stream).expect("nothing is queued");
            gpu.stream_query(&gpu.context.into(), stream).expect("nothing is queued");
        }
        let kind = StreamAttributeKind::SynchronizationPolicy;
        let policy = StreamAttribute::SynchronizationPolicy(SynchronizationPolicy::BlockingSync);
        gpu.stream_attribute(&gpu.context.into(), stream, kind).expect("there is a policy before one is set");
        gpu.stream_set_attribute(&gpu.context.into(), stream, &policy).expect("it can be set");
        assert_eq!(gpu.stream_attribute(&gpu.context.into(), stream, kind), Ok(policy));
        gpu.stream_attribute(&gpu.context.into(), stream, StreamAttributeKind::AccessPolicyWindow).expect("a window");
        gpu.stream_destroy(&gpu.context.into(), stream.handle()).expect("it is ours");
        let legacy = gpu.stream_destroy(&gpu.context.into(), Live::<StreamHandle>::NULL.handle()).unwrap_err();
        assert_eq!(legacy.status, Status::INVALID_HANDLE);
    }
}

#[test]
fn events_order_streams_and_tell_the_time() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "spin");
        let other = live(gpu.stream_create(&gpu.context.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        let [start, end] =
            [(); 2].map(|()| live(gpu.event_create(&gpu.context.into(), EventFlags::empty()).expect("an event")));
        let unrecorded = gpu.event_elapsed(&gpu.context.into(), start, end).unwrap_err();
        assert_eq!(unrecorded.status, Status::INVALID_HANDLE);

        gpu.event_record(&gpu.context.into(), start, gpu.stream, EventRecordFlags::empty()).expect("a record");
        spin(&gpu, function, 50);
        gpu.event_record(&gpu.context.into(), end, gpu.stream, EventRecordFlags::empty()).expect("a record");
        gpu.stream_wait_event(&gpu.context.into(), other, end, EventWaitFlags::empty()).expect("a wait");
        for pending in [
            gpu.event_query(&gpu.context.into(), end),
            gpu.stream_query(&gpu.context.into(), gpu.stream),
            gpu.stream_query(&gpu.context.into(), other),
        ] {
            assert_eq!(pending.map_err(|failure| failure.status), Err(Status::NOT_READY));
        }
        gpu.stream_synchronize(&gpu.context.into(), other).expect("the work succeeds");
        gpu.event_query(&gpu.context.into(), end).expect("the other stream waited for it");
        gpu.event_synchronize(&gpu.context.into(), end).expect("the work succeeds");
        let milliseconds = gpu.event_elapsed(&gpu.context.into(), start, end).expect("both are complete");
        assert!((49.0..5000.0).contains(&milliseconds), "{milliseconds}");

        let external = gpu.event_record(&gpu.context.into(), end, gpu.stream, EventRecordFlags::EXTERNAL).unwrap_err();
        assert_eq!(external.status, Status::ILLEGAL_STATE);
        let refused = gpu.event_create(&gpu.context.into(), EventFlags::INTERPROCESS).unwrap_err();
        assert_eq!(refused.status, Status::INVALID_VALUE, "it takes the time");
        for event in [start, end] {
            gpu.event_destroy(&gpu.context.into(), event.handle()).expect("it is ours");
        }
        gpu.stream_destroy(&gpu.context.into(), other.handle()).expect("it is ours");
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn host_work_runs_in_order_and_after_the_device() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "spin");
        let (sender, receiver) = mpsc::channel();
        spin(&gpu, function, 20);
        for stream in [gpu.stream, Live::PER_THREAD] {
            for number in 0..3 {
                let sender = sender.clone();
                gpu.stream_launch_host_function(
                    &gpu.context.into(),
                    stream,
                    HostWork::new(move || sender.send(number).unwrap()),
                )
                .expect("host work");
            }
            let sender = sender.clone();
            gpu.stream_add_callback(
                &gpu.context.into(),
                stream,
                Box::new(move |status| sender.send(status.0 + 3).unwrap()),
            )
            .expect("a callback");
            gpu.stream_synchronize(&gpu.context.into(), stream).expect("the work succeeds");
            let order: Vec<i32> = (0..4).map(|_| receiver.recv_timeout(SOON).expect("it has run")).collect();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
        drop(sender);
        let left = receiver.recv_timeout(SOON);
        assert_eq!(left, Err(mpsc::RecvTimeoutError::Disconnected), "every closure was dropped");
    }
}

#[test]
fn unwinding_host_work_does_not_end_the_process() {
    let Some(gpu) = Gpu::find() else { return };
    let (sender, receiver) = mpsc::channel();
    let unwinding = HostWork::new(|| std::panic::resume_unwind(Box::new("on the driver's thread")));
    gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, unwinding).expect("host work");
    let unwinding = Box::new(|_| std::panic::resume_unwind(Box::new("on the driver's thread")));
    gpu.stream_add_callback(&gpu.context.into(), gpu.stream, unwinding).expect("a callback");
    let later = HostWork::new(move || sender.send(()).unwrap());
    gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, later).expect("host work");
    gpu.synchronize();
    assert_eq!(receiver.recv_timeout(SOON), Ok(()), "later work runs");
}

#[test]
fn a_stream_waits_for_a_value_that_another_writes() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(16);
        gpu.upload(memory, &[0; 16]);
        let other = live(gpu.stream_create(&gpu.context.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        let wait = |address, value| {
            gpu.stream_wait_value(&gpu.context.into(), gpu.stream, address, value, WaitValueFlags::GREATER_OR_EQUAL)
        };
        let write = |address, value| {
            gpu.stream_write_value(&gpu.context.into(), other, address, value, WriteValueFlags::empty())
                .expect("a write");
        };
        wait(memory, Value::U32(5)).expect("a wait");
        wait(memory.byte_add(8), Value::U64(1 << 40)).expect("a wait");
        assert_eq!(gpu.stream_query(&gpu.context.into(), gpu.stream).unwrap_err().status, Status::NOT_READY);
        write(memory, Value::U32(6));
        write(memory.byte_add(8), Value::U64(1 << 40));
        gpu.synchronize();
        assert_eq!(wait(memory.byte_add(2), Value::U32(0)).unwrap_err().status, Status::INVALID_VALUE);
        gpu.stream_synchronize(&gpu.context.into(), other).expect("the work succeeds");
        gpu.stream_destroy(&gpu.context.into(), other.handle()).expect("it is ours");
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn a_context_of_its_own_completes_its_work_before_it_goes() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let context = live(gpu.context_create(DEVICE, ContextFlags::empty()).expect("a context"));
        let (sender, receiver) = mpsc::channel();
        let stream = live(gpu.stream_create(&context.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        let own = gpu.stream_context(&gpu.context.into(), stream);
        assert_eq!(own, Ok(context.handle()), "whichever context is asked");
        let memory = Memory::allocate(&*gpu, &context.into(), 16).expect("device memory");
        assert_ne!(memory, DevicePointer::NULL);
        let (open, gate) = mpsc::channel::<()>();
        let waits = HostWork::new(move || {
            let _ = gate.recv_timeout(SOON);
            sender.send(()).unwrap();
        });
        gpu.stream_launch_host_function(&context.into(), stream, waits).expect("host work");
        std::thread::scope(|scope| {
            scope.spawn(move || drop(open));
            gpu.context_destroy(&context.into()).expect("it is ours");
        });
        assert_eq!(receiver.try_recv(), Ok(()), "it ran before the context went");
    }
}

#[test]
fn an_event_can_be_handed_to_another_process() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let flags = EventFlags::DISABLE_TIMING | EventFlags::INTERPROCESS;
        let event = live(gpu.event_create(&gpu.context.into(), flags).expect("an event"));
        let exported = gpu.event_export(&gpu.context.into(), event).expect("the device can");
        assert_ne!(exported.0, [0; 64]);
        gpu.event_destroy(&gpu.context.into(), event.handle()).expect("it is ours");
    }
}
