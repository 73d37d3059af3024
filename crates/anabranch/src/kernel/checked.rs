//! Launches by safe code: of Rust closures, on the host device.

use super::arguments::sealed_tuple::Sealed;
use super::{Kernel, KernelArguments, KernelCall, LaunchConfig};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::launch::LaunchArguments;
use anabranch_hal::{DeclaredRange, Status};
use smallvec::SmallVec;

impl Stream {
    /// Like [`launch`](Self::launch), for a kernel that is sound with any arguments: a Rust closure on the host device
    /// ([`Module::load_host`](crate::Module::load_host), [`DualModule`](crate::DualModule)).
    ///
    /// Such a kernel accesses the memory of its arguments through [`GlobalSlice`](crate::GlobalSlice), which checks
    /// bounds, alignment and whether the launch lends the memory for writing. Its accesses are atomic. A mistake ends
    /// in an error of the stream, or loses the context as on a GPU. A race results in unspecified values. If a closure
    /// contains `unsafe` code, that code must be [sound](crate::HostFunction::new) for every launch.
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
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the kernel cannot be checked: code for a
    /// GPU, and kernels of a module with global variables. Otherwise the same as [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_checked<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig<'_>,
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
        // SAFETY: the kernel is a closure, and the arguments are of the library's own types: an address is a number to it, the
        // memory of others is live whenever the kernel runs, and references of the host to it exclude that. The closure's safe
        // code reaches nothing else, and that through slices which check element type, bounds and access, and which access
        // memory atomically, as other nodes of a graph do. Its unsafe code holds for every launch, by the contract of
        // `HostFunction::new`.
        unsafe { self.launch_with(kernel, config, &NoAddresses(arguments)) }
    }
}

/// Arguments of which addresses are numbers, and no memory of the kernel's.
struct NoAddresses<A>(A);

impl<A: KernelArguments> Sealed for NoAddresses<A> {}

impl<A: KernelArguments> KernelArguments for NoAddresses<A> {
    fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R {
        self.0.with(|arguments| {
            let is_memory = |range: &&DeclaredRange| range.bytes != DeclaredRange::TO_THE_END;
            if arguments.ranges.iter().all(|range| is_memory(&range)) {
                return launch(arguments);
            }
            let ranges: SmallVec<[DeclaredRange; 16]> = arguments.ranges.iter().filter(is_memory).copied().collect();
            launch(&LaunchArguments { ranges: &ranges, ..*arguments })
        })
    }
}

impl<A: KernelArguments> KernelCall<'_, A> {
    /// Like [`launch`](Self::launch), for a kernel that is sound with any arguments, a Rust closure on the host device.
    /// See [`Stream::launch_checked`].
    ///
    /// # Errors
    /// Same as [`Stream::launch_checked`].
    #[track_caller]
    pub fn launch_checked(self, stream: &Stream, config: &LaunchConfig<'_>) -> Result<()> {
        let (kernel, arguments) = self.into_parts();
        stream.launch_checked(kernel, config, arguments)
    }
}
