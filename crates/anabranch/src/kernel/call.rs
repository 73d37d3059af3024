//! A kernel with the arguments that it is to be launched with.

use super::{Kernel, KernelArguments, LaunchConfig};
use crate::error::Result;
use crate::stream::Stream;
use std::fmt;

/// A kernel with its arguments, as a launcher that [`kernels!`](crate::kernels) made returns it. Nothing is queued until it is
/// launched.
///
/// # What the caller of a launch promises
///
/// The launcher has seen to it that the arguments are as many as were declared, of the declared types, and marked as read
/// or written as declared; loading has compared the declaration with the module's code, as far as the driver can say. What
/// is left for the caller of the `unsafe` methods to promise, unless the kernel is one that
/// [`launch_checked`](Self::launch_checked) takes:
///
/// * The declaration is true: each parameter of the kernel is of the declared type, and memory behind a parameter declared
///   as `&[T]` is only read. It is a promise about the code, and once made holds for every launch.
/// * The kernel stays within its arguments: it reads and writes no element beyond a buffer's length, which the code is
///   told, if at all, by another argument, and no other memory, unless that is live and ordered until the launch has run.
/// * Its threads do not race with this configuration.
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
    /// What is said [above](Self#what-the-caller-of-a-launch-promises).
    ///
    /// # Errors
    /// As [`Stream::launch`].
    #[inline]
    #[track_caller]
    pub unsafe fn launch(self, stream: &Stream, config: &LaunchConfig) -> Result<()> {
        // SAFETY: the caller's promise; the arguments are those that were declared.
        unsafe { stream.launch(self.kernel, config, self.arguments) }
    }
}

impl<A: KernelArguments> fmt::Debug for KernelCall<'_, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KernelCall(`{}`)", self.kernel.name())
    }
}
