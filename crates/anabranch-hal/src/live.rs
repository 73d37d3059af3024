//! Handles of objects that exist.

use crate::{
    ContextHandle, EventHandle, ExecutableGraphHandle, ExternalMemoryHandle, ExternalSemaphoreHandle, FunctionHandle,
    GraphHandle, GraphNodeHandle, GreenContextHandle, Handle, MemoryPoolHandle, ModuleHandle, StreamHandle,
};
use std::fmt;
use std::marker::PhantomData;

/// A handle of an object that exists for as long as `'a`, and that belongs to the driver that the handle is given to.
///
/// This is **the handle rule** as a type: whoever makes a `Live` promises it once, and calls that need no other promise
/// are safe. Copies are free: at run time this is the handle.
///
/// Drivers do not synchronize access to graphs. Who makes a `Live` of a graph, of a node or of an executable graph
/// promises that also: no other thread uses the graph meanwhile. Such a `Live` therefore remains on its thread. Others can
/// be sent to another.
///
/// ```
/// # fn is_send<T: Send>() {}
/// use anabranch_hal::{Live, StreamHandle};
///
/// is_send::<Live<'_, StreamHandle>>();
/// ```
///
/// ```compile_fail,E0277
/// # fn is_send<T: Send>() {}
/// use anabranch_hal::{GraphHandle, Live};
///
/// is_send::<Live<'_, GraphHandle>>();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Live<'a, H: Handle> {
    handle: H,
    object: PhantomData<(&'a (), H::Use)>,
}

impl<H: Handle> Live<'_, H> {
    /// Promises that a handle is that of an object that exists.
    ///
    /// # Safety
    ///
    /// * The object exists for as long as the result's lifetime. It may be destroyed earlier if neither the result nor a
    ///   copy is used afterwards. A null handle is allowed: drivers refuse it.
    /// * The result and its copies are given only to the driver that made the object, or to a layer of it.
    /// * If the object is a graph, a node of one, or an executable graph, no other thread uses that graph, or one inside
    ///   its nodes, for as long as the result's lifetime. Submitting work to a stream that is a member of a capture uses
    ///   the graph of the capture.
    #[inline(always)]
    pub const unsafe fn new(handle: H) -> Self {
        Self { handle, object: PhantomData }
    }

    /// The handle.
    #[inline(always)]
    pub const fn handle(self) -> H {
        self.handle
    }
}

macro_rules! handles {
    ($($Handle:ident)*) => { $(
        impl Live<'static, $Handle> {
            /// The null handle. Drivers refuse it, except that of a stream, which refers to the legacy default stream.
            pub const NULL: Self = Self { handle: $Handle::from_raw(0), object: PhantomData };
        }

        impl From<Live<'_, $Handle>> for $Handle {
            #[inline(always)]
            fn from(live: Live<'_, $Handle>) -> Self {
                live.handle()
            }
        }
    )* };
}

handles! {
    ContextHandle StreamHandle EventHandle ModuleHandle FunctionHandle MemoryPoolHandle GraphHandle GraphNodeHandle
    ExecutableGraphHandle ExternalMemoryHandle ExternalSemaphoreHandle GreenContextHandle
}

/// The default streams always exist, in every driver.
impl Live<'static, StreamHandle> {
    /// [`StreamHandle::LEGACY`].
    pub const LEGACY: Self = Self { handle: StreamHandle::LEGACY, object: PhantomData };
    /// [`StreamHandle::PER_THREAD`].
    pub const PER_THREAD: Self = Self { handle: StreamHandle::PER_THREAD, object: PhantomData };

    /// The default stream of that handle, or `None` if it is that of another stream.
    pub const fn default_stream(handle: StreamHandle) -> Option<Self> {
        if handle.is_legacy() || handle.is_per_thread() { Some(Self { handle, object: PhantomData }) } else { None }
    }
}

impl<H: Handle> fmt::Debug for Live<'_, H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(formatter)
    }
}
