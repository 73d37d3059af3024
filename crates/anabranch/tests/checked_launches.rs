//! Launches that safe code makes, of Rust closures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, DevicePointer, DualModule, HostArguments, HostFunction, Instance, Kernel,
    LaunchConfig, NodeWork, Status, Stream, flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use common::{hold, host};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A closure as a kernel of so many parameters for memory.
fn kernel(context: &Context, parameters: usize, body: impl Fn(&HostArguments<'_>) + Send + Sync + 'static) -> Kernel {
    let function = HostFunction::new("kernel", &vec![8; parameters], move |_, arguments| body(arguments));
    DualModule::new().host_function(function).load(context).unwrap().kernel("kernel").unwrap()
}

/// One block, and many at the same time.
fn one_and_many() -> [LaunchConfig<'static>; 2] {
    [LaunchConfig::new(1, 1), LaunchConfig::new(100_000, 1)]
}

#[test]
fn safety_1_a_closure_that_misuses_its_arguments_does_no_harm() {
    type Misuse = fn(&HostArguments<'_>);
    let misuses: [(&str, Status, Misuse); 8] = [
        ("written beyond the end", Status::ILLEGAL_ADDRESS, |arguments| arguments.slice::<u32>(0).set(4, 1)),
        ("read beyond the end", Status::ILLEGAL_ADDRESS, |arguments| _ = arguments.slice::<u32>(1).get(4)),
        ("written, though lent to read", Status::ILLEGAL_ADDRESS, |arguments| arguments.slice::<u32>(1).set(0, 1)),
        ("updated, though lent to read", Status::ILLEGAL_ADDRESS, |arguments| {
            arguments.slice::<u32>(1).fetch_update(0, |value| value + 1);
        }),
        ("an address as memory", Status::ILLEGAL_ADDRESS, |arguments| arguments.slice::<u32>(2).set(0, 1)),
        ("no such argument", Status::ILLEGAL_ADDRESS, |arguments| arguments.slice::<u32>(3).set(0, 1)),
        ("a value of another size", Status::LAUNCH_FAILED, |arguments| _ = arguments.scalar::<u32>(2)),
        ("written as elements of two sizes", Status::LAUNCH_FAILED, |arguments| {
            arguments.slice::<u8>(0).set(0, 1);
            arguments.slice::<u32>(0).set(0, 1);
        }),
    ];
    for (name, status, misuse) in misuses {
        for config in one_and_many() {
            let context = host();
            let stream = context.create_stream().unwrap();
            let mut written = context.allocate_pinned::<u32>(6).unwrap();
            let read = stream.upload(&[5u32; 4]).unwrap();
            let address = read.device_pointer();
            let kernel = kernel(&context, 3, misuse);
            let arguments = (written.slice_mut(1..5).unwrap(), &read, address);
            stream.launch_checked(&kernel, &config, arguments).unwrap();
            assert_eq!(stream.synchronize().unwrap_err().status(), status, "{name}");
        }
    }
}

#[test]
fn misaligned_memory_is_refused_by_the_kernel() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = kernel(&context, 1, |arguments| arguments.slice::<u32>(0).set(0, 1));
    let mut bytes = stream.upload(&[0u8; 9]).unwrap();
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), (bytes.slice_mut(1..).unwrap(),)).unwrap();
    assert_eq!(stream.synchronize().unwrap_err().status(), Status::MISALIGNED_ADDRESS);
}

#[test]
fn safety_1_a_kernel_that_races_with_itself_has_unspecified_values_and_no_other() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let race = kernel(&context, 2, |arguments| {
        let (data, others) = (arguments.slice::<u64>(0), arguments.slice::<u64>(1));
        data.set(0, if data.get(0) == others.get(0) { others.get(1) } else { others.get(0) });
    });
    let values = [u64::MAX, 0x0123_4567_89ab_cdef];
    let (mut data, others) = (stream.upload(&values[..1]).unwrap(), stream.upload(&values).unwrap());
    stream.launch_checked(&race, &LaunchConfig::new(50_000, 2), (&mut data, &others)).unwrap();
    let found = stream.download(&data).unwrap();
    assert!(values.contains(&found[0]), "{found:x?}");
}

#[test]
fn a_checked_launch_is_in_order_with_other_work() {
    let context = host();
    let (first, second) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let increment = kernel(&context, 1, |arguments| _ = arguments.slice::<u32>(0).fetch_update(0, |count| count + 1));
    let mut counter = first.upload(&[0u32]).unwrap();
    let signal = hold(&context, &first);
    let launch = |stream: &Stream, counter: &mut Buffer<u32>| {
        stream.launch_checked(&increment, &LaunchConfig::new(10, 1), (counter,)).unwrap();
    };
    launch(&first, &mut counter);
    launch(&second, &mut counter);
    assert!(!second.query().unwrap(), "the second launch does not wait for the first");
    signal.set(1);
    assert_eq!(second.download(&counter).unwrap(), [20]);
}

