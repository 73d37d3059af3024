//! Modules of host functions, and launches.

mod globals;
mod launch;

use crate::context::ContextCore;
use crate::device::{MAX_SHARED_BYTES, MAX_SHARED_BYTES_OPTIN, MAX_THREADS_PER_BLOCK};
use crate::driver::HostDriver;
use crate::engine::host_work::permitted;
use crate::handles;
use crate::stream::resolve;
use anabranch_hal::{
    ContextHandle, DevicePointer, Failure, FunctionAttribute, FunctionHandle, FunctionInfo, HostFunction, Launch,
    ModuleHandle, ModuleImage, Modules, ParameterInfo, Result, Status, StreamHandle,
};
use globals::Globals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Threads that a multiprocessor of an H100 holds at once.
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Blocks that it holds.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Its shared memory in bytes.
const SHARED_BYTES_PER_MULTIPROCESSOR: usize = 228 << 10;
/// What each block takes of that beside its own.
const SHARED_BYTES_RESERVED: usize = 1 << 10;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct ModuleState {
    core: Arc<ContextCore>,
    functions: Vec<Arc<FunctionState>>,
    globals: Arc<Globals>,
}

impl ModuleState {
    fn function(&self, name: &str) -> Option<&Arc<FunctionState>> {
        self.functions.iter().find(|function| function.function.name() == name)
    }
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) core: Arc<ContextCore>,
    pub(crate) function: HostFunction,
    pub(crate) globals: Arc<Globals>,
    max_dynamic_shared_bytes: AtomicU32,
    non_portable_cluster_size: AtomicBool,
}

impl FunctionState {
    fn new(core: &Arc<ContextCore>, function: &HostFunction, globals: &Arc<Globals>) -> Arc<Self> {
        let dynamic = MAX_SHARED_BYTES.saturating_sub(function.static_shared_bytes());
        Arc::new(Self {
            core: Arc::clone(core),
            function: function.clone(),
            globals: Arc::clone(globals),
            max_dynamic_shared_bytes: AtomicU32::new(dynamic),
            non_portable_cluster_size: AtomicBool::new(false),
        })
    }

    /// How many blocks a multiprocessor holds at once.
    fn max_active_blocks(&self, threads: u32, dynamic_shared_bytes: usize) -> u32 {
        let dynamic_limit = self.max_dynamic_shared_bytes.load(Ordering::Relaxed) as usize;
        if threads == 0 || threads > MAX_THREADS_PER_BLOCK || dynamic_shared_bytes > dynamic_limit {
            return 0;
        }
        let shared = dynamic_shared_bytes + self.function.static_shared_bytes() as usize + SHARED_BYTES_RESERVED;
        // Threads come in warps.
        let by_threads = THREADS_PER_MULTIPROCESSOR / threads.next_multiple_of(32);
        let by_shared = u32::try_from(SHARED_BYTES_PER_MULTIPROCESSOR / shared).unwrap_or(u32::MAX);
        BLOCKS_PER_MULTIPROCESSOR.min(by_threads).min(by_shared)
    }
}

impl Modules for HostDriver {
    unsafe fn module_load(&self, context: ContextHandle, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        let context = unsafe { handles::context(context) }?;
        context.core.check()?;
        let ModuleImage::Host(module) = image else {
            return Err(Failure::argument(
                Status::NOT_SUPPORTED,
                "the host device runs functions in Rust, and not PTX or machine code; give the module a `HostModule` \
                 beside its image, and each device takes the one that it can run",
            ));
        };
        context.core.wait_for_all(context.core.patience());
        let globals = Globals::allocate(&context.core, module.globals())?;
        let functions =
            module.functions().iter().map(|function| FunctionState::new(&context.core, function, &globals)).collect();
        let module = Arc::new(ModuleState { core: Arc::clone(&context.core), functions, globals });
        Ok(ModuleHandle::from_raw(context.core.modules.insert(module)))
    }

    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { handles::module(module) }?.core);
        self.shared.captures.before_unsafe_call()?;
        // Launches in flight hold no share in the module.
        core.wait_for_all(core.patience());
        core.modules.remove(module.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        core.check()
    }

    unsafe fn module_function(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let module = unsafe { handles::module(module) }?;
        if name.is_empty() {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // The module holds the function for as long as the handle may be used.
        module
            .function(name)
            .map(|function| FunctionHandle::from_raw(Arc::as_ptr(function) as usize))
            .ok_or(Failure::new(Status::NOT_FOUND))
    }

    unsafe fn module_function_names(&self, context: ContextHandle, module: ModuleHandle) -> Result<Vec<String>> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let module = unsafe { handles::module(module) }?;
        Ok(module.functions.iter().map(|function| function.function.name().to_owned()).collect())
    }

    unsafe fn module_global(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePointer, usize)> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let module = unsafe { handles::module(module) }?;
        if name.is_empty() || module.function(name).is_some() {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let global = module.globals.ranges().iter().find(|global| global.name == name);
        global.map(|global| (global.address, global.bytes)).ok_or(Failure::new(Status::NOT_FOUND))
    }

    unsafe fn function_name(&self, _: ContextHandle, function: FunctionHandle) -> Result<String> {
        permitted()?;
        // SAFETY: the handle rule.
        Ok(unsafe { handles::function(function) }?.function.name().to_owned())
    }

    unsafe fn function_info(&self, context: ContextHandle, function: FunctionHandle) -> Result<FunctionInfo> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let function = unsafe { handles::function(function) }?;
        let mut offset = 0;
        let parameters = function.function.parameter_sizes().iter().map(|&size| {
            let parameter = ParameterInfo { offset, size };
            offset += size;
            parameter
        });
        Ok(FunctionInfo {
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            static_shared_bytes: function.function.static_shared_bytes(),
            max_dynamic_shared_bytes: function.max_dynamic_shared_bytes.load(Ordering::Relaxed),
            local_bytes: 0,
            constant_bytes: 0,
            registers: 0,
            parameters: Some(parameters.collect()),
        })
    }

    unsafe fn function_set_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let function = unsafe { handles::function(function) }?;
        let bad = Err(Failure::new(Status::INVALID_VALUE));
        match attribute {
            FunctionAttribute::MaxDynamicSharedBytes(bytes) => {
                if bytes > MAX_SHARED_BYTES_OPTIN.saturating_sub(function.function.static_shared_bytes()) {
                    return bad;
                }
                function.max_dynamic_shared_bytes.store(bytes, Ordering::Relaxed);
            }
            // A hint, to which nothing here corresponds.
            FunctionAttribute::PreferredSharedMemoryCarveout(percent) => {
                if !(-1..=100).contains(&percent) {
                    return bad;
                }
            }
            FunctionAttribute::NonPortableClusterSize(allowed) => {
                function.non_portable_cluster_size.store(allowed, Ordering::Relaxed);
            }
            _ => return Err(Failure::new(Status::NOT_SUPPORTED)),
        }
        Ok(())
    }

    unsafe fn function_max_active_blocks(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        if threads_per_block == 0 {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // SAFETY: the handle rule.
        Ok(unsafe { handles::function(function) }?.max_active_blocks(threads_per_block, dynamic_shared_bytes))
    }

    unsafe fn launch(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: FunctionHandle,
        launch: &Launch<'_>,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the handle rule.
        let function = unsafe { handles::function(function) }?;
        // SAFETY: the caller vouches for the arguments and for what the kernel does; `module_unload` waits for the launches
        // that it finds, and by its rule there are none later.
        unsafe { function.launch(&stream, launch) }
    }
}
