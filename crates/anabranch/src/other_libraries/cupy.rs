//! `cupy.cuda.Stream` of CuPy.
//!
//! | there | here | compared | shown by |
//! |---|---|---|---|
//! | `Stream()` | [`Context::create_stream_with_flags`](crate::Context::create_stream_with_flags) | differs: a stream without flags is a blocking one, as there, but [`Context::create_stream`](crate::Context::create_stream) makes non-blocking ones. | `cupy::a_plain_stream_waits_for_the_null_stream`, `stream.flags_are_kept` |
//! | `Stream(null)` | [`Context::legacy_stream`](crate::Context::legacy_stream) | differs: of a context, not of the device that is current. | `default_stream.legacy_waits_for_blocking`, `default_stream.blocking_waits_for_legacy` |
//! | `Stream(ptds)` | [`Context::per_thread_stream`](crate::Context::per_thread_stream) | differs: of a context, and refused on other threads. | `per_thread_stream.is_one_for_a_thread`, `per_thread_stream.is_refused_on_another_thread` |
//! | `Stream(non_blocking)` | [`Context::create_stream`](crate::Context::create_stream) | equal | `default_stream.legacy_ignores_non_blocking`, `default_stream.non_blocking_ignores_legacy` |
//! | `Stream(priority)` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) | equal | `priority.is_clamped`, `priority.range_makes_sense` |
//! | `ptr` | [`Stream::as_raw`](crate::Stream::as_raw) | equal | `stream_identity.raw_round_trip` |
//! | `device_id` | [`Stream::device`](crate::Stream::device), [`Device::ordinal`](crate::Device::ordinal) | differs: default streams belong to a device too, where CuPy says -1. | `cupy::every_stream_has_a_device` |
//! | `__enter__`, `__exit__` | [`Stream::enter`](crate::Stream::enter) | differs: the stream is current until the guard is dropped. Methods of streams and memory do not use the current stream; the functions of [`current`](crate::current) do. | `stream::the_current_stream_nests_and_is_restored`, `current::calls_without_a_stream_run_in_the_order_of_the_current_one` |
//! | `add_callback(callback, arg)` | [`Stream::add_callback`](crate::Stream::add_callback) | differs: the callback gets a [`CallbackStream`](crate::CallbackStream), with which no work can be queued, and a [`Status`](crate::Status). The closure holds what `arg` does. | `callback.runs_once_with_success`, `cupy::a_callback_gets_the_stream_and_the_status` |
//! | `begin_capture(mode)` | [`Stream::begin_capture`](crate::Stream::begin_capture), [`Stream::capture`](crate::Stream::capture) | differs: the mode has no default. CuPy's is [`CaptureMode::Relaxed`](crate::CaptureMode::Relaxed). | `capture.runs_at_every_launch`, `capture.allowed_calls_relaxed` |
//! | `end_capture` | [`Stream::end_capture`](crate::Stream::end_capture) | differs: the graph is instantiated by a call of its own, [`Graph::instantiate`](crate::Graph::instantiate). | `capture.runs_at_every_launch`, `capture.end_without_a_capture` |
//! | `is_capturing` | [`Stream::is_capturing`](crate::Stream::is_capturing) | equal | `external::in_a_capture_they_become_nodes_and_nobody_joins`, `capture.legacy_is_asked_for_its_status` |
//! | `launch_host_func(callback, arg)` | [`Stream::launch_host_func`](crate::Stream::launch_host_func) | differs: the closure holds what `arg` does. In a capture, [`Stream::launch_repeatable_host_func`](crate::Stream::launch_repeatable_host_func) takes a closure that can run at every launch. | `host_function.runs_after_earlier_work`, `host_function.runs_once`, `capture.host_function_at_every_launch` |
//! | `record()` | [`Stream::record_event`](crate::Stream::record_event) | equal | `cupy::a_record_makes_an_event_that_measures_time` |
//! | `record(event)` | [`Stream::record`](crate::Stream::record) | equal | `external::a_record_returns_its_event` |
//! | `synchronize` | [`Stream::synchronize`](crate::Stream::synchronize) | differs: the errors of the work are returned, panics of host functions among them. | `stream.synchronize_waits`, `host_functions::safety_11_a_panic_is_reported_by_the_next_wait_and_later_work_runs` |
//! | `use` | [`Stream::make_current`](crate::Stream::make_current) | differs: of the stream's context, and only as long as the stream exists. | `current::entered_streams_come_before_one_that_was_made_current`, `current::each_call_takes_the_current_stream_of_its_context` |
//! | `wait_event(event)` | [`Stream::wait_event`](crate::Stream::wait_event) | equal | `event.wait_orders_two_streams`, `event.wait_leaves_later_work_out` |
//! | `__eq__`, `__ne__` | [`Stream`](crate::Stream) | equal | `stream::safety_22_two_handles_of_one_stream_are_equal`, `stream_identity.borrowed_is_equal` |
//! | `__lt__`, `__le__`, `__gt__`, `__ge__` | [`Stream::id`](crate::Stream::id) | left out: an order of handles means nothing. The id has one, and streams can be hashed. | `cupy::streams_are_hashed_and_not_compared` |
//! | `done` | [`Stream::is_complete`](crate::Stream::is_complete) | equal | `stream.query_pending`, `stream.new_one_is_complete` |
//! | `is_non_blocking` | [`Stream::is_non_blocking`](crate::Stream::is_non_blocking) | equal | `cuda_core::a_stream_says_whether_it_is_non_blocking` |
//! | `null` | [`Context::legacy_stream`](crate::Context::legacy_stream) | differs: a function of a context, which returns a new object for the same stream. | `stream::safety_22_two_handles_of_one_stream_are_equal`, `stream_identity.default_streams_differ` |
//! | `priority` | [`Stream::priority`](crate::Stream::priority) | equal | `priority.is_clamped` |
//! | `ptds` | [`Context::per_thread_stream`](crate::Context::per_thread_stream) | differs: a function of a context. The object stands for the stream of the thread that made it. | `per_thread_stream.is_another_for_another_thread`, `per_thread_stream.is_refused_on_another_thread` |
//!
//! Beside that page:
//!
//! | there | here |
//! |---|---|
//! | `ExternalStream(ptr)` | [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) |
//! | `get_current_stream()` | [`Stream::with_current`](crate::Stream::with_current) |
//! | calls that use the current stream | [`current`](crate::current) |
//! | `graph.launch(stream)`, `graph.upload(stream)` | [`ExecutableGraph::launch`](crate::ExecutableGraph::launch), [`ExecutableGraph::upload`](crate::ExecutableGraph::upload); a graph is launched in a stream that is named, never in the current one |
//! | `get_elapsed_time(start, end)` | [`Event::elapsed_since`](crate::Event::elapsed_since) |
