//! Identities of objects for layers: an id that is never reused, and a name that the user may assign.

use crate::{
    Call, DevicePointer, EventHandle, ExecutableGraphHandle, FunctionHandle, GraphHandle, MemoryPoolHandle,
    ModuleHandle, StreamHandle,
};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a context, stream, event, piece of memory, module, kernel or graph. Drivers reuse handles and addresses.
/// Ids are unique in the process and are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u64);

impl ObjectId {
    /// Returns an id that no object has had before.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.0)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// An object, identified by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectHandle {
    /// The context of the call.
    Context,
    /// A stream.
    Stream(StreamHandle),
    /// An event.
    Event(EventHandle),
    /// A piece of memory, identified by its first address.
    Memory(DevicePointer),
    /// A memory pool.
    MemoryPool(MemoryPoolHandle),
    /// A module.
    Module(ModuleHandle),
    /// A kernel.
    Function(FunctionHandle),
    /// A graph.
    Graph(GraphHandle),
    /// An executable graph.
    ExecutableGraph(ExecutableGraphHandle),
}

/// Notifications about objects. Layers use them. Back ends ignore them.
pub trait Objects {
    /// Returns whether the driver or one of its layers wants to be notified about objects. The library asks once per
    /// context.
    fn observes_objects(&self) -> bool {
        false
    }

    /// Notifies the driver that an object was created or opened, and has this id.
    fn object_created(&self, call: &Call<'_>, object: ObjectHandle, id: ObjectId) {
        let _ = (call, object, id);
    }

    /// Notifies the driver that the user has named an object.
    fn object_named(&self, call: &Call<'_>, id: ObjectId, name: &str) {
        let _ = (call, id, name);
    }
}
