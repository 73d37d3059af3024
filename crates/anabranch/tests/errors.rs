//! Bad input: one typed error that names the operation and the remedy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    BackendKind, BatchCopy, BatchRegion, CaptureMode, ConditionalKind, DualModule, ErrorKind, HostFunction, HostModule,
    Instance, LaunchConfig, MemoryPoolOptions, Module, NodeWork, Region, Status, StreamFlags, Volume, VolumeMut,
};
use common::host;

#[track_caller]
fn says(error: &anabranch::Error, status: Status, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    assert!(!text.contains('\n') && !text.contains("  "), "more than one line, or too many spaces: {text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn a_capture_that_is_in_the_way_is_that_of_another_stream() {
    let instance = Instance::builder().cuda(false).isolated().host_devices(2).build().unwrap();
    let [context, peer] = ["host:0", "host:1"].map(|device| instance.device(device).unwrap().context().unwrap());
    let pool = context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap();
    let (captures, stream) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = stream.record_event().unwrap();
    let parts = ["another stream captures", "exchange_capture_mode"];
    let graph = context.create_graph().unwrap();
    for call in 0..12 {
        captures.begin_capture(CaptureMode::Global).unwrap();
        let asked = std::thread::scope(|scope| {
            let ask = || match call {
                0 => stream.query().map(drop),
                1 => stream.synchronize(),
                2 => event.query().map(drop),
                3 => event.synchronize(),
                4 => context.allocate_pinned::<u8>(1 << 20).map(drop),
                5 => context.device().create_memory_pool(&MemoryPoolOptions::default()).map(drop),
                6 => context.enable_peer_access(&peer),
                7 => pool.trim(0),
                8 => pool.used_bytes().map(drop),
                9 => pool.set_release_threshold(1),
                10 => graph.instantiate().map(drop),
                _ => stream.allocate_zeroed::<u8>(1 << 10).map(drop),
            };
            scope.spawn(ask).join().unwrap()
        });
        says(&asked.unwrap_err(), Status::STREAM_CAPTURE_UNSUPPORTED, &parts);
        // Its own capture.
        let own = captures.query().unwrap_err().to_string();
        assert!(!own.contains(parts[0]), "{own}");
        captures.end_capture().unwrap_err();
    }
}

#[test]
fn device_names() {
    let instance = Instance::builder().cuda(false).host_devices(2).build().unwrap();
    says(&instance.device("gpu").unwrap_err(), Status::INVALID_DEVICE, &["`gpu`", "host", "cuda:N"]);
    says(&instance.device("host:2").unwrap_err(), Status::INVALID_DEVICE, &["host:2", "there are host:0 and host:1"]);
    let one = Instance::builder().cuda(false).host_devices(1).build().unwrap();
    says(
        &one.device("host:1").unwrap_err(),
        Status::INVALID_DEVICE,
        &["no such device; the only one is host:0; set ANABRANCH_HOST_DEVICES to have more"],
    );
    let amd = one.device("hip:0").unwrap_err();
    says(&amd, Status::NO_DEVICE, &["hip:0", "AMD GPUs are not supported yet", "`host`"]);
    assert!(!amd.to_string().contains("host:0"), "{amd}");
    let error = instance.device("cuda:0").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Absent);
    says(&error, Status::NO_DEVICE, &["cuda:0", "left out"]);
}

#[test]
fn safety_27_a_missing_library_is_data() {
    let instance = Instance::new().unwrap();
    for absent in instance.absent_backends() {
        assert!(!absent.absence.reason.is_empty() && !absent.absence.remedy.is_empty());
    }
    let cuda = instance.devices().iter().any(|device| device.backend() == BackendKind::Cuda);
    assert_ne!(cuda, instance.absent_backends().iter().any(|absent| absent.backend == BackendKind::Cuda));
    assert!(instance.devices().iter().any(|device| device.backend() == BackendKind::Host));
}

#[test]
fn no_back_end_at_all() {
    let instance = Instance::builder().cuda(false).host(false).build().unwrap();
    if std::env::var_os(anabranch::DEVICE_VARIABLE).is_none_or(|name| name.is_empty()) {
        says(&instance.default_device().unwrap_err(), Status::NO_DEVICE, &["no back end"]);
    }
    assert_eq!(instance.absent_backends().len(), 2);
}

#[test]
fn options_that_make_no_sense() {
    for builder in [Instance::builder().host_devices(0), Instance::builder().host_workers(0)] {
        says(&builder.build().unwrap_err(), Status::INVALID_VALUE, &["at least 1"]);
    }
}

