//! `warp.Stream` of Warp.
//!
//! | there | here | compared | shown by |
//! |---|---|---|---|
//! | `Stream(device)` | [`Context::create_stream`](crate::Context::create_stream), [`Instance::default_device`](crate::Instance::default_device) | differs: the device is named and opened first; its context makes streams. The software device has streams too. A device that is missing is a typed error that says why. | `warp::a_stream_is_made_on_the_default_device`, `errors.missing_device` |
//! | `Stream(priority)` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) | differs: every priority of the device is possible, not only -1 and 0. Values outside of its range are clamped, as there. | `priority.is_clamped`, `priority.default_is_the_least_urgent` |
//! | `Stream(cuda_stream)` | [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) | differs: the promise that the stream is not destroyed is made in an `unsafe` block, and for a lifetime that the compiler checks. | `stream_identity.borrowed_reaches_the_same_stream`, `stream::foreign_handles_are_used_and_not_destroyed`, `compile_fail::safety_6_borrowed_stream_outlives_its_stream` |
//! | `record_event()` | [`Stream::record_event`](crate::Stream::record_event) | differs: the event measures time. [`Stream::record_event_with_flags`](crate::Stream::record_event_with_flags) makes one that does not. | `warp::a_record_makes_an_event_of_the_same_device` |
//! | `record_event(event)` | [`Stream::record`](crate::Stream::record) | differs: the event belongs to a context, not only to a device. An event of another context is refused with [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE). | `event.record_replaces_a_pending_one`, `event_contexts.record_in_another_context` |
//! | `record_event(external)` | [`Stream::record_external`](crate::Stream::record_external) | equal | `external::outside_a_capture_external_calls_are_ordinary_ones`, `capture.external_record_is_a_node` |
//! | `wait_event(event)` | [`Stream::wait_event`](crate::Stream::wait_event) | equal | `event.wait_orders_two_streams`, `warp::no_wait_blocks_the_host` |
//! | `wait_event(external)` | [`Stream::wait_event_external`](crate::Stream::wait_event_external) | equal | `external::outside_a_capture_external_calls_are_ordinary_ones`, `capture.external_wait_is_a_node` |
//! | `wait_stream(other_stream)` | [`Stream::wait_stream`](crate::Stream::wait_stream) | equal | `event.wait_stream_orders_two_streams`, `warp::no_wait_blocks_the_host` |
//! | `wait_stream(event)` | [`Stream::wait_stream_with_event`](crate::Stream::wait_stream_with_event) | equal | `external::an_order_that_the_external_calls_make_is_known`, `warp::a_given_event_remains_recorded` |
//! | `wait_stream(external)` | [`Stream::wait_stream_external`](crate::Stream::wait_stream_external) | differs: the event must be given, because the record and the wait become nodes of a graph that outlives the call. | `external::in_a_capture_they_become_nodes_and_nobody_joins` |
//! | `cached_event` | [`Stream::wait_stream`](crate::Stream::wait_stream) | left out: `wait_stream` needs no event of the program. | `event.wait_stream_binds_at_call` |
//! | `is_complete` | [`Stream::is_complete`](crate::Stream::is_complete) | differs: while another stream captures, the call is allowed if that capture is [`CaptureMode::Relaxed`](crate::CaptureMode::Relaxed). Otherwise it returns [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) and invalidates the capture. | `stream.query_pending`, `warp::a_query_beside_a_capture_depends_on_its_mode` |
//! | `is_capturing` | [`Stream::is_capturing`](crate::Stream::is_capturing) | differs: the call can fail, for the legacy default stream. | `external::in_a_capture_they_become_nodes_and_nobody_joins`, `capture.legacy_is_asked_for_its_status` |
//! | `priority` | [`Stream::priority`](crate::Stream::priority) | equal | `priority.is_clamped`, `stream::foreign_handles_are_used_and_not_destroyed` |
//!
//! Beside that page:
//!
//! | there | here |
//! |---|---|
//! | `ScopedStream(stream)` | [`Stream::enter`](crate::Stream::enter) |
//! | `ScopedCapture(stream=s)`, `capture_begin`, `capture_end` | [`Stream::capture`](crate::Stream::capture), [`Stream::begin_capture`](crate::Stream::begin_capture), [`Stream::end_capture`](crate::Stream::end_capture) |
//! | `capture_if`, `capture_while` | [`CaptureScope::capture_if`](crate::CaptureScope::capture_if), [`CaptureScope::capture_if_else`](crate::CaptureScope::capture_if_else), [`CaptureScope::capture_while`](crate::CaptureScope::capture_while) |
//! | `capture_launch(graph, stream)` | [`ExecutableGraph::launch`](crate::ExecutableGraph::launch) |
//! | `capture_debug_dot_print` | [`Graph::to_dot`](crate::Graph::to_dot) |
