//! The names that Warp, `cuda.core`, CuPy, Mojo, other Rust crates and the CUDA driver API use for the concepts of this
//! library.
//!
//! For each member of the class of streams of a library, a row of its module says what it is called here, and whether it is
//! *equal*, *differs*, or was *left out*. A parameter with a meaning of its own has a row of its own. The last column names
//! what shows it: `group.case` is a case of `anabranch conformance`, `file::function` is a test of this crate, and
//! `compile_fail::file` is a program that does not compile.
//!
//! * [`warp`] compares `warp.Stream`.
//! * [`cuda_core`] compares `Stream` of `cuda.core`.
//! * [`cupy`] compares `cupy.cuda.Stream`.
//! * [`rust`] compares `Stream` of other Rust crates.
//! * [`mojo`] compares `DeviceStream` of Mojo.
//!
//! # The CUDA driver API
//!
//! | driver | here |
//! |---|---|
//! | `cuStreamCreateWithPriority` | [`Context::create_stream_with_priority`](crate::Context::create_stream_with_priority) |
//! | `cuStreamWaitValue32`, `…64`, `cuStreamWriteValue32`, `…64` | [`Stream::wait_value_32`](crate::Stream::wait_value_32), [`wait_value_64`](crate::Stream::wait_value_64), [`write_value_32`](crate::Stream::write_value_32), [`write_value_64`](crate::Stream::write_value_64); safely: [`Signal`](crate::Signal) |
//! | `cuStreamBatchMemOp` | [`Stream::batch_value_operations`](crate::Stream::batch_value_operations); safely: [`batch_signal_operations`](crate::Stream::batch_signal_operations) |
//! | `cuStreamSetAttribute` | [`Stream::set_synchronization_policy`](crate::Stream::set_synchronization_policy), [`set_access_policy_window`](crate::Stream::set_access_policy_window) |
//! | `cuStreamCopyAttributes`, `cuStreamGetDevice` | [`Stream::copy_attributes_from`](crate::Stream::copy_attributes_from), [`device`](crate::Stream::device) |
//! | `cuMemAllocAsync`, `cuMemAllocFromPoolAsync` | [`Stream::allocate_zeroed`](crate::Stream::allocate_zeroed), [`allocate_zeroed_from`](crate::Stream::allocate_zeroed_from) |
//! | `cuMemFreeAsync` | dropping a [`Buffer`](crate::Buffer) |
//! | `cuMemAlloc` | [`Context::allocate_zeroed`](crate::Context::allocate_zeroed) |
//! | an array of arguments for `cuLaunchKernel` | [`ArgumentList`](crate::ArgumentList) |
//! | `cuCtxGetCurrent` | [`Context::current`](crate::Context::current); no call depends on it |
//! | `cuStreamGetCtx` | [`Stream::context`](crate::Stream::context); for a handle alone, [`Instance::stream_from_raw`](crate::Instance::stream_from_raw) |
//! | contexts, streams and events that others have made | [`Context::from_raw`](crate::Context::from_raw), [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw), [`Event::from_raw`](crate::Event::from_raw) |
//! | memory that others have allocated | [`Buffer::from_raw_parts`](crate::Buffer::from_raw_parts) |
//! | work that others submit | [`Stream::submit_foreign`](crate::Stream::submit_foreign) |
//! | `cuDeviceGetDevResource`, `cuDevSmResourceSplitByCount`, `cuGreenCtxCreate`, `cuGreenCtxStreamCreate` | [`Device::multiprocessors`](crate::Device::multiprocessors), [`Multiprocessors::split`](crate::Multiprocessors::split), [`Context::create_green_context`](crate::Context::create_green_context), [`GreenContext::create_stream`](crate::GreenContext::create_stream) |
//! | `cuMemHostAlloc`, `cuMemAllocManaged` | [`Context::allocate_pinned`](crate::Context::allocate_pinned), [`allocate_managed`](crate::Context::allocate_managed) |
//! | `cuMemHostRegister`, `cuMemHostUnregister` | [`Context::register_pinned`](crate::Context::register_pinned) and [`PinnedBuffer::into_vec`](crate::PinnedBuffer::into_vec); borrowed: [`Context::register_scope`](crate::Context::register_scope) |
//! | `cuMemHostGetDevicePointer` | [`PinnedBuffer::device_pointer`](crate::PinnedBuffer::device_pointer), which is the host's address |
//! | `cuMemcpyAsync` and its kin | [`Stream::copy`](crate::Stream::copy), [`copy_from_host`](crate::Stream::copy_from_host), [`copy_to_host`](crate::Stream::copy_to_host), [`copy_peer`](crate::Stream::copy_peer) |
//! | `cuMemcpy2DAsync`, `cuMemcpy3DAsync` | [`Stream::copy_region`](crate::Stream::copy_region) |
//! | `cuMemcpyBatchAsync`, `cuMemcpy3DBatchAsync` | [`Stream::copy_batch`](crate::Stream::copy_batch), [`copy_region_batch`](crate::Stream::copy_region_batch) |
//! | `cuMemcpyWithAttributesAsync`, `cuMemcpy3DWithAttributesAsync` | [`Stream::copy_with_hints`](crate::Stream::copy_with_hints), [`copy_region_with_hints`](crate::Stream::copy_region_with_hints) |
//! | `cuMemPrefetchAsync`, `cuMemPrefetchBatchAsync`, `cuMemDiscardBatchAsync` | [`Stream::prefetch`](crate::Stream::prefetch), [`prefetch_batch`](crate::Stream::prefetch_batch), [`discard_batch`](crate::Stream::discard_batch) |
//! | `cuMemcpy3DPeerAsync` | [`Stream::copy_region_peer`](crate::Stream::copy_region_peer) |
//! | `cuStreamAttachMemAsync` | [`Stream::attach`](crate::Stream::attach) |
//! | `cuMemsetD8Async`, `…D16…`, `…D32…` | [`Stream::fill`](crate::Stream::fill), which has 64 bits too |
//! | `cuEventElapsedTime` | [`Event::elapsed_since`](crate::Event::elapsed_since) |
//! | `cuIpcGetMemHandle`, `cuIpcOpenMemHandle`, `cuIpcCloseMemHandle` | [`Buffer::export`](crate::Buffer::export), [`Buffer::open`](crate::Buffer::open), and the drop of that buffer |
//! | `cuMemPoolExportToShareableHandle`, `cuMemPoolImportFromShareableHandle` | [`MemoryPool::export`](crate::MemoryPool), [`ImportedMemoryPool::open`](crate::ImportedMemoryPool) |
//! | `cuMemPoolExportPointer`, `cuMemPoolImportPointer` | [`Buffer::export_from_pool`](crate::Buffer::export_from_pool), [`ImportedMemoryPool::open_buffer`](crate::ImportedMemoryPool::open_buffer) |
//! | `cuMemAddressReserve`, `cuMemAddressFree` | [`Context::reserve_addresses`](crate::Context::reserve_addresses), and the drop of the [`AddressRange`](crate::AddressRange) |
//! | `cuMemCreate`, `cuMemRelease` | [`Context::create_physical_memory`](crate::Context::create_physical_memory), and the drop of the [`PhysicalMemory`](crate::PhysicalMemory) |
//! | `cuMemMap`, `cuMemUnmap`, `cuMemSetAccess` | [`AddressRange::map`](crate::AddressRange::map), [`AddressRange::unmap`](crate::AddressRange::unmap), [`AddressRange::allow_peer_access`](crate::AddressRange::allow_peer_access) |
//! | `cuIpcGetEventHandle`, `cuIpcOpenEventHandle` | [`Event::export`](crate::Event::export), [`Event::open`](crate::Event::open) |
//! | `cuModuleLoadDataEx`, `cuModuleGetFunction` | [`Module::load_ptx`](crate::Module::load_ptx), [`load_binary`](crate::Module::load_binary), [`Module::kernel`](crate::Module::kernel) |
//! | `cuLaunchKernel`, `cuLaunchKernelEx` | [`Stream::launch`](crate::Stream::launch) with a [`LaunchConfig`](crate::LaunchConfig) |
//! | `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, `…PROGRAMMATIC_EVENT`, `…LAUNCH_COMPLETION_EVENT` | [`programmatic_stream_serialization`](crate::LaunchConfig::programmatic_stream_serialization), [`programmatic_event`](crate::LaunchConfig::programmatic_event), [`launch_completion_event`](crate::LaunchConfig::launch_completion_event) |
//! | `CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW`, `…MEM_SYNC_DOMAIN`, `…PREFERRED_CLUSTER_DIMENSION` and other hints | [`access_policy_window`](crate::LaunchConfig::access_policy_window), [`memory_sync_domain`](crate::LaunchConfig::memory_sync_domain), [`preferred_cluster`](crate::LaunchConfig::preferred_cluster), and their neighbours |
//! | `cuTensorMapEncodeTiled` | [`TensorMap`](crate::TensorMap), [`TensorMapMut`](crate::TensorMapMut) |
//! | NVRTC | [`Compiler`](crate::Compiler) |
//! | `cuStreamBeginCapture`, `…ToGraph`, `cuStreamEndCapture` | [`Stream::capture`](crate::Stream::capture), [`capture_into`](crate::Stream::capture_into) |
//! | `cuStreamBeginRecaptureToGraph` | [`Stream::recapture`](crate::Stream::recapture) |
//! | `cuStreamIsCapturing`, `cuStreamGetCaptureInfo`, `cuStreamUpdateCaptureDependencies` | [`Stream::capture_status`](crate::Stream::capture_status), [`capture_info`](crate::Stream::capture_info), [`update_capture_dependencies`](crate::Stream::update_capture_dependencies) |
//! | `cuThreadExchangeStreamCaptureMode` | [`Context::exchange_capture_mode`](crate::Context::exchange_capture_mode) |
//! | `cuGraphCreate`, `cuGraphAdd…Node` | [`Context::create_graph`](crate::Context::create_graph), [`Graph::add`](crate::Graph::add) with a [`NodeWork`](crate::NodeWork) |
//! | `cuGraphAddMemAllocNode`, `cuGraphAddMemFreeNode` | [`Graph::add_allocation`](crate::Graph::add_allocation), [`add_free`](crate::Graph::add_free) |
//! | `cuGraphConditionalHandleCreate` | [`Graph::create_conditional`](crate::Graph::create_conditional), [`add_conditional`](crate::Graph::add_conditional) |
//! | `cuGraphInstantiate`, `cuGraphUpload`, `cuGraphLaunch` | [`Graph::instantiate`](crate::Graph::instantiate), [`ExecutableGraph::upload`](crate::ExecutableGraph::upload), [`launch`](crate::ExecutableGraph::launch) |
//! | `cuGraphExecUpdate`, `cuGraphExec…NodeSetParams`, `cuGraphNodeSetEnabled` | [`ExecutableGraph::update`](crate::ExecutableGraph::update), [`set_node`](crate::ExecutableGraph::set_node), [`set_node_enabled`](crate::ExecutableGraph::set_node_enabled) |
//! | `cuGraphDebugDotPrint` | [`Graph::to_dot`](crate::Graph::to_dot), [`to_mermaid`](crate::Graph::to_mermaid), [`to_json`](crate::Graph::to_json) |
//! | `cuGraphRetainUserObject` | not needed: a graph keeps what its nodes refer to |

pub mod cuda_core;
pub mod cupy;
pub mod mojo;
pub mod rust;
pub mod warp;
