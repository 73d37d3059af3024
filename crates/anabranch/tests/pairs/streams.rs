//! Calls of streams that order, wait and ask.

use crate::table::{Call, call};
use crate::world::{Expected, Shared, Side, World};
use anabranch::{
    AccessProperty, BorrowedStream, CaptureStatus, CurrentStreamGuard, EventFlags, EventRecordFlags, EventWaitFlags,
    Pipeline, Result, SignalOperation, Status, Stream, SynchronizationPolicy, WaitCondition, WaitTarget,
};
use futures::StreamExt;
use futures::executor::block_on;
use std::sync::Arc;

/// Asks a stream in its callback.
fn in_a_callback(world: &Shared<'_, '_>, side: &mut Side<'_, '_>) -> Result<()> {
    let (stream, context) = (world.stream(&mut side.random), world.context.clone());
    let id = stream.id();
    stream.add_callback(move |called_by, _| {
        assert_eq!((called_by.id(), called_by.context()), (id, context.clone()));
        assert!(called_by.device() == context.device().clone());
        assert!(called_by.name().is_none_or(|name| name == "a stream"));
    })
}

pub(crate) const CALLS: &[Call] = &[
    call("Stream::access_policy_window", |world, side| world.stream(&mut side.random).access_policy_window().map(drop))
        .may(&[Status::NOT_SUPPORTED]),
    call("Stream::add_callback", |world, side| {
        let stream = world.stream(&mut side.random);
        let id = stream.id();
        stream.add_callback(move |stream, status| {
            assert!(status.is_success() || status.is_sticky());
            assert_eq!(stream.id(), id);
        })
    }),
    call("Stream::as_raw", |world, side| {
        let stream = world.stream(&mut side.random);
        assert_eq!(stream.as_raw(), stream.as_raw());
        Ok(())
    }),
    call("CallbackStream::context", in_a_callback),
    call("CallbackStream::device", in_a_callback),
    call("CallbackStream::id", in_a_callback),
    call("CallbackStream::name", in_a_callback),
    call("Stream::capture_info", |world, side| world.stream(&mut side.random).capture_info().map(drop)),
    call("Stream::capture_info_with", |world, side| {
        let has_edges = side.coin();
        world.stream(&mut side.random).capture_info_with(has_edges).map(drop)
    }),
    call("Stream::capture_status", |world, side| {
        let status = world.stream(&mut side.random).capture_status()?;
        assert!(status == CaptureStatus::None || world.may_capture());
        Ok(())
    }),
    call("Stream::checked_completion_future", |world, side| {
        let future = world.stream(&mut side.random).checked_completion_future();
        if side.coin() { block_on(future) } else { Ok(()) }
    }),
    call("Stream::completion_future", |world, side| {
        let future = world.stream(&mut side.random).completion_future();
        if side.coin() { block_on(future) } else { Ok(()) }
    }),
    call("Stream::context", |world, side| {
        assert_eq!(world.stream(&mut side.random).context(), world.context);
        Ok(())
    }),
    call("Stream::device", |world, side| {
        assert_eq!(world.stream(&mut side.random).device(), *world.device());
        Ok(())
    }),
    call("Stream::enter", |world, side| {
        let stream = world.stream(&mut side.random);
        let _entered: CurrentStreamGuard<'_> = stream.enter();
        Stream::with_current(|current| assert_eq!(current, Some(stream)));
        Ok(())
    }),
    call("Stream::enqueue_async", |world, side| {
        let future = world.stream(&mut side.random).enqueue_async(|stream| stream.launch_host_func(|| {}));
        if side.coin() { block_on(future) } else { Ok(()) }
    }),
    call("Stream::flags", |world, side| world.stream(&mut side.random).flags().map(drop)),
    call("Stream::id", |world, _| {
        assert_ne!(world.streams[0].id(), world.streams[1].id());
        Ok(())
    }),
    call("Stream::is_capturing", |world, side| {
        let is_capturing = world.stream(&mut side.random).is_capturing()?;
        assert!(!is_capturing || world.may_capture());
        Ok(())
    }),
    call("Stream::is_complete", |world, side| world.stream(&mut side.random).is_complete().map(drop)),
    call("Stream::is_non_blocking", |world, _| {
        assert!(world.streams[0].is_non_blocking()?);
        Ok(())
    }),
    call("Stream::launch_host_func", |world, side| world.stream(&mut side.random).launch_host_func(|| {})),
    call("Stream::launch_repeatable_host_func", |world, side| {
        world.stream(&mut side.random).launch_repeatable_host_func(|| {})
    }),
    call("Stream::make_current", |world, _| {
        let stream = Arc::new(world.context.create_stream()?);
        stream.make_current();
        Stream::with_current_of(&world.context, |current| assert_eq!(current, Some(&*stream)));
        Ok(())
    }),
    call("Stream::name", |world, side| {
        assert!(world.stream(&mut side.random).name().is_none_or(|name| name == "a stream"));
        Ok(())
    }),
    call("Stream::orders_inserted", |world, side| {
        let stream = world.stream(&mut side.random);
        let before = stream.orders_inserted();
        assert!(before <= stream.orders_inserted());
        Ok(())
    }),
    call("Stream::pipeline", |world, side| {
        let stream = world.stream(&mut side.random);
        let chunks = stream.pipeline(2, 0..3u32, |stream, value| {
            stream.launch_host_func(|| {})?;
            Ok(value)
        });
        block_on(chunks.fold(Ok(()), |before, chunk| async move { before.and(chunk.map(drop)) }))
    }),
    call("Pipeline::new", |world, side| {
        let borrowed = world.stream(&mut side.random).to_borrowed();
        let mut chunks = Pipeline::new(borrowed, 2, 0..3u32, |stream, _| stream.record_event());
        // The rest is dropped.
        block_on(chunks.next()).map_or(Ok(()), |first| first.map(drop))
    }),
    call("Stream::priority", |world, side| world.stream(&mut side.random).priority().map(drop)),
    call("Stream::query", |world, side| world.stream(&mut side.random).query().map(drop)),
    call("Stream::record", |world, side| {
        let stream = world.stream(&mut side.random);
        stream.record(world.event(&mut side.random)).map(drop)
    }),
    call("Stream::record_event", |world, side| {
        let event = world.stream(&mut side.random).record_event()?;
        let waiting = world.stream(&mut side.random).wait_event(&event);
        drop(event);
        waiting
    }),
    call("Stream::record_event_with_flags", |world, side| {
        world.stream(&mut side.random).record_event_with_flags(EventFlags::DISABLE_TIMING).map(drop)
    }),
    call("Stream::record_with_flags", |world, side| {
        let event = world.event(&mut side.random);
        world.stream(&mut side.random).record_with_flags(event, EventRecordFlags::empty()).map(drop)
    }),
    call("Stream::record_external", |world, side| {
        let event = world.event(&mut side.random);
        world.stream(&mut side.random).record_external(event).map(drop)
    }),
    call("Stream::set_access_policy_window", |world, side| {
        let (hit, miss) = (AccessProperty::Persisting, AccessProperty::Streaming);
        let memory = world.shared.slice(..)?;
        world.stream(&mut side.random).set_access_policy_window(memory, 0.5, hit, miss)
    })
    .may(&[Status::NOT_SUPPORTED]),
    call("Stream::set_name", |world, side| {
        let stream = world.stream(&mut side.random);
        stream.set_name("a stream");
        assert_eq!(stream.name(), Some("a stream"));
        Ok(())
    }),
    call("Stream::set_synchronization_policy", |world, side| {
        let policy = [SynchronizationPolicy::Spin, SynchronizationPolicy::Yield][side.random.usize(..2)];
        world.stream(&mut side.random).set_synchronization_policy(policy)
    }),
    call("Stream::submit_foreign", |world, side| {
        let stream = world.stream(&mut side.random);
        let raw = stream.submit_foreign((&world.shared, &world.pinned), |handle| handle)?;
        assert_eq!(raw, stream.as_raw());
        Ok(())
    }),
    call("Stream::synchronization_policy", |world, side| {
        world.stream(&mut side.random).synchronization_policy().map(drop)
    }),
    call("Stream::synchronize", |world, side| world.stream(&mut side.random).synchronize()),
    call("Stream::synchronize_async", |world, side| block_on(world.stream(&mut side.random).synchronize_async())),
    call("Stream::to_borrowed", |world, side| {
        let stream = world.stream(&mut side.random);
        let borrowed: BorrowedStream<'_> = stream.to_borrowed();
        assert!(*borrowed == *stream);
        borrowed.launch_host_func(|| {})
    }),
    call("Stream::wait", |world, side| {
        let stream = world.stream(&mut side.random);
        if side.coin() {
            stream.wait(world.event(&mut side.random))
        } else {
            stream.wait(&world.stream(&mut side.random).to_borrowed())
        }
    }),
    call("Stream::wait_event", |world, side| {
        let stream = world.stream(&mut side.random);
        stream.wait_event(world.event(&mut side.random))
    }),
    call("Stream::wait_event_with_flags", |world, side| {
        let stream = world.stream(&mut side.random);
        stream.wait_event_with_flags(world.event(&mut side.random), EventWaitFlags::empty())
    }),
    call("Stream::wait_signal", |world, side| {
        // It holds already.
        world.stream(&mut side.random).wait_signal(&world.signal, WaitCondition::GreaterOrEqual, 0)
    }),
    call("Stream::batch_signal_operations", |world, side| {
        let (signal, half) = (&world.signal, side.value());
        let wait = SignalOperation::Wait { signal, condition: WaitCondition::GreaterOrEqual, value: 0 };
        let write = SignalOperation::Write { signal, value: half << 32 | half };
        world.stream(&mut side.random).batch_signal_operations(&[wait, write, wait])
    }),
    call("Stream::copy_attributes_from", |world, side| {
        let (stream, other) = (world.stream(&mut side.random), world.stream(&mut side.random));
        stream.copy_attributes_from(other)
    }),
    call("Stream::wait_stream", |world, side| {
        let (stream, other) = (world.stream(&mut side.random), world.stream(&mut side.random));
        stream.wait_stream(other)
    }),
    call("Stream::wait_event_external", |world, side| {
        let event = world.event(&mut side.random);
        world.stream(&mut side.random).wait_event_external(event)
    }),
    call("Stream::wait_stream_external", |world, side| {
        let (event, other) = (world.event(&mut side.random), world.stream(&mut side.random));
        world.stream(&mut side.random).wait_stream_external(other, event)
    }),
    call("Stream::wait_stream_with_event", |world, side| {
        let (event, other) = (world.event(&mut side.random), world.stream(&mut side.random));
        world.stream(&mut side.random).wait_stream_with_event(other, event)
    }),
    call("Stream::with_current_of", |world, side| {
        let stream = world.stream(&mut side.random);
        let _entered = stream.enter();
        Stream::with_current_of(&world.other, |current| assert!(current.is_none(), "it is of another context"));
        Stream::with_current_of(&world.context, |current| assert_eq!(current, Some(stream)));
        Ok(())
    }),
    call("Stream::with_current", |world, side| {
        Stream::with_current(|current| assert!(current.is_none(), "it is another thread's"));
        let stream = world.context.create_stream()?;
        let entered = stream.enter();
        let result = Stream::with_current(|_| stream.wait_stream(world.stream(&mut side.random)));
        drop(entered);
        result
    }),
    call("Stream::write_signal", |world, side| {
        let half = side.value();
        world.stream(&mut side.random).write_signal(&world.signal, half << 32 | half)
    }),
    call("WaitTarget::wait_on", |world, side| {
        let stream = world.stream(&mut side.random);
        world.stream(&mut side.random).wait_on(stream)
    }),
    call("Stream::shutdown", |world, side| {
        let stream = world.context.create_stream()?;
        let written = side.write_one_of(world, Expected::OneOf(vec![8]), |memory| stream.fill(memory, 8));
        written.and(stream.shutdown())
    }),
    call("CaptureModeGuard::before", |world, _| {
        let guard = world.context.exchange_capture_mode(anabranch::CaptureMode::Relaxed)?;
        assert_eq!(guard.before(), anabranch::CaptureMode::Global);
        Ok(())
    }),
    call("Signal::get", |world, _| {
        let value = world.signal.get();
        assert_eq!(value >> 32, value & u64::from(u32::MAX));
        Ok(())
    }),
    call("Signal::set", |world, side| {
        let half = side.value();
        world.signal.set(half << 32 | half);
        Ok(())
    }),
    call("Debug and Display", |world, side| {
        let Shown { text } = Shown::of(world, world.stream(&mut side.random));
        assert!(!text.is_empty());
        Ok(())
    }),
];

/// What is shown of everything that has state.
struct Shown {
    text: String,
}

impl Shown {
    fn of(world: &World, stream: &Stream) -> Self {
        let error = anabranch::Module::load_ptx(&world.context, "no text").err();
        let text = format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {error:?}",
            world.instance,
            world.context,
            stream,
            world.events,
            world.signal,
            world.pool,
            world.shared,
            world.pinned,
            world.managed,
            world.graph,
            world.executables,
            world.module,
            world.set,
            world.compiler,
        );
        assert!(error.is_none_or(|error| error.status() == Status::INVALID_IMAGE || error.is_sticky()));
        Self { text }
    }
}
