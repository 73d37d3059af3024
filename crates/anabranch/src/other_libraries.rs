//! The names that Warp, `cuda.core`, CuPy, Mojo, other Rust crates and the CUDA driver API use for the concepts of this
//! library.
//!
//! # Warp: `warp.Stream`
//!
//! | Warp | here |
//! |---|---|
//! | `Stream(device, priority=p)` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) |
//! | `Stream(cuda_stream=handle)` | [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) |
//! | `record_event()` | [`Stream::record_event`](crate::Stream::record_event) |
//! | `record_event(event, external)` | [`Stream::record_external`](crate::Stream::record_external), which has no effect of its own outside a capture, as in Warp; [`record`](crate::Stream::record) for `external=False` |
//! | `wait_event(event, external)` | [`Stream::wait_event_external`](crate::Stream::wait_event_external), likewise; [`wait_event`](crate::Stream::wait_event) for `external=False` |
//! | `wait_stream(other)` | [`Stream::wait_stream`](crate::Stream::wait_stream) |
//! | `wait_stream(other, event, external)` | [`Stream::wait_stream_with_event`](crate::Stream::wait_stream_with_event), [`wait_stream_external`](crate::Stream::wait_stream_external) |
//! | `cached_event` | not needed: `wait_stream` keeps one event a stream itself |
//! | `is_complete` | [`Stream::is_complete`](crate::Stream::is_complete) |
//! | `priority` | [`Stream::priority`](crate::Stream::priority) |
//! | `ScopedStream(stream)` | [`Stream::enter`](crate::Stream::enter) |
//! | `is_capturing` | [`Stream::is_capturing`](crate::Stream::is_capturing) |
//! | `ScopedCapture(stream=s)`, `capture_begin`, `capture_end` | [`Stream::capture`](crate::Stream::capture), [`begin_capture`](crate::Stream::begin_capture), [`end_capture`](crate::Stream::end_capture) |
//! | `capture_if`, `capture_while` | [`CaptureScope::capture_if`](crate::CaptureScope::capture_if), [`capture_if_else`](crate::CaptureScope::capture_if_else), [`capture_while`](crate::CaptureScope::capture_while) |
//! | `capture_launch(graph, stream)` | [`ExecutableGraph::launch`](crate::ExecutableGraph::launch) |
//! | `capture_debug_dot_print` | [`Graph::to_dot`](crate::Graph::to_dot) |
//!
//! # `cuda.core`: `Stream`
//!
//! | `cuda.core` | here |
//! |---|---|
//! | `Device.create_stream(options)` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) |
//! | `Stream.from_handle(handle)` | [`Instance::stream_from_raw`](crate::Instance::stream_from_raw), [`Stream::from_raw`](crate::Stream::from_raw) |
//! | `close()` | drop, or [`Stream::shutdown`](crate::Stream::shutdown) |
//! | `record(event=None, options)` | [`Stream::record`](crate::Stream::record), [`Stream::record_event_with_flags`](crate::Stream::record_event_with_flags) |
//! | `sync()` | [`Stream::synchronize`](crate::Stream::synchronize) |
//! | `wait(event_or_stream)` | [`Stream::wait`](crate::Stream::wait) |
//! | `context`, `device` | [`Stream::context`](crate::Stream::context), [`Stream::device`](crate::Stream::device) |
//! | `handle` | [`Stream::as_raw`](crate::Stream::as_raw) |
//! | `is_nonblocking` | [`Stream::is_non_blocking`](crate::Stream::is_non_blocking) |
//! | `priority` | [`Stream::priority`](crate::Stream::priority) |
//! | `create_graph_builder()` | [`Stream::capture`](crate::Stream::capture), which is a graph builder that ends itself |
//!
//! # CuPy: `cupy.cuda.Stream`
//!
//! | CuPy | here |
//! |---|---|
//! | `Stream()` | [`Context::create_stream_with_flags`](crate::Context::create_stream_with_flags) with no flags |
//! | `Stream(non_blocking=True)` | [`Context::create_stream`](crate::Context::create_stream) |
//! | `Stream.null`, `Stream(null=True)` | [`Context::legacy_stream`](crate::Context::legacy_stream) |
//! | `Stream.ptds`, `Stream(ptds=True)` | [`Context::per_thread_stream`](crate::Context::per_thread_stream) |
//! | `ExternalStream(ptr)` | [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) |
//! | `with stream:` | [`Stream::enter`](crate::Stream::enter) |
//! | `stream.use()` | [`Stream::make_current`](crate::Stream::make_current) |
//! | calls that use the current stream | [`current`](crate::current) |
//! | `get_current_stream()` | [`Stream::with_current`](crate::Stream::with_current) |
//! | `add_callback(f, arg)` | [`Stream::add_callback`](crate::Stream::add_callback); it gives the stream and the status, and the closure holds what `arg` does |
//! | `launch_host_func(f, arg)` | [`Stream::launch_host_func`](crate::Stream::launch_host_func) |
//! | `record(event=None)` | [`Stream::record`](crate::Stream::record), [`Stream::record_event`](crate::Stream::record_event) |
//! | `synchronize()` | [`Stream::synchronize`](crate::Stream::synchronize) |
//! | `wait_event(event)` | [`Stream::wait_event`](crate::Stream::wait_event) |
//! | `done` | [`Stream::is_complete`](crate::Stream::is_complete) |
//! | `begin_capture(mode)`, `end_capture()` | [`Stream::capture`](crate::Stream::capture), [`begin_capture`](crate::Stream::begin_capture), [`end_capture`](crate::Stream::end_capture); CuPy's default mode is `Relaxed` |
//! | `is_capturing()` | [`Stream::is_capturing`](crate::Stream::is_capturing) |
//! | `graph.launch(stream)`, `graph.upload(stream)` | [`ExecutableGraph::launch`](crate::ExecutableGraph::launch), [`upload`](crate::ExecutableGraph::upload) |
//! | `ptr`, `device_id`, `priority`, `is_non_blocking` | [`as_raw`](crate::Stream::as_raw), [`device`](crate::Stream::device), [`priority`](crate::Stream::priority), [`is_non_blocking`](crate::Stream::is_non_blocking) |
//! | `==` | `==`; the order `<` of handles means nothing and is left out, and hashing is by identity |
//!
//! # Other Rust crates: `Stream`
//!
//! The names of this library are theirs: [`from_raw`](crate::Stream::from_raw), [`into_raw`](crate::Stream::into_raw),
//! [`to_borrowed`](crate::Stream::to_borrowed), [`sync_scope`](crate::Stream::sync_scope),
//! [`synchronize`](crate::Stream::synchronize), [`shutdown`](crate::Stream::shutdown),
//! [`query`](crate::Stream::query), [`wait_event`](crate::Stream::wait_event),
//! [`wait_event_with_flags`](crate::Stream::wait_event_with_flags), [`add_callback`](crate::Stream::add_callback),
//! [`launch_host_func`](crate::Stream::launch_host_func), [`flags`](crate::Stream::flags),
//! [`priority`](crate::Stream::priority), [`id`](crate::Stream::id), [`device`](crate::Stream::device),
//! [`context`](crate::Stream::context), [`as_raw`](crate::Stream::as_raw). What differs: `id` and `device` cannot fail,
//! `context` returns a clone, and dropping never blocks.
//!
//! | there | here |
//! |---|---|
//! | `capture`, `capture_executable`, `capture_executable_with_flags` | [`Stream::capture`](crate::Stream::capture), [`capture_executable`](crate::Stream::capture_executable), [`capture_executable_with_flags`](crate::Stream::capture_executable_with_flags) |
//! | `begin_capture`, `end_capture`, `capture_status`, `capture_info` | [`Stream::begin_capture`](crate::Stream::begin_capture), [`end_capture`](crate::Stream::end_capture), [`capture_status`](crate::Stream::capture_status), [`capture_info`](crate::Stream::capture_info) |
//! | `begin_capture_to_graph`, `…_with_data`, `…_with_dependencies` | [`Stream::capture_into`](crate::Stream::capture_into), [`begin_capture_to_graph`](crate::Stream::begin_capture_to_graph), which take nodes with or without [`EdgeData`](crate::EdgeData), and are safe |
//! | `update_capture_dependencies` and its kin | [`Stream::update_capture_dependencies`](crate::Stream::update_capture_dependencies), likewise, and [`update_capture_dependencies_with_mode`](crate::Stream::update_capture_dependencies_with_mode) |
//! | `GraphNode`, `GraphDependency`, `GraphEdgeData` | [`Node`](crate::Node), a pair of a node and [`EdgeData`](crate::EdgeData) |
//!
//! # Mojo: `DeviceStream`
//!
//! | Mojo | here |
//! |---|---|
//! | `DeviceContext(n)` | [`Instance::device`](crate::Instance::device), [`Device::context`](crate::Device::context) |
//! | `ctx.stream()` | [`Context::legacy_stream`](crate::Context::legacy_stream) |
//! | `ctx.create_stream()` | [`Context::create_stream`](crate::Context::create_stream) |
//! | `stream.create_event()` | [`Context::create_event`](crate::Context::create_event) |
//! | `synchronize()` | [`Stream::synchronize`](crate::Stream::synchronize) |
//! | `enqueue_wait_for(event)` | [`Stream::wait_event`](crate::Stream::wait_event) |
//! | `record_event(event)` | [`Stream::record`](crate::Stream::record) |
//! | `enqueue_function(f, args, grid_dim, block_dim, …)` | [`Stream::launch`](crate::Stream::launch) with a [`LaunchConfig`](crate::LaunchConfig) |
//! | `cluster_dim`, `shared_mem_bytes`, `attributes` | [`LaunchConfig::cluster`](crate::LaunchConfig::cluster), [`dynamic_shared_bytes`](crate::LaunchConfig::dynamic_shared_bytes), [`cooperative`](crate::LaunchConfig::cooperative), [`priority`](crate::LaunchConfig::priority) |
//! | `constant_memory` | [`Module::copy_to_global`](crate::Module::copy_to_global) before the launch, also in a capture |
//! | `compile_function` | [`Module::kernel`](crate::Module::kernel) |
//!
//! # The CUDA driver API
//!
//! | driver | here |
//! |---|---|
//! | `cuStreamCreateWithPriority` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) |
//! | `cuStreamWaitValue32`, `…64`, `cuStreamWriteValue32`, `…64` | [`Stream::wait_value_32`](crate::Stream::wait_value_32), [`wait_value_64`](crate::Stream::wait_value_64), [`write_value_32`](crate::Stream::write_value_32), [`write_value_64`](crate::Stream::write_value_64); safely: [`Signal`](crate::Signal) |
//! | `cuStreamSetAttribute` | [`Stream::set_synchronization_policy`](crate::Stream::set_synchronization_policy), [`set_access_policy_window`](crate::Stream::set_access_policy_window) |
//! | `cuMemAllocAsync`, `cuMemAllocFromPoolAsync` | [`Stream::allocate_zeroed`](crate::Stream::allocate_zeroed), [`allocate_zeroed_from`](crate::Stream::allocate_zeroed_from) |
//! | `cuMemFreeAsync` | dropping a [`Buffer`](crate::Buffer) |
//! | `cuMemAlloc` | [`Context::allocate_zeroed`](crate::Context::allocate_zeroed) |
//! | an array of arguments for `cuLaunchKernel` | [`ArgumentList`](crate::ArgumentList) |
//! | `cuCtxGetCurrent` | [`Context::current`](crate::Context::current); no call depends on it |
//! | `cuStreamGetCtx` | [`Stream::context`](crate::Stream::context); for a handle alone, [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) |
//! | contexts, streams and events that others have made | [`Context::from_raw`](crate::Context::from_raw), [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Event::from_raw`](crate::Event::from_raw) |
//! | memory that others have allocated | [`Buffer::from_raw_parts`](crate::Buffer::from_raw_parts) |
//! | work that others submit | [`Stream::submit_foreign`](crate::Stream::submit_foreign) |
//! | `cuMemHostAlloc`, `cuMemAllocManaged` | [`Context::allocate_pinned`](crate::Context::allocate_pinned), [`allocate_managed`](crate::Context::allocate_managed) |
//! | `cuMemcpyAsync` and its kin | [`Stream::copy`](crate::Stream::copy), [`copy_from_host`](crate::Stream::copy_from_host), [`copy_to_host`](crate::Stream::copy_to_host), [`copy_peer`](crate::Stream::copy_peer) |
//! | `cuMemcpy2DAsync`, `cuMemcpy3DAsync` | [`Stream::copy_region`](crate::Stream::copy_region) |
//! | `cuMemsetD8Async`, `…D16…`, `…D32…` | [`Stream::fill`](crate::Stream::fill), which has 64 bits too |
//! | `cuEventElapsedTime` | [`Event::elapsed_since`](crate::Event::elapsed_since) |
//! | `cuIpcGetEventHandle`, `cuIpcOpenEventHandle` | [`Event::export`](crate::Event::export), [`Event::open`](crate::Event::open) |
//! | `cuModuleLoadDataEx`, `cuModuleGetFunction` | [`Module::load_ptx`](crate::Module::load_ptx), [`load_binary`](crate::Module::load_binary), [`Module::kernel`](crate::Module::kernel) |
//! | `cuLaunchKernel`, `cuLaunchKernelEx` | [`Stream::launch`](crate::Stream::launch) |
//! | NVRTC | [`Compiler`](crate::Compiler) |
//! | `cuStreamBeginCapture`, `…ToGraph`, `cuStreamEndCapture` | [`Stream::capture`](crate::Stream::capture), [`capture_into`](crate::Stream::capture_into) |
//! | `cuStreamIsCapturing`, `cuStreamGetCaptureInfo`, `cuStreamUpdateCaptureDependencies` | [`Stream::capture_status`](crate::Stream::capture_status), [`capture_info`](crate::Stream::capture_info), [`update_capture_dependencies`](crate::Stream::update_capture_dependencies) |
//! | `cuThreadExchangeStreamCaptureMode` | [`Context::exchange_capture_mode`](crate::Context::exchange_capture_mode) |
//! | `cuGraphCreate`, `cuGraphAdd…Node` | [`Context::create_graph`](crate::Context::create_graph), [`Graph::add`](crate::Graph::add) with a [`NodeWork`](crate::NodeWork) |
//! | `cuGraphAddMemAllocNode`, `cuGraphAddMemFreeNode` | [`Graph::add_allocation`](crate::Graph::add_allocation), [`add_free`](crate::Graph::add_free) |
//! | `cuGraphConditionalHandleCreate` | [`Graph::create_conditional`](crate::Graph::create_conditional), [`add_conditional`](crate::Graph::add_conditional) |
//! | `cuGraphInstantiate`, `cuGraphUpload`, `cuGraphLaunch` | [`Graph::instantiate`](crate::Graph::instantiate), [`ExecutableGraph::upload`](crate::ExecutableGraph::upload), [`launch`](crate::ExecutableGraph::launch) |
//! | `cuGraphExecUpdate`, `cuGraphExec…NodeSetParams`, `cuGraphNodeSetEnabled` | [`ExecutableGraph::update`](crate::ExecutableGraph::update), [`set_node`](crate::ExecutableGraph::set_node), [`set_node_enabled`](crate::ExecutableGraph::set_node_enabled) |
//! | `cuGraphDebugDotPrint` | [`Graph::to_dot`](crate::Graph::to_dot), [`to_mermaid`](crate::Graph::to_mermaid), [`to_json`](crate::Graph::to_json) |
//! | `cuGraphRetainUserObject` | not needed: a graph keeps what its nodes refer to |