#[test]
fn copies_of_unequal_lengths() {
    let stream = host().create_stream().unwrap();
    let (mut four, five) = (stream.upload(&[0u8; 4]).unwrap(), stream.upload(&[0u8; 5]).unwrap());
    says(&stream.copy(&mut four, &five).unwrap_err(), Status::INVALID_VALUE, &["4 elements", "source 5"]);
    says(&stream.copy_from_host(&mut four, &[1]).unwrap_err(), Status::INVALID_VALUE, &["4 elements"]);
    says(&four.slice(3..5).unwrap_err(), Status::INVALID_VALUE, &["3 to 5", "4 elements"]);
    let region = Region { extent: [3, 2, 1], ..Region::default() };
    let error = stream.copy_region(VolumeMut::new(&mut four, 2, 2), Volume::new(&five, 2, 2), &region).unwrap_err();
    says(&error, Status::INVALID_VALUE, &["rows of 2 elements"]);
}

#[test]
fn safety_16_a_buffer_of_another_context() {
    let instance = Instance::builder().cuda(false).host_devices(2).build().unwrap();
    let first = instance.device("host:0").unwrap().context().unwrap().create_stream().unwrap();
    let second = instance.device("host:1").unwrap().context().unwrap().create_stream().unwrap();
    let (a, mut b) = (first.upload(&[1u8; 4]).unwrap(), second.upload(&[2u8; 4]).unwrap());
    says(&first.copy(&mut b, &a).unwrap_err(), Status::INVALID_HANDLE, &["another context", "copy_peer"]);
    second.copy_peer(&mut b, &a).unwrap();
    assert_eq!(second.download(&b).unwrap(), [1; 4]);
    let elsewhere = host().create_stream().unwrap();
    says(&elsewhere.copy_peer(&mut b, &a).unwrap_err(), Status::INVALID_HANDLE, &["another context"]);
}

#[test]
fn safety_1_arguments_that_do_not_fit_the_kernel() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().host_function(HostFunction::new("two", &[8, 4], |_, _| {})).load(&context).unwrap();
    let kernel = module.kernel("two").unwrap();
    let (memory, config) = (stream.upload(&[0u32]).unwrap(), LaunchConfig::new(1, 1));
    // SAFETY: the kernel does nothing, and these launches are refused.
    let errors = unsafe {
        [
            stream.launch(&kernel, &config, (&memory,)).unwrap_err(),
            stream.launch(&kernel, &config, (&memory, 1u32, 2u32)).unwrap_err(),
            stream.launch(&kernel, &config, (&memory, 1u64)).unwrap_err(),
        ]
    };
    for error in &errors {
        says(error, Status::INVALID_VALUE, &["`two`", "[8, 4]"]);
    }
    says(&module.kernel("three").unwrap_err(), Status::NOT_FOUND, &["`three`", "its only one is `two`"]);
}

#[test]
fn launches_that_do_not_fit_the_device() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().host_function(HostFunction::new("none", &[], |_, _| {})).load(&context).unwrap();
    let kernel = module.kernel("none").unwrap();
    let launch = |config: LaunchConfig| {
        // SAFETY: the kernel does nothing, and these launches are refused.
        unsafe { stream.launch(&kernel, &config, ()) }.unwrap_err()
    };
    says(&launch(LaunchConfig::new(0, 1)), Status::INVALID_VALUE, &["the grid [0, 1, 1] has no blocks"]);
    says(&launch(LaunchConfig::new(1, (0, 1))), Status::INVALID_VALUE, &["has no threads"]);
    says(&launch(LaunchConfig::new(1, 2048)), Status::INVALID_VALUE, &["2048 threads", "1024"]);
    let config = LaunchConfig::new(1, 1);
    says(&launch(config.dynamic_shared_bytes(1 << 20)), Status::INVALID_VALUE, &["1048576 bytes of shared memory"]);
    says(&launch(config.dynamic_shared_bytes(1 << 16)), Status::INVALID_VALUE, &["MaxDynamicSharedBytes"]);
}

#[test]
fn a_graph_with_conditions_has_one_executable_graph() {
    let stream = host().create_stream().unwrap();
    let (wanted, mut word) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    let graph = stream
        .capture(CaptureMode::Global, |scope| scope.capture_if(&wanted, |part| part.fill(&mut word, 1u32)))
        .unwrap();
    let _first = graph.instantiate().unwrap();
    says(&graph.instantiate().unwrap_err(), Status::NOT_SUPPORTED, &["conditional nodes has one executable graph"]);
}

#[test]
fn out_of_memory() {
    let stream = host().create_stream().unwrap();
    says(&stream.allocate_zeroed::<u8>(1 << 50).unwrap_err(), Status::OUT_OF_MEMORY, &["allocating", "trim"]);
    says(&stream.allocate_zeroed::<u64>(usize::MAX / 2).unwrap_err(), Status::OUT_OF_MEMORY, &["address space"]);
}

#[test]
fn code_for_another_kind_of_device() {
    let context = host();
    // SAFETY: the software device takes no binary.
    let error = unsafe { Module::load_binary(&context, b"\x7fELF") }.unwrap_err();
    says(&error, Status::NOT_SUPPORTED, &["functions in Rust", "PTX"]);
    says(&Module::load_ptx(&context, ".version 8.0").unwrap_err(), Status::INVALID_PTX, &["target"]);
    let error = DualModule::new().load(&context).unwrap_err();
    says(&error, Status::NO_BINARY_FOR_GPU, &["no host functions", "DualModule"]);
    // SAFETY: there is no such file.
    let error = unsafe { Module::load_file(&context, "no/such/file.ptx") }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    says(&error, Status::FILE_NOT_FOUND, &["no/such/file.ptx"]);
}

