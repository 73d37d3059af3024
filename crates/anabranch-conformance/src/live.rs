//! Handles of the objects that a case owns, for calls of the driver.

use anabranch::hal::{Handle, Live};
use anabranch::{
    Context, ContextHandle, Event, EventHandle, ExecutableGraph, ExecutableGraphHandle, FunctionHandle, Graph,
    GraphHandle, Kernel, MemoryPool, MemoryPoolHandle, Module, ModuleHandle, Stream, StreamHandle,
};

/// An object of the library whose handle a case gives to the driver.
pub(crate) trait Owner {
    /// The kind of the handle.
    type Handle: Handle;

    /// The handle, for as long as the object is borrowed.
    fn live(&self) -> Live<'_, Self::Handle>;
}

macro_rules! owners {
    ($($Object:ty => $Handle:ty;)*) => {
        $(
            impl Owner for $Object {
                type Handle = $Handle;

                fn live(&self) -> Live<'_, $Handle> {
                    // SAFETY: the object owns what the handle names, and is borrowed. A case calls the driver of the device
                    // that it tests only, and uses a graph on one thread. It does nothing with the memory of the objects
                    // that their own methods do not order.
                    unsafe { Live::new(self.as_raw()) }
                }
            }
        )*
    };
}

owners! {
    Context => ContextHandle;
    Stream => StreamHandle;
    Event => EventHandle;
    Module => ModuleHandle;
    Kernel => FunctionHandle;
    MemoryPool => MemoryPoolHandle;
    Graph => GraphHandle;
    ExecutableGraph => ExecutableGraphHandle;
}
