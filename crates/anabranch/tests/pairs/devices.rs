//! Calls of instances, devices, memory pools and the compiler.

use crate::table::{Call, call};
use crate::world::LENGTH;
use anabranch::{
    CompileOptions, Compiler, ContextFlags, GraphMemoryAttribute, ImportedMemoryPool, Instance, MemoryPoolAttribute,
    MemoryPoolOptions, Status, flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use std::sync::Arc;

/// Whatever a machine without NVIDIA's libraries says.
const ABSENT: &[Status] = &[Status::NO_DEVICE];

pub(crate) const CALLS: &[Call] = &[
    call("Instance::absent_backends", |world, _| {
        assert!(world.instance.absent_backends().len() <= 2);
        Ok(())
    }),
    call("Instance::builder", |_, side| {
        let devices = 1 + side.random.u32(..2);
        let instance = Instance::builder().cuda(false).isolated().host_devices(devices).build()?;
        assert_eq!(instance.devices().len(), devices as usize);
        Ok(())
    }),
    call("Instance::compiler", |world, _| world.instance.compiler().map(drop)).may(ABSENT),
    call("Instance::default_device", |world, _| world.instance.default_device().map(drop)),
    call("Instance::device", |world, _| {
        assert_eq!(world.instance.device("host:1")?, *world.other.device());
        Ok(())
    }),
    call("Instance::devices", |world, _| {
        assert_eq!(world.instance.devices().len(), 2);
        Ok(())
    }),
    call("Instance::is_isolated", |world, _| {
        assert!(world.instance.is_isolated());
        Ok(())
    }),
    call("Instance::new", |_, _| Instance::new().map(drop)),
    call("Device::backend", |world, _| {
        assert_eq!(world.device().backend(), world.other.device().backend());
        Ok(())
    }),
    call("Device::can_access_peer", |world, _| world.device().can_access_peer(world.other.device()).map(drop)),
    call("Device::capabilities", |world, _| {
        assert_eq!(world.device().capabilities(), world.other.device().capabilities());
        Ok(())
    }),
    call("Device::context", |world, side| {
        let context = world.device().context()?;
        if side.coin() { context.create_stream().map(drop) } else { Ok(()) }
    }),
    call("Device::create_context", |world, side| {
        let context = world.device().create_context(ContextFlags::empty())?;
        if side.coin() {
            let stream = context.create_stream()?;
            assert_eq!(stream.download(&stream.upload(&[7u32])?)?, [7]);
        }
        Ok(())
    }),
    call("Device::create_memory_pool", |world, side| {
        let pool = world.device().create_memory_pool(&MemoryPoolOptions::default())?;
        let memory = world.stream(&mut side.random).allocate_zeroed_from::<u32>(&pool, LENGTH);
        drop(pool);
        memory.map(drop)
    }),
    call("Context::create_physical_memory", |world, _| world.context.create_physical_memory(1 << 21).map(drop))
        .may(&[Status::NOT_SUPPORTED]),
    call("Context::physical_memory_granularity", |world, _| world.context.physical_memory_granularity().map(drop))
        .may(&[Status::NOT_SUPPORTED]),
    call("Context::reserve_addresses", |world, _| world.context.reserve_addresses(1 << 21).map(drop))
        .may(&[Status::NOT_SUPPORTED]),
    call("Device::default_memory_pool", |world, _| world.device().default_memory_pool().map(drop)),
    call("Device::driver", |world, _| {
        assert!(Arc::ptr_eq(world.device().driver(), world.other.device().driver()));
        Ok(())
    }),
    call("Device::driver_version", |world, _| {
        assert_eq!(world.device().driver_version(), world.other.device().driver_version());
        Ok(())
    }),
    call("Device::graph_memory_attribute", |world, _| {
        world.device().graph_memory_attribute(GraphMemoryAttribute::UsedCurrent).map(drop)
    }),
    call("Device::memory_report", |world, _| {
        let report = world.device().memory_report();
        assert!(report.is_some_and(|report| report.findings.is_empty()), "the device has found a mistake");
        Ok(())
    }),
    call("Device::name", |world, _| {
        assert_eq!(world.device().name().to_string(), "host:0");
        Ok(())
    }),
    call("Device::ordinal", |world, _| {
        assert_ne!(world.device().ordinal(), world.other.device().ordinal());
        Ok(())
    }),
    call("Device::properties", |world, _| {
        assert!(!world.device().properties().name.is_empty());
        Ok(())
    }),
    call("Device::reset_graph_memory_high", |world, _| {
        world.device().reset_graph_memory_high(GraphMemoryAttribute::UsedHigh)
    }),
    call("Device::stream_priority_range", |world, _| {
        let range = world.device().stream_priority_range();
        assert!(range.greatest <= range.least);
        Ok(())
    }),
    call("Device::trim_graph_memory", |world, _| world.device().trim_graph_memory()),
    call("ImportedMemoryPool::open", |world, _| ImportedMemoryPool::open(&world.context, std::io::stderr()).map(drop))
        .may(&[Status::NOT_SUPPORTED, Status::INVALID_VALUE]),
    call("MemoryPool::as_raw", |world, _| {
        assert_eq!(world.pool.as_raw(), world.pool.as_raw());
        Ok(())
    }),
    call("MemoryPool::attribute", |world, _| world.pool.attribute(MemoryPoolAttribute::UsedCurrent).map(drop)),
    call("MemoryPool::device", |world, _| {
        assert_eq!(world.pool.device(), world.device());
        Ok(())
    }),
    call("MemoryPool::export", |world, _| world.pool.export().map(drop)).may(&[Status::INVALID_VALUE]),
    call("MemoryPool::release_threshold", |world, _| world.pool.release_threshold().map(drop)),
    call("MemoryPool::reserved_bytes", |world, _| world.pool.reserved_bytes().map(drop)),
    call("MemoryPool::reserved_bytes_high", |world, _| world.pool.reserved_bytes_high().map(drop)),
    call("MemoryPool::reset_high_watermarks", |world, _| world.pool.reset_high_watermarks()),
    call("MemoryPool::set_attribute", |world, side| {
        world.pool.set_attribute(MemoryPoolAttribute::ReleaseThreshold, side.random.u64(..4096))
    }),
    call("MemoryPool::set_peer_access", |world, side| {
        let is_allowed = side.coin();
        world.pool.set_peer_access(world.other.device(), is_allowed)
    }),
    call("MemoryPool::set_release_threshold", |world, side| world.pool.set_release_threshold(side.random.u64(..4096))),
    call("MemoryPool::trim", |world, _| world.pool.trim(0)),
    call("MemoryPool::used_bytes", |world, _| world.pool.used_bytes().map(drop)),
    call("MemoryPool::used_bytes_high", |world, _| world.pool.used_bytes_high().map(drop)),
    call("Compiler::architectures", |world, _| world.compiler.architectures().map(drop)),
    call("Compiler::compile", |world, side| {
        let source = ["a source", "another", "a third"][side.random.usize(..3)];
        let compiled = world.compiler.compile(source, &world.options)?;
        assert_eq!(compiled.ptx(), Some(source));
        Ok(())
    }),
    call("Compiler::compile_file", |world, _| {
        let compiled = world.compiler.compile_file(&world.source, &world.options)?;
        assert_eq!(compiled.ptx(), Some("a source"));
        Ok(())
    }),
    call("Compiler::find", |_, _| Compiler::find().map(drop)).may(ABSENT),
    call("Compiler::identity", |world, _| {
        assert_eq!(world.compiler.identity(), "quick 1");
        Ok(())
    }),
    call("Compiler::version", |world, _| {
        assert_eq!(world.compiler.version(), (1, 0));
        Ok(())
    }),
    call("Compiled::binary", |world, _| {
        assert_eq!(world.compiled.binary(), None);
        Ok(())
    }),
    call("Compiled::from_cache", |world, _| {
        assert_eq!(world.compiled.from_cache(), world.compiled.clone().from_cache());
        Ok(())
    }),
    call("Compiled::image", |world, _| {
        assert_eq!(world.compiled.image(), &world.compiled.clone().into_image());
        Ok(())
    }),
    call("CompiledImage::as_module_image", |world, _| {
        let image = format!("{:?}", world.compiled.image().as_module_image());
        assert!(image.contains("a source"), "{image}");
        Ok(())
    }),
    call("Compiled::kernel_name", |world, _| {
        assert_eq!(world.compiled.kernel_name("a"), Some("a"));
        Ok(())
    }),
    call("Compiled::kernel_names", |world, _| {
        assert_eq!(world.compiled.kernel_names().count(), 1);
        Ok(())
    }),
    call("Compiled::log", |world, _| {
        assert_eq!(world.compiled.log(), "");
        Ok(())
    }),
    call("Compiled::ptx", |world, _| {
        assert_eq!(world.compiled.ptx(), Some("a source"));
        Ok(())
    }),
    call("CompileOptions::new", |world, _| {
        let options = CompileOptions::new().without_cache();
        world.compiler.compile("a source", &options).map(drop)
    }),
    call("flush_deferred_drops", |_, _| {
        flush_deferred_drops();
        Ok(())
    }),
    call("set_drop_error_hook", |_, _| {
        set_drop_error_hook(|error| {
            // Memory of a lost context, and memory whose allocation was captured in vain.
            let is_expected = error.is_sticky() || error.status() == Status::STREAM_CAPTURE_INVALIDATED;
            assert!(is_expected, "while something was dropped: {error}");
        });
        Ok(())
    }),
    call("reset_drop_error_hook", |_, _| {
        reset_drop_error_hook();
        Ok(())
    }),
];