#[test]
fn names_that_no_driver_can_find_are_refused_when_they_are_loaded() {
    let context = host();
    for name in ["", "two\0names"] {
        let function = HostFunction::new(name, &[], |_, _| ());
        let error = DualModule::new().host_function(function).load(&context).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_IMAGE, "{error}");
        assert!(error.to_string().contains("name"), "{error}");
        let module = HostModule::new().with_global(name, 4);
        let error = Module::load_host(&context, &module).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_IMAGE, "{error}");
    }
}

/// A host function of the library makes these copies. What is refused is what the program has asked for.
#[test]
fn copies_between_host_memory_say_what_they_are() {
    let context = host();
    let isolated = Instance::builder().cuda(false).isolated().build().unwrap();
    let other = isolated.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let [mut retained, mut foreign] = [&context, &other].map(|context| context.allocate_pinned::<u32>(4).unwrap());
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    stream.fill(&mut retained, 0u32).unwrap();
    let _graph = stream.end_capture().unwrap();
    let region = Region { extent: [2, 1, 1], ..Region::default() };
    says(&stream.copy(&mut retained, &foreign).unwrap_err(), Status::INVALID_HANDLE, &["copying on stream"]);
    let batch = [BatchCopy::new(&mut retained, &foreign).unwrap()];
    says(&stream.copy_batch(batch).unwrap_err(), Status::INVALID_HANDLE, &["copying a batch on stream"]);
    let batch = [BatchCopy::from_host(&mut foreign, &[1, 2, 3, 4]).unwrap()];
    says(&stream.copy_batch(batch).unwrap_err(), Status::INVALID_HANDLE, &["copying a batch on stream"]);
    let from = || Volume::new(&foreign, 4, 1);
    let refused = stream.copy_region(VolumeMut::new(&mut retained, 4, 1), from(), &region).unwrap_err();
    says(&refused, Status::INVALID_HANDLE, &["copying a region on stream"]);
    let batch = [BatchRegion::new(VolumeMut::new(&mut retained, 4, 1), from(), &region).unwrap()];
    let refused = stream.copy_region_batch(batch).unwrap_err();
    says(&refused, Status::INVALID_HANDLE, &["copying a batch of regions on stream"]);
}

#[test]
fn operations_made_in_a_scope_name_themselves() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut buffer, mut plain) = (stream.upload(&[0u32; 4]).unwrap(), [0u32; 4]);
    let region = Region { source_origin: [0; 3], destination_origin: [0; 3], extent: [2, 2, 1] };
    let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .align 4 .u32 v;\n";
    let module = Module::load_ptx(&context, ptx).unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    for (name, refused) in [
        ("copying on", stream.download(&buffer).map(drop)),
        ("copying on", stream.copy_to_host(&mut plain, &buffer)),
        ("copying on", stream.copy_from_host(&mut buffer, &plain)),
        ("copying a region", stream.copy_region_to_host(&mut plain, 2, 2, Volume::new(&buffer, 2, 2), &region)),
        ("copying a region", stream.copy_region_from_host(VolumeMut::new(&mut buffer, 2, 2), &plain, 2, 2, &region)),
        ("setting a global variable", module.set_global(&stream, "v", &[1u32])),
        ("entering a scope", stream.sync_scope(|_| Ok(()))),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        assert!(refused.to_string().starts_with(name), "{name}: {refused}");
    }
    stream.end_capture().unwrap();
}

#[test]
fn calls_of_an_invalidated_capture_say_that_it_is() {
    let context = host();
    let stream = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(4).unwrap();
    let child = context.create_graph().unwrap();
    let (event, legacy) = (context.create_event().unwrap(), context.legacy_stream().unwrap());
    stream.synchronize().unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    stream.record(&event).unwrap();
    legacy.fill(&mut buffer, 1).unwrap_err();
    assert_eq!(stream.capture_child(&child).unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    for refused in [stream.wait_event(&event).unwrap_err(), event.query().unwrap_err()] {
        assert!(refused.to_string().contains("was invalidated"), "{refused}");
    }
    assert_eq!(stream.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn memory_of_the_driver_is_not_registered() {
    let context = host();
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let refused = context.register_scope(pinned.as_mut_slice().unwrap(), |_| Ok(())).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    assert!(refused.to_string().contains("pinned or managed already"), "{refused}");
}

#[test]
fn a_node_that_no_body_can_have_is_explained() {
    let mut graph = host().create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
    graph.body(node, 0).unwrap().add((), NodeWork::host_func(|| ())).unwrap();
    let error = graph.instantiate().unwrap_err();
    says(
        &error,
        Status::INVALID_VALUE,
        &["body of a conditional node", "conditional bodies hold only kernels, copies"],
    );
}
