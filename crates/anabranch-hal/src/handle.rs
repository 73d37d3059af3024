//! Opaque, typed handles of driver objects.

use std::fmt;

/// A handle of an object of a driver.
pub trait Handle: Copy + fmt::Debug {
    /// `()` if threads may use the object at the same time. Otherwise a type that remains on its thread.
    type Use;
}

macro_rules! handle {
    ($(#[$meta:meta])* $name:ident) => {
        handle!($(#[$meta])* $name, ());
    };
    ($(#[$meta:meta])* $name:ident, $Use:ty) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(usize);

        impl $name {
            /// Wraps the driver's own value, which is a pointer for CUDA and HIP.
            pub const fn from_raw(raw: usize) -> Self {
                Self(raw)
            }

            /// Returns the driver's own value.
            pub const fn as_raw(self) -> usize {
                self.0
            }

            /// Returns whether the value is zero. Zero refers to no object, except for streams, where it refers to the
            /// legacy default stream.
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }
        }

        impl Handle for $name {
            type Use = $Use;
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

handle!(
    /// A context: the state of one device for one user (`CUcontext`).
    ContextHandle
);
handle!(
    /// A stream (`CUstream`), or one of the three special values below.
    StreamHandle
);
handle!(
    /// An event (`CUevent`).
    EventHandle
);
handle!(
    /// A loaded module (`CUmodule`).
    ModuleHandle
);
handle!(
    /// A kernel in a loaded module (`CUfunction`).
    FunctionHandle
);
handle!(
    /// A memory pool (`CUmemoryPool`).
    MemoryPoolHandle
);

handle!(
    /// Memory of another API or process (`CUexternalMemory`).
    ExternalMemoryHandle
);
handle!(
    /// A semaphore of another API or process (`CUexternalSemaphore`).
    ExternalSemaphoreHandle
);

handle!(
    /// A green context (`CUgreenCtx`).
    GreenContextHandle
);

handle!(
    /// A graph: a description of work (`CUgraph`).
    GraphHandle, *const ()
);
handle!(
    /// A node of a graph (`CUgraphNode`).
    GraphNodeHandle, *const ()
);
handle!(
    /// An executable graph (`CUgraphExec`).
    ExecutableGraphHandle, *const ()
);

/// The value that determines what a conditional node runs (`CUgraphConditionalHandle`). Kernels receive it as a plain
/// 64-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct ConditionalHandle(pub u64);

impl StreamHandle {
    /// The null handle, which refers to the legacy default stream.
    pub const NULL: Self = Self(0);
    /// The legacy default stream (`CU_STREAM_LEGACY`).
    pub const LEGACY: Self = Self(1);
    /// The default stream of the calling thread (`CU_STREAM_PER_THREAD`).
    pub const PER_THREAD: Self = Self(2);

    /// Returns whether this is the legacy default stream, under either of its two values.
    pub const fn is_legacy(self) -> bool {
        self.0 <= 1
    }

    /// Returns whether this is the per-thread default stream.
    pub const fn is_per_thread(self) -> bool {
        self.0 == 2
    }
}

/// The number of a device within its driver, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceOrdinal(pub u32);

/// An address in device memory (`CUdeviceptr`). On the software device it is an address of this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// The null address.
    pub const NULL: Self = Self(0);

    /// Returns whether this is the null address.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the address plus `bytes`. The addition wraps around, as on hardware.
    #[must_use]
    pub const fn byte_add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes as u64))
    }
}

impl fmt::Debug for DevicePointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DevicePointer({:#x})", self.0)
    }
}
