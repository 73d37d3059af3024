//! Objects that callers know by a handle.

use anabranch_hal::{
    ContextHandle, EventHandle, ExecutableGraphHandle, Failure, FunctionHandle, GraphHandle, GraphNodeHandle,
    MemoryPoolHandle, ModuleHandle, Result, Status, StreamHandle,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use crate::context::ContextState;
use crate::engine::stream::StreamState;
use crate::event::EventState;
use crate::executable::ExecutableState;
use crate::graph::{GraphState, NodeState};
use crate::memory::PoolState;
use crate::module::{FunctionState, ModuleState};

/// The objects of one kind that an owner has given handles for. A handle is the object's address.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    objects: Mutex<HashMap<usize, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { objects: Mutex::new(HashMap::new()) }
    }
}

impl<T> Handles<T> {
    /// Keeps an object until its handle is destroyed.
    pub(crate) fn insert(&self, object: Arc<T>) -> usize {
        let handle = Arc::as_ptr(&object) as usize;
        self.objects.lock().insert(handle, object);
        handle
    }

    /// Takes an object out, when its handle is destroyed.
    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.lock().remove(&handle)
    }

    /// Takes all objects out.
    pub(crate) fn take_all(&self) -> Vec<Arc<T>> {
        std::mem::take(&mut *self.objects.lock()).into_values().collect()
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.objects.lock().values().map(Arc::clone).collect()
    }
}

/// The object behind a handle.
///
/// # Safety
/// `raw` is 0, or the address of a `T` that is not destroyed for as long as `'a`.
unsafe fn object<'a, T>(raw: usize) -> Option<&'a T> {
    // SAFETY: the handle is the address of a `T` inside of an `Arc`, which its owner holds until it is destroyed.
    unsafe { (raw as *const T).as_ref() }
}

macro_rules! lookups {
    ($($name:ident: $handle:ident => $state:ident or $status:ident;)*) => { $(
        /// The object behind a handle.
        ///
        /// # Safety
        /// The handle is null, or was made by this crate and is not destroyed for as long as `'a`.
        #[inline]
        pub(crate) unsafe fn $name<'a>(handle: $handle) -> Result<&'a $state> {
            // SAFETY: handles of this kind are addresses of objects of that type; the rest is the caller's word.
            unsafe { object(handle.as_raw()) }.ok_or(Failure::new(Status::$status))
        }
    )* };
}

lookups! {
    context: ContextHandle => ContextState or INVALID_CONTEXT;
    event: EventHandle => EventState or INVALID_HANDLE;
    executable: ExecutableGraphHandle => ExecutableState or INVALID_VALUE;
    function: FunctionHandle => FunctionState or INVALID_HANDLE;
    graph: GraphHandle => GraphState or INVALID_VALUE;
    module: ModuleHandle => ModuleState or INVALID_HANDLE;
    node: GraphNodeHandle => NodeState or INVALID_VALUE;
    pool: MemoryPoolHandle => PoolState or INVALID_VALUE;
    stream: StreamHandle => StreamState or INVALID_HANDLE;
}
