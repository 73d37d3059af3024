//! Modules and kernels (Driver API, groups MODULE and EXEC).

use crate::{
    Call, DevicePointer, Failure, FunctionHandle, HostModule, Launch, Live, ModuleHandle, Result, Status, StreamHandle,
};

/// The image that a module is loaded from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// PTX text, without a terminator.
    Ptx(&'a str),
    /// A complete cubin or fatbin.
    Binary(&'a [u8]),
    /// Kernels that are Rust closures, for the software device.
    Host(&'a HostModule),
}

/// The position of a parameter in the parameter list of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The offset in bytes.
    pub offset: usize,
    /// The size in bytes.
    pub size: usize,
}

/// The properties of a loaded kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// The maximum number of threads in a block.
    pub max_threads_per_block: u32,
    /// The static shared memory of a block, in bytes.
    pub static_shared_bytes: u32,
    /// The current maximum of the dynamic shared memory of a block, in bytes.
    pub max_dynamic_shared_bytes: u32,
    /// The local memory of a thread, in bytes.
    pub local_bytes: u32,
    /// The constant memory that the user's code declares, in bytes.
    pub constant_bytes: u32,
    /// The number of registers of a thread.
    pub registers: u32,
    /// The parameters in order, or `None` if the driver cannot report them.
    pub parameters: Option<Vec<ParameterInfo>>,
}

/// An attribute of a kernel that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionAttribute {
    /// The maximum dynamic shared memory of a block, in bytes.
    MaxDynamicSharedBytes(u32),
    /// The percentage of the cache to use as shared memory, or -1 for the default.
    PreferredSharedMemoryCarveout(i32),
    /// Whether clusters may be larger than the portable size.
    NonPortableClusterSize(bool),
}

/// Loading modules, finding and launching their kernels.
pub trait Modules {
    /// Loads a module. If this fails, the detail of the failure is the log of the assembler, if there is one.
    ///
    /// # Safety
    ///
    /// A binary image must be complete and must have been produced by NVIDIA's tools.
    unsafe fn module_load(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle>;

    /// Loads a module after linking it with the CUDA device runtime. The device runtime contains functions that kernels
    /// call to control graphs, such as `cudaGraphSetConditional`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_FILE_NOT_FOUND (301)` if the device runtime is not on this machine. `CUDA_ERROR_NOT_SUPPORTED (801)`
    /// if the driver has no device runtime.
    ///
    /// # Safety
    ///
    /// The requirements of [`module_load`](Self::module_load) apply.
    unsafe fn module_load_with_device_runtime(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        let _ = (call, image);
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    /// Unloads a module. May block until all work that is queued is complete.
    ///
    /// # Safety
    ///
    /// The module exists, and nobody uses it or its functions during the call or afterwards.
    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()>;

    /// Finds a kernel by name.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_FOUND (500)` if the module has no kernel with that name.
    fn module_function(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>, name: &str) -> Result<FunctionHandle>;

    /// Returns the names of the kernels of a module.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot report them.
    fn module_function_names(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>) -> Result<Vec<String>>;

    /// Returns the address and the size in bytes of a global variable of the module. Constant memory is included.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_FOUND (500)` if the module has no variable with that name.
    fn module_global(
        &self,
        call: &Call<'_>,
        module: Live<'_, ModuleHandle>,
        name: &str,
    ) -> Result<(DevicePointer, usize)>;

    /// Returns the name of a kernel.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot report it.
    fn function_name(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<String>;

    /// Returns the properties of a kernel.
    fn function_info(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<FunctionInfo>;

    /// Sets an attribute of a kernel.
    fn function_set_attribute(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        attribute: FunctionAttribute,
    ) -> Result<()>;

    /// Returns the maximum number of blocks of the given size that can reside on a multiprocessor at the same time.
    fn function_max_active_blocks(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32>;

    /// Returns how many clusters of a launch can reside on the device at the same time (`cuOccupancyMaxActiveClusters`). The
    /// arguments and the overlap of the launch are ignored.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_CLUSTER_SIZE (912)` for a cluster that does not fit.
    fn function_max_active_clusters(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32>;

    /// Returns how many blocks the largest cluster of a launch can have (`cuOccupancyMaxPotentialClusterSize`). The arguments and
    /// the overlap of the launch are ignored.
    fn function_max_cluster_size(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32>;

    /// Launches a kernel in stream order.
    ///
    /// # Safety
    ///
    /// The number, sizes and meaning of the arguments must be those that the kernel declares, and what the kernel does
    /// with them must be sound. The function exists until the launch is complete, and as long as the node if the stream
    /// captures.
    unsafe fn launch(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<()>;
}