#[test]
fn declared_kernels_are_launched_so_too() {
    anabranch::kernels! {
        struct Kernels {
            fn add(data: &mut [u32], terms: &[u32], address: DevicePointer, value: u32);
        }
    }
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().host_function(Kernels::host_function("add", |_, arguments| {
        let (data, terms) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
        data.set(0, terms.get(0) + arguments.scalar::<u32>(3));
    }));
    let kernels = Kernels::load(&module.load(&context).unwrap()).unwrap();
    let (mut data, terms) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[30u32]).unwrap());
    kernels.add(&mut data, &terms, DevicePointer::NULL, 12).launch_checked(&stream, &LaunchConfig::new(1, 1)).unwrap();
    assert_eq!(stream.download(&data).unwrap(), [42]);
}

#[test]
fn safety_1_what_cannot_be_checked_is_refused() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let set = HostFunction::new("set", &[8], |_, arguments| arguments.slice::<u32>(0).set(0, 1));
    let module = DualModule::new().host_function(set).host_global("table", 16).load(&context).unwrap();
    let mut data = stream.upload(&[0u32]).unwrap();
    let config = LaunchConfig::new(1, 1);
    let error = stream.launch_checked(&module.kernel("set").unwrap(), &config, (&mut data,)).unwrap_err();
    assert_eq!((error.status(), error.operation()), (Status::NOT_SUPPORTED, "launching a checked kernel"));
    assert!(error.to_string().contains("global variables") && error.hint().is_some(), "{error}");
    assert_eq!(stream.download(&data).unwrap(), [0]);
}

#[test]
fn checked_launches_are_captured() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let double = kernel(&context, 1, |arguments| _ = arguments.slice::<u32>(0).fetch_update(0, |value| value * 2));
    let mut data = stream.upload(&[0u32]).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |scope| {
        scope.fill(&mut data, 2)?;
        scope.launch_checked(&double, &LaunchConfig::new(1, 1), (&mut data,))?;
        // The memory draws the other stream into the capture.
        other.launch_checked(&double, &LaunchConfig::new(1, 1), (&mut data,))?;
        scope.join(&other)
    });
    let executable = graph.unwrap().instantiate().unwrap();
    drop(double);
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
        assert_eq!(stream.download(&data).unwrap(), [8]);
    }
}

/// A kernel of memory and a number that counts how often it finds the memory used by somebody else.
fn kernel_alone(context: &Context, found: &Arc<AtomicU32>) -> Kernel {
    let (inside, found) = (AtomicBool::new(false), Arc::clone(found));
    let function = HostFunction::new("alone", &[8, 4], move |_, arguments| {
        let (data, mark) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
        let was_inside = inside.swap(true, Ordering::SeqCst);
        data.set(0, mark);
        std::thread::sleep(Duration::from_millis(10));
        if was_inside || data.get(0) != mark {
            found.fetch_add(1, Ordering::SeqCst);
        }
        inside.store(false, Ordering::SeqCst);
    });
    DualModule::new().host_function(function).load(context).unwrap().kernel("alone").unwrap()
}

#[test]
fn safety_88_nodes_that_use_what_a_kernel_writes_wait_for_it() {
    let context = Instance::builder().cuda(false).isolated().host_workers(4).build().unwrap();
    let context = context.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let found = Arc::new(AtomicU32::new(0));
    let (alone, one) = (kernel_alone(&context, &found), LaunchConfig::new(1, 1));
    let mut data = stream.upload(&[0u32; 64]).unwrap();
    let condition = stream.upload(&[1u32]).unwrap();
    let source = stream.upload(&[9u32; 64]).unwrap();
    let child =
        stream.capture(CaptureMode::Relaxed, |scope| scope.launch_checked(&alone, &one, (&mut data, 1))).unwrap();
    let mut graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            (2..6).try_for_each(|mark| scope.launch_checked(&alone, &one, (&mut data, mark)))?;
            scope.capture_if(&condition, |body| body.launch_checked(&alone, &one, (&mut data, 6)))
        })
        .unwrap();
    graph.remove_edges(&graph.edges().unwrap()).unwrap();
    for _ in 0..3 {
        graph.add((), NodeWork::child(&child)).unwrap();
        graph.add((), NodeWork::fill(&mut data, 7u32).unwrap()).unwrap();
        graph.add((), NodeWork::copy(&mut data, &source).unwrap()).unwrap();
    }
    let executable = graph.instantiate().unwrap();
    (0..5).for_each(|_| executable.launch(&stream).unwrap());
    stream.synchronize().unwrap();
    assert_eq!(found.load(Ordering::SeqCst), 0, "a kernel was not alone with the memory that it writes");
}

