//! Modules and kernels.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Fixture, live, status};

fn launch() -> Launch<'static> {
    Launch {
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: None,
        arguments: &[],
        ranges: &[],
    }
}

#[test]
fn every_thread_of_every_block_runs_once() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(300 * 256 * 4));
    let kernel = fixture.function(HostFunction::new("count", &[8], |block, arguments| {
        let counts = arguments.slice::<u32>(0);
        block.phase(|thread, _| {
            counts.fetch_update(thread.global_x(), |count| count + 1);
        });
    }));
    for blocks in [1, 3, 300] {
        fixture.fill(stream, memory, 0, 300 * 256);
        fixture.launch(stream, kernel, blocks, 256, &[(memory, 300 * 256 * 4)]).unwrap();
        let count = blocks as usize * 256;
        fixture.synchronize(stream).unwrap();
        let counts = fixture.read(memory, 300 * 256);
        assert!(counts[..count].iter().all(|&count| count == 1));
        assert!(counts[count..].iter().all(|&count| count == 0));
    }
}

#[test]
fn blocks_have_their_places_in_all_dimensions() {
    let fixture = Fixture::new();
    let (stream, seen) = (fixture.stream(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let sink = Arc::clone(&seen);
    let kernel = fixture.function(HostFunction::new("places", &[], move |block, _| {
        assert_eq!((block.dimensions(), block.grid_dimensions()), ([8, 8, 8], [3, 4, 5]));
        sink.lock().unwrap().push(block.index());
    }));
    let places = Launch { grid: [3, 4, 5], block: [8, 8, 8], ..launch() };
    unsafe { fixture.driver.launch(&fixture.context.into(), stream, kernel, &places) }.unwrap();
    fixture.synchronize(stream).unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable_by_key(|&[x, y, z]| [z, y, x]);
    let all = (0..5).flat_map(|z| (0..4).flat_map(move |y| (0..3).map(move |x| [x, y, z])));
    assert!(seen.iter().copied().eq(all));
}

#[test]
fn all_blocks_finish_a_stage_before_the_next() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let finished = Arc::new(AtomicUsize::new(0));
    let (one, two) = (Arc::clone(&finished), Arc::clone(&finished));
    let kernel = HostFunction::new("stages", &[], move |block, _| {
        if block.index()[0] % 16 == 0 {
            std::thread::yield_now();
        }
        one.fetch_add(1, Ordering::SeqCst);
    })
    .then(move |_, _| assert!(two.fetch_add(1, Ordering::SeqCst) >= 256));
    let kernel = fixture.function(kernel);
    fixture.launch(stream, kernel, 256, 64, &[]).unwrap();
    fixture.synchronize(stream).unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 512);
}

#[test]
fn shared_memory_is_aligned_and_as_large_as_asked() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let lengths = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lengths);
    let kernel = HostFunction::new("shared", &[], move |block, _| {
        let shared = block.shared();
        shared.slice::<u128>().fill(1);
        sink.lock().unwrap().push(shared.len());
    });
    let kernel = fixture.function(kernel.with_static_shared_bytes(32));
    let run = |bytes| {
        let shared = Launch { dynamic_shared_bytes: bytes, ..launch() };
        status(unsafe { driver.launch(&context.into(), stream, kernel, &shared) })
    };
    let set = |bytes| {
        let attribute = FunctionAttribute::MaxDynamicSharedBytes(bytes);
        status(driver.function_set_attribute(&context.into(), kernel, attribute))
    };
    assert_eq!((run(0), run(100), run(48 << 10)), (0, 0, 1));
    assert_eq!((set(232_448), set(232_448 - 32)), (1, 0));
    assert_eq!((run(48 << 10), run(1 << 20)), (0, 1));
    fixture.synchronize(stream).unwrap();
    assert_eq!(*lengths.lock().unwrap(), [32, 132, (48 << 10) + 32]);
}

