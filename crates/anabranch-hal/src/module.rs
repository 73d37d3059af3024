//! Modules and kernels (Driver API, groups MODULE and EXEC).

use crate::{
    ContextHandle, DevicePointer, Failure, FunctionHandle, HostModule, Launch, ModuleHandle, Result, Status,
    StreamHandle,
};

/// What a module is loaded from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// PTX text, without a terminator.
    Ptx(&'a str),
    /// A cubin or fatbin, whole.
    Binary(&'a [u8]),
    /// Functions in Rust, for the host device.
    Host(&'a HostModule),
}

/// Where a kernel's parameter lies among its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// What a loaded kernel says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Threads of a block, at most.
    pub max_threads_per_block: u32,
    /// Static shared memory of a block, in bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory of a block in bytes, at most, as set now.
    pub max_dynamic_shared_bytes: u32,
    /// Local memory of a thread, in bytes.
    pub local_bytes: u32,
    /// Constant memory of the user's own, in bytes.
    pub constant_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// The parameters in order, or `None` where the driver cannot say.
    pub parameters: Option<Vec<ParameterInfo>>,
}

/// An attribute of a kernel that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionAttribute {
    /// Dynamic shared memory of a block in bytes, at most.
    MaxDynamicSharedBytes(u32),
    /// The share of the cache to use as shared memory, in percent, or -1 for the default.
    PreferredSharedMemoryCarveout(i32),
    /// Whether clusters larger than the portable size are allowed.
    NonPortableClusterSize(bool),
}

/// Modules: loaded, searched, launched from.
pub trait Modules {
    /// Loads a module. What the assembler says on failure is in the failure's detail.
    ///
    /// # Safety
    /// The handle rule. A binary image is whole, and made by NVIDIA's tools.
    unsafe fn module_load(&self, context: ContextHandle, image: ModuleImage<'_>) -> Result<ModuleHandle>;

    /// Loads a module after linking it to the device runtime, which has the functions that kernels call to steer graphs,
    /// such as `cudaGraphSetConditional`. 301 where the device runtime is not on this machine, 801 where there is none.
    ///
    /// # Safety
    /// As [`module_load`](Self::module_load).
    unsafe fn module_load_with_device_runtime(
        &self,
        context: ContextHandle,
        image: ModuleImage<'_>,
    ) -> Result<ModuleHandle> {
        let _ = (context, image);
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    /// Unloads a module, once the work queued so far is done: it may block until then.
    ///
    /// # Safety
    /// The handle rule; nothing is launched from the module any more.
    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()>;

    /// Finds a kernel by name. 500 where there is none.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn module_function(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle>;

    /// The names of the module's kernels. 801 where the driver cannot say.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn module_function_names(&self, context: ContextHandle, module: ModuleHandle) -> Result<Vec<String>>;

    /// Address and size in bytes of a global variable of the module, constant memory included. 500 where there is none.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn module_global(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePointer, usize)>;

    /// A kernel's name. 801 where the driver cannot say.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn function_name(&self, context: ContextHandle, function: FunctionHandle) -> Result<String>;

    /// What a kernel says of itself.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn function_info(&self, context: ContextHandle, function: FunctionHandle) -> Result<FunctionInfo>;

    /// Sets an attribute of a kernel.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn function_set_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<()>;

    /// How many blocks of that size fit on a multiprocessor at once.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn function_max_active_blocks(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32>;

    /// Launches a kernel in stream order.
    ///
    /// # Safety
    /// The handle rule; the arguments are as many, and each of the size and meaning, as the kernel declares, and
    /// what the kernel then does is sound.
    unsafe fn launch(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: FunctionHandle,
        launch: &Launch<'_>,
    ) -> Result<()>;
}