#[test]
fn safety_44_nodes_that_use_one_buffer_at_the_same_time_leave_unspecified_values() {
    const ELEMENTS: usize = 1 << 12;
    let context = host();
    let stream = context.create_stream().unwrap();
    let rewrite = kernel(&context, 1, |arguments| {
        let data = arguments.slice::<u32>(0);
        (0..data.len()).for_each(|index| data.set(index, data.get(index)));
    });
    let mut data = stream.upload(&[1u32; ELEMENTS]).unwrap();
    let others = stream.upload(&[2u32; ELEMENTS]).unwrap();
    let mut graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.launch_checked(&rewrite, &LaunchConfig::new(1, 1), (&mut data,))?;
            scope.launch_checked(&rewrite, &LaunchConfig::new(1, 1), (&mut data,))
        })
        .unwrap();
    graph.remove_edges(&graph.edges().unwrap()).unwrap();
    for value in [3u32, 4] {
        graph.add((), NodeWork::fill(&mut data, value).unwrap()).unwrap();
        graph.add((), NodeWork::copy(&mut data, &others).unwrap()).unwrap();
    }
    let executable = graph.instantiate().unwrap();
    for _ in 0..20 {
        executable.launch(&stream).unwrap();
    }
    let found = stream.download(&data).unwrap();
    assert!(found.iter().all(|value| (1..=4).contains(value)), "{found:x?}");
}

/// What is a data race if the host device copies plainly is found by Miri and ThreadSanitizer.
#[test]
fn safety_44_threads_that_set_one_variable_leave_whole_words() {
    const WORDS: usize = 256;
    let context = host();
    let found = Arc::new(Mutex::new(Vec::new()));
    let read = HostFunction::new("read", &[], {
        let found = Arc::clone(&found);
        move |_, arguments| {
            let variable = arguments.global::<u32>("variable");
            found.lock().unwrap().extend((0..WORDS).map(|index| variable.get(index)));
        }
    });
    let module = DualModule::new().host_function(read).host_global("variable", 4 * WORDS).load(&context).unwrap();
    let kernel = module.kernel("read").unwrap();
    std::thread::scope(|scope| {
        for value in 1..4u32 {
            let (context, module, kernel) = (&context, &module, &kernel);
            scope.spawn(move || {
                let stream = context.create_stream().unwrap();
                for round in 0..8 {
                    module.set_global(&stream, "variable", &[value; WORDS]).unwrap();
                    // SAFETY: the kernel has no parameters, and only reads the variable.
                    unsafe { stream.launch(kernel, &LaunchConfig::new(1, 1), ()).unwrap() };
                    if round == 4 {
                        stream.synchronize().unwrap();
                    }
                }
            });
        }
    });
    context.synchronize().unwrap();
    let found = found.lock().unwrap();
    assert_eq!(found.len(), 3 * 8 * WORDS);
    assert!(found.iter().all(|value| (1..4).contains(value)), "{found:x?}");
}

#[test]
fn arguments_that_do_not_fit_are_refused_as_ever() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let set = kernel(&context, 1, |arguments| arguments.slice::<u32>(0).set(0, 1));
    let mut data = stream.upload(&[0u32]).unwrap();
    let config = LaunchConfig::new(1, 1);
    assert_eq!(stream.launch_checked(&set, &config, (1u32,)).unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(stream.launch_checked(&set, &config, (&mut data, 1u32)).unwrap_err().status(), Status::INVALID_VALUE);
    let elsewhere = host().create_stream().unwrap();
    let error = elsewhere.launch_checked(&set, &config, (&mut data,)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
}

#[test]
fn safety_12_objects_can_be_dropped_inside_of_a_kernel() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let slot = Arc::new(Mutex::new(None));
    let inside = slot.clone();
    let kernel = kernel(&context, 0, move |_| drop(inside.lock().unwrap().take()));
    let inner = context.create_stream().unwrap();
    let (event, buffer) = (inner.record_event().unwrap(), inner.upload(&[1u8; 100]).unwrap());
    let pinned = context.allocate_pinned::<u8>(100).unwrap();
    *slot.lock().unwrap() = Some((inner, event, buffer, pinned));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = errors.clone();
    // Other tests of this file lose contexts.
    set_drop_error_hook(move |error| {
        if error.status() == Status::NOT_PERMITTED {
            seen.lock().unwrap().push(error.to_string());
        }
    });
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    stream.synchronize().unwrap();
    flush_deferred_drops();
    reset_drop_error_hook();
    assert!(slot.lock().unwrap().is_none());
    assert!(errors.lock().unwrap().is_empty(), "{errors:?}");
}
