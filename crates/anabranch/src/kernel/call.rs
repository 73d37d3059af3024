//! A kernel together with the arguments of a launch.

use super::{Kernel, KernelArguments, LaunchConfig};
use crate::error::Result;
use crate::stream::Stream;
use std::fmt;

/// A kernel with its arguments, returned by a launcher that [`kernels!`](crate::kernels) made. Nothing is queued until
/// it is launched.
///
/// # What the caller of a launch promises
///
/// The launcher has checked that the arguments have the declared number and types, and are marked as read or written as
/// declared. Loading has compared the declaration with the module's code, as far as the driver reports it. The caller
/// of the `unsafe` methods must promise the rest, unless [`launch_checked`](Self::launch_checked) accepts the kernel:
///
/// * The declaration is true: each parameter of the kernel has the declared type, and memory behind a parameter
///   declared as `&[T]` is only read. This is a promise about the code, and is the same for every launch.
/// * The kernel accesses only its arguments: no element past the end of a buffer, whose length it knows only if another
///   argument contains it, and no other memory, unless that is valid and ordered until the launch has run.
/// * Its threads do not race in this configuration, and the kernel does what
///   [`programmatic_stream_serialization`](LaunchConfig::programmatic_stream_serialization) asks for, if that is on.
#[must_use = "a call is not launched until one of its methods does it"]
pub struct KernelCall<'a, A: KernelArguments> {
    kernel: &'a Kernel,
    arguments: A,
}

impl<'a, A: KernelArguments> KernelCall<'a, A> {
    /// What launchers call.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __new(kernel: &'a Kernel, arguments: A) -> Self {
        Self { kernel, arguments }
    }

    pub(crate) fn into_parts(self) -> (&'a Kernel, A) {
        (self.kernel, self.arguments)
    }

    /// The kernel.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// Launches the kernel in the order of `stream`, and returns at once, as [`Stream::launch`] does.
    ///
    /// # Safety
    /// The promises [above](Self#what-the-caller-of-a-launch-promises).
    ///
    /// # Errors
    /// Same as [`Stream::launch`].
    #[inline]
    #[track_caller]
    pub unsafe fn launch(self, stream: &Stream, config: &LaunchConfig<'_>) -> Result<()> {
        // SAFETY: the arguments are those that were declared, and the caller promises that the declaration is that of the code,
        // and that the launch is sound.
        unsafe { stream.launch(self.kernel, config, self.arguments) }
    }
}

impl<A: KernelArguments> fmt::Debug for KernelCall<'_, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KernelCall(`{}`)", self.kernel.name())
    }
}
