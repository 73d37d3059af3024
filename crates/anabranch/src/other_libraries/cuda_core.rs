//! `Stream` of `cuda.core`.
//!
//! | there | here | compared | shown by |
//! |---|---|---|---|
//! | `__init__` | [`Context::create_stream`](crate::Context::create_stream), [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) | equal | `cuda_core::a_device_makes_streams` |
//! | `close` | [`Stream::shutdown`](crate::Stream::shutdown), [`Stream`](crate::Stream) | differs: dropping a stream closes it, and never blocks. `shutdown` waits first, and returns the errors of the work. Dropping a [`BorrowedStream`](crate::BorrowedStream) destroys nothing, as there. | `stream::dropping_a_stream_does_not_wait_and_its_work_still_runs`, `stream::shutdown_returns_the_errors_of_the_work`, `stream::foreign_handles_are_used_and_not_destroyed` |
//! | `from_handle(handle)` | [`Instance::stream_from_raw`](crate::Instance::stream_from_raw), [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw) | differs: the promise that the foreign object remains alive is made in an `unsafe` block, and for a lifetime that the compiler checks. | `handles::a_stream_is_opened_by_its_handle_alone`, `stream_identity.borrowed_reaches_the_same_stream`, `compile_fail::safety_6_borrowed_stream_outlives_its_stream` |
//! | `record()` | [`Stream::record_event`](crate::Stream::record_event) | differs: the event measures time. | `event.record_captures_earlier_work_only` |
//! | `record(event)` | [`Stream::record`](crate::Stream::record) | equal | `external::a_record_returns_its_event`, `event.record_replaces_a_pending_one` |
//! | `record(options)` | [`Stream::record_event_with_flags`](crate::Stream::record_event_with_flags) | differs: the options are [`EventFlags`](crate::EventFlags), and only for an event that the call makes. | `cuda_core::an_event_is_made_with_options`, `event_flags.known_ones_are_kept` |
//! | `sync` | [`Stream::synchronize`](crate::Stream::synchronize) | differs: the errors of the work are returned, panics of host functions among them. | `stream.synchronize_waits`, `host_functions::safety_11_a_panic_is_reported_by_the_next_wait_and_later_work_runs` |
//! | `wait(event)` | [`Stream::wait`](crate::Stream::wait), [`Stream::wait_event`](crate::Stream::wait_event) | equal | `event.wait_orders_two_streams` |
//! | `wait(stream)` | [`Stream::wait`](crate::Stream::wait), [`Stream::wait_stream`](crate::Stream::wait_stream) | equal | `event.wait_stream_orders_two_streams`, `cuda_core::a_stream_waits_for_either` |
//! | `context` | [`Stream::context`](crate::Stream::context) | equal | `stream_identity.tells_its_context` |
//! | `device` | [`Stream::device`](crate::Stream::device) | differs: two objects of one device are equal, not identical. | `cuda_core::a_stream_knows_its_device`, `handle.context_tells_its_device` |
//! | `handle` | [`Stream::as_raw`](crate::Stream::as_raw) | differs: the handle has a type. [`StreamHandle`](crate::StreamHandle) turns into an integer. | `stream_identity.raw_round_trip`, `cuda_core::a_handle_goes_through_an_integer` |
//! | `is_nonblocking` | [`Stream::is_non_blocking`](crate::Stream::is_non_blocking) | equal | `cuda_core::a_stream_says_whether_it_is_non_blocking` |
//! | `priority` | [`Stream::priority`](crate::Stream::priority) | equal | `priority.is_clamped` |
//!
//! Beside that page:
//!
//! | there | here |
//! |---|---|
//! | `Device(n)` | [`Instance::device`](crate::Instance::device) |
//! | `Device.create_stream(options)` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) |
//! | `Event.sync()`, `Event.is_done`, `event - event` | [`Event::synchronize`](crate::Event::synchronize), [`Event::query`](crate::Event::query), [`Event::elapsed_since`](crate::Event::elapsed_since) |
//! | `create_graph_builder()` | [`Stream::capture`](crate::Stream::capture), which is a graph builder that ends itself |