#[test]
fn launches_are_checked() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let kernel = fixture.function(HostFunction::new("nothing", &[], |_, _| ()));
    let one = |launch: Launch<'_>| status(unsafe { driver.launch(&context.into(), stream, kernel, &launch) });
    assert_eq!(one(launch()), 0);
    assert_eq!(one(Launch { grid: [0, 1, 1], ..launch() }), 1);
    assert_eq!(one(Launch { grid: [1, 65_536, 1], ..launch() }), 1);
    assert_eq!(one(Launch { block: [2048, 1, 1], ..launch() }), 1);
    assert_eq!(one(Launch { block: [32, 32, 2], ..launch() }), 1);
    assert_eq!(one(Launch { block: [1, 1, 65], ..launch() }), 1);
    assert_eq!(one(Launch { dynamic_shared_bytes: 1 << 20, ..launch() }), 1);
    assert_eq!(one(Launch { arguments: &[std::ptr::null()], ..launch() }), 1);
    assert_eq!(one(Launch { grid: [64, 1, 1], cluster: Some([8, 1, 1]), ..launch() }), 0);
    assert_eq!(one(Launch { grid: [64, 1, 1], cluster: Some([16, 1, 1]), ..launch() }), 912);
    assert_eq!(one(Launch { grid: [9, 1, 1], cluster: Some([2, 1, 1]), ..launch() }), 912);
    let cooperative = |blocks| Launch { grid: [blocks, 1, 1], block: [1024, 1, 1], cooperative: true, ..launch() };
    let fitting = driver.function_max_active_blocks(&context.into(), kernel, 1024, 0).unwrap() * 2;
    assert_eq!((one(cooperative(fitting)), one(cooperative(fitting + 1))), (0, 720));
    let null = FunctionHandle::from_raw(0);
    assert_eq!(status(unsafe { driver.launch(&context.into(), stream, live(null), &launch()) }), 400);
    let other = live(driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).unwrap());
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::empty(), 0).unwrap());
    assert_eq!(status(unsafe { driver.launch(&context.into(), foreign, kernel, &launch()) }), 400);
    fixture.synchronize(stream).unwrap();
}

#[test]
fn modules_have_functions_and_globals() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let module = HostModule::new()
        .with_function(HostFunction::new("add", &[8, 4], |_, arguments| {
            let (table, sum) = (arguments.global::<u32>("table"), arguments.slice::<u32>(0));
            sum.set(0, table.get(0) + table.get(1) + arguments.scalar::<u32>(1));
        }))
        // It is the last one of its name that counts.
        .with_global("table", 1)
        .with_global("table", 8);
    unsafe {
        let module = live(driver.module_load(&context.into(), ModuleImage::Host(&module)).unwrap());
        assert_eq!(driver.module_function_names(&context.into(), module).unwrap(), ["add"]);
        assert_eq!(status(driver.module_function(&context.into(), module, "none")), 500);
        assert_eq!(status(driver.module_global(&context.into(), module, "none")), 500);
        let function = live(driver.module_function(&context.into(), module, "add").unwrap());
        let info = driver.function_info(&context.into(), function).unwrap();
        let parameters = [ParameterInfo { offset: 0, size: 8 }, ParameterInfo { offset: 8, size: 4 }];
        assert_eq!(info.parameters.as_deref(), Some(parameters.as_slice()));

        let (table, bytes) = driver.module_global(&context.into(), module, "table").unwrap();
        assert_eq!(bytes, 8);
        assert_eq!(fixture.read(table, 2), [0, 0]);
        assert_eq!(status(driver.free(&context.into(), table)), 1);
        fixture.fill(stream, table, 20, 2);
        let (sum, addend) = (fixture.allocate(4), 2u32);
        let ranges = [DeclaredRange { argument: 0, address: sum.0, bytes: 4, access: Access::Write }];
        let arguments = [(&raw const sum).cast(), (&raw const addend).cast()];
        let add = Launch { arguments: &arguments, ranges: &ranges, ..launch() };
        driver.launch(&context.into(), stream, function, &add).unwrap();
        fixture.synchronize(stream).unwrap();
        assert_eq!(fixture.read(sum, 1), [42]);
        driver.module_unload(&context.into(), module.handle()).unwrap();
        let used = SMALL_MEMORY - driver.memory_info(&context.into()).unwrap().free;
        assert_eq!(used, 4);
    }
}

const SMALL_MEMORY: u64 = support::SMALL.memory_bytes_per_device;

#[test]
fn images_for_other_devices_are_refused_with_a_hint() {
    let fixture = Fixture::new();
    let image = ModuleImage::Binary(b"\x7fELF");
    let failure = unsafe { fixture.driver.module_load(&fixture.context.into(), image) }.unwrap_err();
    assert_eq!(failure.status, Status::NOT_SUPPORTED);
    assert!(failure.to_string().contains("load the PTX"));
}

#[test]
fn parameters_lie_where_their_sizes_align_them() {
    let fixture = Fixture::new();
    let kernel = fixture.function(HostFunction::new("mixed", &[1, 8, 2, 12, 0, 24, 16, 3], |_, _| ()));
    let info = fixture.driver.function_info(&fixture.context.into(), kernel).unwrap();
    let offsets: Vec<usize> = info.parameters.unwrap().iter().map(|parameter| parameter.offset).collect();
    assert_eq!(offsets, [0, 8, 16, 20, 32, 32, 64, 80]);
}

