//! The driver's status codes.

use std::fmt;

/// The result code of a driver call: the integer of `CUresult`. HIP uses the same numbers.
///
/// It is a newtype and not an `enum`, so that it can represent codes that a newer driver adds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($code:literal $name:ident $c_name:ident $text:literal)*) => {
        impl Status {
            $(
                #[doc = concat!("`", stringify!($c_name), "`: ", $text, ".")]
                pub const $name: Self = Self($code);
            )*

            /// The driver's name for the code, such as `CUDA_ERROR_NOT_READY`, or `None` if this crate does not know
            /// the code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($c_name)),)*
                    _ => None,
                }
            }

            /// The meaning of the code as a clause, or `None` if this crate does not know the code.
            pub const fn description(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    0 SUCCESS CUDA_SUCCESS "the call succeeded"
    1 INVALID_VALUE CUDA_ERROR_INVALID_VALUE "an argument is outside of its range"
    2 OUT_OF_MEMORY CUDA_ERROR_OUT_OF_MEMORY "there is not enough memory"
    3 NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED "the driver is not initialised"
    4 DEINITIALIZED CUDA_ERROR_DEINITIALIZED "the driver is shutting down"
    34 STUB_LIBRARY CUDA_ERROR_STUB_LIBRARY "the library found is a stub and not a driver"
    46 DEVICE_UNAVAILABLE CUDA_ERROR_DEVICE_UNAVAILABLE "the device is busy or unavailable"
    100 NO_DEVICE CUDA_ERROR_NO_DEVICE "no device was found"
    101 INVALID_DEVICE CUDA_ERROR_INVALID_DEVICE "there is no device of that number"
    200 INVALID_IMAGE CUDA_ERROR_INVALID_IMAGE "the module image is not valid"
    201 INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT "there is no valid context"
    205 MAP_FAILED CUDA_ERROR_MAP_FAILED "the memory could not be mapped"
    208 ALREADY_MAPPED CUDA_ERROR_ALREADY_MAPPED "the resource is mapped already"
    209 NO_BINARY_FOR_GPU CUDA_ERROR_NO_BINARY_FOR_GPU "the module has no code for this device"
    215 UNSUPPORTED_LIMIT CUDA_ERROR_UNSUPPORTED_LIMIT "the device does not support that limit"
    217 PEER_ACCESS_UNSUPPORTED CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "the devices cannot access each other's memory"
    218 INVALID_PTX CUDA_ERROR_INVALID_PTX "the PTX could not be assembled"
    221 JIT_COMPILER_NOT_FOUND CUDA_ERROR_JIT_COMPILER_NOT_FOUND "the PTX assembler was not found"
    222 UNSUPPORTED_PTX_VERSION CUDA_ERROR_UNSUPPORTED_PTX_VERSION "the PTX is newer than the driver"
    300 INVALID_SOURCE CUDA_ERROR_INVALID_SOURCE "the kernel source is not valid"
    301 FILE_NOT_FOUND CUDA_ERROR_FILE_NOT_FOUND "the file was not found"
    302 SHARED_OBJECT_SYMBOL_NOT_FOUND CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND "a symbol of a shared library was not found"
    303 SHARED_OBJECT_INIT_FAILED CUDA_ERROR_SHARED_OBJECT_INIT_FAILED "a shared library could not be initialised"
    304 OPERATING_SYSTEM CUDA_ERROR_OPERATING_SYSTEM "the operating system refused"
    400 INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE "a handle is not valid for this call"
    401 ILLEGAL_STATE CUDA_ERROR_ILLEGAL_STATE "the object is not in the state that the call needs"
    402 LOSSY_QUERY CUDA_ERROR_LOSSY_QUERY "the query would lose information"
    500 NOT_FOUND CUDA_ERROR_NOT_FOUND "the name was not found"
    600 NOT_READY CUDA_ERROR_NOT_READY "the work is not complete yet"
    700 ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS "a kernel used an address that is not valid"
    701 LAUNCH_OUT_OF_RESOURCES CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES "the launch needs more registers or memory than a block can have"
    702 LAUNCH_TIMEOUT CUDA_ERROR_LAUNCH_TIMEOUT "a kernel ran for too long"
    704 PEER_ACCESS_ALREADY_ENABLED CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED "peer access is enabled already"
    705 PEER_ACCESS_NOT_ENABLED CUDA_ERROR_PEER_ACCESS_NOT_ENABLED "peer access is not enabled"
    708 PRIMARY_CONTEXT_ACTIVE CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE "the primary context is in use already"
    709 CONTEXT_IS_DESTROYED CUDA_ERROR_CONTEXT_IS_DESTROYED "the context has been destroyed"
    710 ASSERT CUDA_ERROR_ASSERT "an assertion failed in a kernel"
    711 TOO_MANY_PEERS CUDA_ERROR_TOO_MANY_PEERS "the device has access to as many peers as it can"
    712 HOST_MEMORY_ALREADY_REGISTERED CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED "host memory is registered already"
    713 HOST_MEMORY_NOT_REGISTERED CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED "no host memory is registered there"
    714 HARDWARE_STACK_ERROR CUDA_ERROR_HARDWARE_STACK_ERROR "a kernel corrupted its stack"
    715 ILLEGAL_INSTRUCTION CUDA_ERROR_ILLEGAL_INSTRUCTION "a kernel ran an illegal instruction"
    716 MISALIGNED_ADDRESS CUDA_ERROR_MISALIGNED_ADDRESS "a kernel used an address that is not aligned"
    717 INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_ADDRESS_SPACE "a kernel used an address of the wrong space"
    718 INVALID_PC CUDA_ERROR_INVALID_PC "a kernel jumped outside of its code"
    719 LAUNCH_FAILED CUDA_ERROR_LAUNCH_FAILED "a kernel failed while it ran"
    720 COOPERATIVE_LAUNCH_TOO_LARGE CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE "the cooperative grid does not fit on the device at once"
    800 NOT_PERMITTED CUDA_ERROR_NOT_PERMITTED "the call is not permitted here"
    801 NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED "the device or driver does not support this"
    802 SYSTEM_NOT_READY CUDA_ERROR_SYSTEM_NOT_READY "the system is not ready to start the driver"
    803 SYSTEM_DRIVER_MISMATCH CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "the library and the kernel driver are of different versions"
    804 COMPAT_NOT_SUPPORTED_ON_DEVICE CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE "forward compatibility is not supported on this device"
    900 STREAM_CAPTURE_UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "the operation is not permitted while a stream captures"
    901 STREAM_CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "the capture was invalidated by an earlier error"
    902 STREAM_CAPTURE_MERGE CUDA_ERROR_STREAM_CAPTURE_MERGE "the operation would merge two captures"
    903 STREAM_CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNMATCHED "the capture was not begun in this stream"
    904 STREAM_CAPTURE_UNJOINED CUDA_ERROR_STREAM_CAPTURE_UNJOINED "a stream that joined the capture was not joined to its origin"
    905 STREAM_CAPTURE_ISOLATION CUDA_ERROR_STREAM_CAPTURE_ISOLATION "a dependency would cross the boundary of the capture"
    906 STREAM_CAPTURE_IMPLICIT CUDA_ERROR_STREAM_CAPTURE_IMPLICIT "the operation would depend on a capture through the legacy stream"
    907 CAPTURED_EVENT CUDA_ERROR_CAPTURED_EVENT "the event was last recorded in a capturing stream"
    908 STREAM_CAPTURE_WRONG_THREAD CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD "the capture was begun by another thread"
    909 TIMEOUT CUDA_ERROR_TIMEOUT "the time ran out"
    910 GRAPH_EXEC_UPDATE_FAILURE CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE "the executable graph cannot be updated that way"
    912 INVALID_CLUSTER_SIZE CUDA_ERROR_INVALID_CLUSTER_SIZE "the cluster does not fit on the device"
    914 INVALID_RESOURCE_TYPE CUDA_ERROR_INVALID_RESOURCE_TYPE "the resource is of another type"
    915 INVALID_RESOURCE_CONFIGURATION CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION "the resources cannot be used in this way"
    917 STREAM_DETACHED CUDA_ERROR_STREAM_DETACHED "the green context of the stream has been destroyed"
    999 UNKNOWN CUDA_ERROR_UNKNOWN "the driver does not know what went wrong"
}

