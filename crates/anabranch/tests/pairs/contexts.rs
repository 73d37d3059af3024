//! Calls of contexts and events.

use crate::table::{Call, call};
use crate::world::{Expected, LENGTH, mode};
use anabranch::{Context, Event, EventFlags, NodeWork, PinnedFlags, RegisterFlags, Status, StreamFlags};
use futures::executor::block_on;
use std::time::Duration;

pub(crate) const CALLS: &[Call] = &[
    call("Context::allocate_managed", |world, side| {
        let mut managed = world.context.allocate_managed::<u32>(LENGTH)?;
        if side.coin() { world.stream(&mut side.random).fill(&mut managed, 3) } else { Ok(()) }
    }),
    call("Context::allocate_pinned", |world, side| {
        let mut pinned = world.context.allocate_pinned::<u32>(LENGTH)?;
        if side.coin() { world.stream(&mut side.random).copy(&mut pinned, &world.shared) } else { Ok(()) }
    }),
    call("Context::allocate_pinned_with_flags", |world, _| {
        let pinned = world.context.allocate_pinned_with_flags::<u32>(LENGTH, PinnedFlags::WRITE_COMBINED)?;
        assert_eq!(pinned.as_slice()?, [0; LENGTH]);
        Ok(())
    }),
    call("Context::allocate_zeroed", |world, side| {
        let stream = world.stream(&mut side.random);
        world.context.allocate_zeroed::<u32>(stream, LENGTH).map(drop)
    }),
    call("Context::as_raw", |world, _| {
        assert_ne!(world.context.as_raw(), world.other.as_raw());
        Ok(())
    }),
    call("Context::completion_spin", |world, _| {
        assert!(world.context.completion_spin() <= Duration::from_secs(1));
        Ok(())
    }),
    call("Context::create_event", |world, side| {
        let event = world.context.create_event()?;
        if side.coin() { world.stream(&mut side.random).record(&event).map(drop) } else { Ok(()) }
    }),
    call("Context::create_event_with_flags", |world, _| {
        world.context.create_event_with_flags(EventFlags::DISABLE_TIMING).map(drop)
    }),
    call("Context::create_graph", |world, _| {
        let mut graph = world.context.create_graph()?;
        graph.add((), NodeWork::empty())?;
        Ok(())
    }),
    call("Context::create_signal", |world, side| {
        let signal = world.context.create_signal()?;
        world.stream(&mut side.random).write_signal(&signal, 1)
    }),
    call("Context::create_stream", |world, side| {
        let stream = world.context.create_stream()?;
        if side.coin() { stream.wait_stream(world.stream(&mut side.random)) } else { Ok(()) }
    }),
    call("Context::create_stream_with_flags", |world, side| {
        let stream = world.context.create_stream_with_flags(StreamFlags::empty())?;
        if side.coin() { stream.shutdown() } else { Ok(()) }
    }),
    call("Context::create_stream_with_priority", |world, _| {
        let stream = world.context.create_stream_with_priority(StreamFlags::NON_BLOCKING, -1)?;
        stream.launch_host_func(|| {})
    }),
    call("Context::current", |world, _| {
        assert_eq!(Context::current(&world.instance)?, None);
        Ok(())
    }),
    call("Context::device", |world, _| {
        assert_eq!(world.context.device(), world.device());
        Ok(())
    }),
    call("Context::enable_peer_access", |world, _| world.context.enable_peer_access(&world.other))
        .may(&[Status::PEER_ACCESS_ALREADY_ENABLED]),
    call("Context::exchange_capture_mode", |world, side| {
        let guard = world.context.exchange_capture_mode(mode(&mut side.random))?;
        let flags = world.stream(&mut side.random).flags();
        let _ = guard.before();
        flags.map(drop)
    }),
    call("Context::id", |world, _| {
        assert_ne!(world.context.id(), world.other.id());
        Ok(())
    }),
    call("Context::idle_staging", |world, _| {
        let _ = world.context.idle_staging();
        Ok(())
    }),
    call("Context::legacy_stream", |world, side| {
        let stream = world.context.legacy_stream()?;
        if side.coin() { stream.launch_host_func(|| {}) } else { Ok(()) }
    }),
    call("Context::memory_info", |world, _| {
        let info = world.context.memory_info()?;
        assert!(info.free <= info.total);
        Ok(())
    }),
    call("Context::orders_inserted", |world, _| {
        let before = world.context.orders_inserted();
        assert!(before <= world.context.orders_inserted());
        Ok(())
    }),
    call("Context::per_thread_stream", |world, side| {
        let stream = world.context.per_thread_stream()?;
        side.write_one_of(world, Expected::OneOf(vec![5]), |memory| stream.fill(memory, 5))
    }),
    call("Context::register_pinned", |world, side| {
        let mut pinned = world.context.register_pinned(vec![0u32; LENGTH]).map_err(|(error, _)| error)?;
        if side.coin() { world.stream(&mut side.random).copy(&mut pinned, &world.shared) } else { Ok(()) }
    }),
    call("Context::register_pinned_with_flags", |world, side| {
        let pinned = world.context.register_pinned_with_flags(vec![3u32; LENGTH], RegisterFlags::READ_ONLY);
        let pinned = pinned.map_err(|(error, _)| error)?;
        side.copy(world, |stream, own| stream.copy(own, &pinned))?;
        assert_eq!(pinned.as_slice()?, [3; LENGTH]);
        Ok(())
    }),
    call("Context::register_scope", |world, side| {
        let mut memory = [1u32; LENGTH];
        let stream = world.stream(&mut side.random);
        world.context.register_scope(&mut memory, |mut pinned| stream.copy(pinned.reborrow(), &world.shared))?;
        Expected::Anything.check(&memory);
        Ok(())
    }),
    call("Context::register_scope_for_reading", |world, side| {
        let memory = [1u32; LENGTH];
        world
            .context
            .register_scope_for_reading(&memory, |pinned| side.copy(world, |stream, own| stream.copy(own, pinned)))
    }),
    // Beside a call that lowers the limit.
    call("Context::reserve_staging", |world, _| world.context.reserve_staging(1 << 10, 2))
        .may(&[Status::INVALID_VALUE]),
    call("Context::set_completion_spin", |world, side| {
        world.context.set_completion_spin(Duration::from_micros(side.random.u64(..20)));
        Ok(())
    }),
    call("Context::set_staging_limit", |world, side| {
        world.context.set_staging_limit(side.random.usize(..1 << 14));
        Ok(())
    }),
    call("Context::set_strict_order", |world, _| {
        world.context.set_strict_order(true);
        std::thread::yield_now();
        world.context.set_strict_order(false);
        Ok(())
    })
    .may(&[Status::ILLEGAL_STATE]),
    call("Context::staging_limit", |world, _| {
        let _ = world.context.staging_limit();
        Ok(())
    }),
    call("Context::strict_order", |world, _| {
        let _ = world.context.strict_order();
        Ok(())
    }),
    call("Context::synchronize", |world, _| world.context.synchronize()),
    call("Context::synchronize_unreported", |world, _| world.context.synchronize_unreported()),
    call("Context::report_panic", |world, _| world.context.report_panic()),
    call("Event::as_raw", |world, _| {
        assert_ne!(world.events[0].as_raw(), world.events[1].as_raw());
        Ok(())
    }),
    call("Event::completed", |world, side| {
        let completed = world.event(&mut side.random).completed();
        if side.coin() { block_on(completed) } else { Ok(()) }
    }),
    call("Event::context", |world, _| {
        assert_eq!(world.events[0].context(), world.context);
        Ok(())
    }),
    // Records of the other thread may lie between.
    call("Event::elapsed_since", |world, _| world.events[0].elapsed_since(&world.events[2]).map(drop))
        .may(&[Status::NOT_READY]),
    call("Event::export", |world, _| world.events[0].export().map(drop)).may(&[
        Status::NOT_SUPPORTED,
        Status::INVALID_VALUE,
        Status::INVALID_HANDLE,
    ]),
    call("Event::flags", |world, _| {
        assert_eq!(world.events[1].flags(), Some(EventFlags::DISABLE_TIMING));
        Ok(())
    }),
    call("Event::id", |world, _| {
        assert_ne!(world.events[0].id(), world.events[1].id());
        Ok(())
    }),
    call("Event::open", |world, _| {
        let flags = EventFlags::DISABLE_TIMING | EventFlags::INTERPROCESS;
        let event = world.context.create_event_with_flags(flags)?;
        Event::open(&world.context, &event.export()?).map(drop)
    })
    .may(&[Status::NOT_SUPPORTED, Status::INVALID_VALUE, Status::INVALID_CONTEXT]),
    call("Event::query", |world, side| world.event(&mut side.random).query().map(drop)),
    call("Event::record", |world, side| {
        let event = world.event(&mut side.random);
        event.record(world.stream(&mut side.random))
    }),
    call("Event::set_name", |world, side| {
        let event = world.event(&mut side.random);
        event.set_name("an event");
        assert!(!event.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("Event::synchronize", |world, side| world.event(&mut side.random).synchronize()),
];
