//! Conversion between the contract's handles and addresses and the driver's pointers.
//!
//! The pointers are the driver's own and are never followed here. The three special streams are small numbers, which
//! pass through as they are.

use crate::ffi::cuda_types::{
    CUcontext, CUevent, CUexternalMemory, CUexternalSemaphore, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUgreenCtx, CUmemoryPool, CUmodule, CUstream,
};
use anabranch_hal::{
    ContextHandle, EventHandle, ExecutableGraphHandle, ExternalMemoryHandle, ExternalSemaphoreHandle, FunctionHandle,
    GraphHandle, GraphNodeHandle, GreenContextHandle, MemoryPoolHandle, ModuleHandle, StreamHandle,
};
use std::ffi::{c_char, c_void};
use std::ptr;

macro_rules! conversions {
    ($($Handle:ident $Raw:ident $to_raw:ident $from_raw:ident;)*) => {
        $(
            #[inline]
            pub(crate) fn $to_raw(handle: impl Into<$Handle>) -> $Raw {
                ptr::with_exposed_provenance_mut(handle.into().as_raw())
            }

            #[inline]
            pub(crate) fn $from_raw(raw: $Raw) -> $Handle {
                $Handle::from_raw(raw.expose_provenance())
            }
        )*
    };
}

conversions! {
    ContextHandle CUcontext raw_context context_handle;
    StreamHandle CUstream raw_stream stream_handle;
    EventHandle CUevent raw_event event_handle;
    ModuleHandle CUmodule raw_module module_handle;
    FunctionHandle CUfunction raw_function function_handle;
    MemoryPoolHandle CUmemoryPool raw_pool pool_handle;
    GraphHandle CUgraph raw_graph graph_handle;
    GraphNodeHandle CUgraphNode raw_node node_handle;
    ExecutableGraphHandle CUgraphExec raw_executable executable_handle;
    GreenContextHandle CUgreenCtx raw_green green_handle;
    ExternalMemoryHandle CUexternalMemory raw_external_memory external_memory_handle;
    ExternalSemaphoreHandle CUexternalSemaphore raw_external_semaphore external_semaphore_handle;
}

/// The pointer for an address of host memory, which the contract's copies have as a number.
#[inline]
pub(crate) fn host_address(address: u64) -> *mut c_void {
    // The driver serves 64-bit systems only, on which nothing is lost.
    ptr::with_exposed_provenance_mut(address as usize)
}

/// A byte of a C structure or text. Whether C's `char` has a sign depends on the system.
pub(crate) fn unsigned(byte: c_char) -> u8 {
    u8::from_ne_bytes(byte.to_ne_bytes())
}

/// A byte for a C structure.
pub(crate) fn signed(byte: u8) -> c_char {
    c_char::from_ne_bytes(byte.to_ne_bytes())
}
