//! Launches that safe code can make: of Rust closures, on the host device.

use super::{Kernel, KernelArguments, KernelCall, LaunchConfig};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_hal::Status;

impl Stream {
    /// As [`launch`](Self::launch), of a kernel that can do no harm whatever its arguments are: a Rust closure on the host
    /// device ([`Module::load_host`](crate::Module::load_host), [`DualModule`](crate::DualModule)).
    ///
    /// Such a kernel reaches the memory of its arguments through [`GlobalSlice`](crate::GlobalSlice), which looks at bounds,
    /// at alignment and at whether the launch lends the memory for writing, and whose accesses are in one piece. A mistake
    /// ends in an error of the stream, or loses the context as on a GPU; a race, in unspecified values. What a closure does
    /// in `unsafe` code of its own is [its duty](crate::HostFunction::new) for every launch.
    ///
    /// ```
    /// use anabranch::{DualModule, HostFunction, LaunchConfig, Status};
    ///
    /// let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let module = DualModule::new().host_function(HostFunction::new("increment", &[8], |_, arguments| {
    ///     arguments.slice::<u32>(0).fetch_update(0, |count| count + 1);
    /// }));
    /// let kernel = module.load(&stream.context())?.kernel("increment")?;
    ///
    /// let mut counter = stream.upload(&[7u32])?;
    /// stream.launch_checked(&kernel, &LaunchConfig::new(10, 1), (&mut counter,))?;
    /// assert_eq!(stream.download(&counter)?, [17]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` where the kernel cannot be checked: code for a GPU, and kernels of a module
    /// with global variables. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the stream captures: the order of a
    /// graph's nodes can be changed later. Else as [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_checked<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: A,
    ) -> Result<()> {
        let operation = "launching a checked kernel";
        if let Some(reason) = kernel.core().module().unchecked() {
            return Err(Error::argument(
                Status::NOT_SUPPORTED,
                operation,
                format!("`{}` cannot be checked: {reason}", kernel.name()),
            )
            .with_hint("launch it with `launch`, which is unsafe, and see there what to promise")
            .at(self.core().place()));
        }
        self.core().refuse_while_capturing(operation)?;
        // SAFETY: the kernel is a closure, and the arguments are of the library's own types: their memory is live, in order
        // with all other work, and borrowed exclusively where it is lent for writing. The closure's safe code reaches
        // nothing else, and that through slices which check element type, bounds and access, and cannot race in Rust's
        // sense; its unsafe code holds for every launch, by the contract of `HostFunction::new`.
        unsafe { self.launch(kernel, config, arguments) }
    }
}

impl<A: KernelArguments> KernelCall<'_, A> {
    /// As [`launch`](Self::launch), of a kernel that can do no harm, a Rust closure on the host device. See
    /// [`Stream::launch_checked`].
    ///
    /// # Errors
    /// As [`Stream::launch_checked`].
    #[track_caller]
    pub fn launch_checked(self, stream: &Stream, config: &LaunchConfig) -> Result<()> {
        let (kernel, arguments) = self.into_parts();
        stream.launch_checked(kernel, config, arguments)
    }
}