#[test]
fn what_a_driver_in_c_cannot_take_comes_before_handles() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let kernel = fixture.function(HostFunction::new("nothing", &[], |_, _| ()));
    let (no_module, no_function) = (Live::<ModuleHandle>::NULL, Live::<FunctionHandle>::NULL);
    assert_eq!(status(driver.module_function(&context.into(), no_module, "st\0ore")), 500);
    assert_eq!(status(driver.module_function(&context.into(), no_module, "store")), 400);
    assert_eq!(status(driver.module_global(&context.into(), no_module, "st\0ore")), 500);
    let allow = |function, bytes| {
        let attribute = FunctionAttribute::MaxDynamicSharedBytes(bytes);
        status(driver.function_set_attribute(&context.into(), function, attribute))
    };
    assert_eq!((allow(no_function, 1 << 31), allow(no_function, 49152), allow(kernel, 49152)), (1, 400, 0));
    let blocks = |threads| driver.function_max_active_blocks(&context.into(), kernel, threads, 0);
    assert_eq!((status(blocks(0)), status(blocks(1 << 31)), blocks(1025).unwrap()), (1, 1, 0));
    assert_eq!(status(driver.function_name(&context.into(), no_function)), 1);
}

#[test]
fn errors_of_a_launch_come_in_order() {
    let fixture = Fixture::new();
    let kernel = fixture.function(HostFunction::new("counts", &[8], |_, _| ()));
    let address = 0u64;
    let arguments = [(&raw const address).cast()];
    let good = Launch {
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: None,
        arguments: &arguments,
        ranges: &[],
    };
    let (large, much) = (Launch { grid: [1 << 20, 1, 1], cooperative: true, ..good }, 1 << 20);
    for (launch, expected) in [
        (Launch { grid: [0, 1, 1], cluster: Some([0, 1, 1]), ..good }, 912),
        (Launch { grid: [0, 1, 1], arguments: &[], ..good }, 1),
        (Launch { cluster: Some([2, 1, 1]), dynamic_shared_bytes: much, ..good }, 912),
        (Launch { cluster: Some([1, 2, 1]), ..large }, 912),
        (Launch { dynamic_shared_bytes: much, ..large }, 720),
        (Launch { dynamic_shared_bytes: much, ..good }, 1),
        (good, 0),
    ] {
        let stream = fixture.stream();
        let launched = unsafe { fixture.driver.launch(&fixture.context.into(), stream, kernel, &launch) };
        assert_eq!(status(launched), expected, "{launch:?}");
    }
    fixture.synchronize_all().unwrap();
}

#[test]
fn closures_go_with_their_module() {
    let fixture = Fixture::new();
    let held = Arc::new(());
    let kept = Arc::clone(&held);
    let module = HostModule::new().with_function(HostFunction::new("holds", &[], move |_, _| {
        let _ = &kept;
    }));
    let handle =
        live(unsafe { fixture.driver.module_load(&fixture.context.into(), ModuleImage::Host(&module)) }.unwrap());
    drop(module);
    let function = live(fixture.driver.module_function(&fixture.context.into(), handle, "holds").unwrap());
    fixture.launch(fixture.stream(), function, 512, 256, &[]).unwrap();
    fixture.synchronize_all().unwrap();
    unsafe { fixture.driver.module_unload(&fixture.context.into(), handle.handle()) }.unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
#[cfg_attr(miri, ignore = "Miri follows no elements of two sizes in one place")]
fn each_stage_and_each_launch_chooses_the_size_of_its_elements() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let halves = HostFunction::new("halves", &[8], |_, arguments| arguments.slice::<u32>(0).set(1, 1));
    let kernel = fixture.function(halves.then(|_, arguments| {
        arguments.slice::<u64>(0).fetch_update(0, |value| value + 2);
    }));
    for _ in 0..2 {
        fixture.launch(stream, kernel, 1, 1, &[(memory, 8)]).unwrap();
    }
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 2), [4, 1]);

    let mixed = fixture.function(HostFunction::new("mixed", &[8], |block, arguments| {
        if block.index()[0].is_multiple_of(2) {
            arguments.slice::<u32>(0).set(0, 1);
        } else {
            arguments.slice::<u64>(0).set(0, 1);
        }
    }));
    fixture.launch(stream, mixed, 10_000, 1, &[(memory, 8)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), Status::LAUNCH_FAILED.0);
}