impl Status {
    /// Returns whether the call succeeded.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the code means that the context is lost. Every later call on a lost context returns the same
    /// code.
    ///
    /// These are the codes of which CUDA documents that "any further CUDA work will return the same error" (700, 702, 710, 714 to
    /// 719, 226, 721) or that the process must be started again (810), and errors of the device that cannot be corrected (214,
    /// 220). Codes that can be those of a lost context or of a single call are not among them, such as 911 and 999: whoever takes
    /// them for a loss would stop waiting for work that runs.
    pub const fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 810)
    }

    /// Returns `Ok` for success, and the status itself otherwise.
    #[inline]
    pub const fn result(self) -> Result<(), Self> {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(formatter, "{} {name}", self.0),
            None => write!(formatter, "{}", self.0),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.description(), self.name()) {
            (Some(description), Some(name)) => write!(formatter, "{description}: {name} ({})", self.0),
            _ => write!(formatter, "the driver returned code {}, which this version does not know", self.0),
        }
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn an_unknown_code_stays_representable() {
        let status = Status(4242);
        assert_eq!(status.name(), None);
        assert!(status.to_string().contains("4242"));
        assert_eq!(status.result(), Err(status));
    }

    #[test]
    fn only_lost_contexts_are_sticky() {
        assert!(Status::ILLEGAL_ADDRESS.is_sticky());
        assert!(Status::LAUNCH_FAILED.is_sticky());
        assert!([214, 220, 226, 721, 810].iter().all(|&code| Status(code).is_sticky()));
        assert!(!Status(911).is_sticky());
        assert!(!Status::UNKNOWN.is_sticky());
        assert!(!Status::NOT_READY.is_sticky());
        assert!(!Status::CONTEXT_IS_DESTROYED.is_sticky());
        assert!(!Status::STREAM_CAPTURE_INVALIDATED.is_sticky());
    }
}
