//! The kernel that sets the value of a conditional node, loaded into a context when it is first needed.

use crate::capture_mode::CaptureModeGuard;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::extensions::{ClosingContext, Extension};
use crate::host_work::refuse_inside;
use crate::ranks;
use crate::waiting_call::call_waiting;
use anabranch_hal::{
    Access, Call, Capabilities, CaptureMode, ConditionalHandle, DeclaredRange, DevicePointer, FunctionHandle,
    HostFunction, HostModule, KernelAttributes, KernelNode, Live, ModuleHandle, ModuleImage,
};
use anabranch_sync::Mutex;
use std::sync::Arc;

const PTX: &str = include_str!("set_conditional.ptx");
const NAME: &str = "set_conditional";

/// The kernel of a context, once it is loaded.
struct ConditionalSetter {
    loaded: Mutex<Option<(ModuleHandle, FunctionHandle)>>,
}

impl Default for ConditionalSetter {
    fn default() -> Self {
        Self { loaded: Mutex::new(ranks::CONDITIONAL_SETTER, None) }
    }
}

impl Extension for ConditionalSetter {
    fn close(&mut self, context: &ClosingContext<'_>) {
        if let Some((module, _)) = self.loaded.get_mut().take() {
            let call = Call::new(context.context, "unloading a module");
            // SAFETY: graphs hold a reference to their context, and to those of the streams that they were captured in, so that none
            // is left that could launch from the module.
            let unloaded = unsafe { context.driver.module_unload(&call, module) };
            drop_error::report(unloaded.during(call.operation, String::new));
        }
    }
}

/// The kernel, which is loaded at its first use.
fn function(context: &Arc<ContextCore>) -> Result<FunctionHandle> {
    let operation = "loading the kernel that sets conditional values";
    refuse_inside(operation).map_err(|error| error.at(context.place()))?;
    let loaded = &context.extension::<ConditionalSetter>().loaded;
    if let Some((_, function)) = *loaded.lock() {
        return Ok(function);
    }
    // Loaded without the lock: it may wait for the context's work, and with that for the program's.
    // Loading concerns no capture, and must not invalidate the one that it may be needed for.
    let _relaxed = CaptureModeGuard::enter(context, CaptureMode::Relaxed)?;
    let (driver, call) = (context.driver(), context.call(operation));
    let host = || {
        HostModule::new().with_function(HostFunction::new(NAME, &[8, 8], |block, arguments| {
            let value = arguments.slice::<u32>(1);
            block.phase(|_, _| arguments.set_conditional(0, value.get(0)));
        }))
    };
    // SAFETY: neither image is a binary one.
    let load = || unsafe {
        if context.device().can(Capabilities::HOST_FUNCTIONS) {
            driver.module_load(&call, ModuleImage::Host(&host()))
        } else {
            driver.module_load_with_device_runtime(&call, ModuleImage::Ptx(PTX))
        }
    };
    let module = call_waiting(context, load).during(operation, || context.place())?;
    // SAFETY: the module was just loaded, and is unloaded when the context is closed.
    let live = unsafe { Live::new(module) };
    let function = driver.module_function(&call, live, NAME).during(operation, || context.place());
    let mut loaded = loaded.lock();
    match (&*loaded, &function) {
        (None, Ok(function)) => *loaded = Some((module, *function)),
        // Another thread was faster.
        (Some((_, function)), _) => {
            let function = *function;
            drop(loaded);
            unload(context, module);
            return Ok(function);
        }
        (None, Err(_)) => {
            drop(loaded);
            unload(context, module);
        }
    }
    function
}

/// Unloads a module that nobody has used.
fn unload(context: &ContextCore, module: ModuleHandle) {
    let call = context.call("unloading a module");
    // SAFETY: the module was just loaded, and nobody knows its kernel.
    let unloaded = unsafe { context.driver().module_unload(&call, module) };
    drop_error::report(unloaded.during(call.operation, || context.place()));
}

/// Loads the kernel, unless it is loaded. For callers that will need it while they hold locks.
///
/// # Errors
/// Same as [`setting_kernel`].
pub fn prepare(context: &Arc<ContextCore>) -> Result<()> {
    function(context).map(drop)
}

/// A launch that sets a conditional value to the number at an address.
///
/// # Errors
/// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no conditional nodes; `CUDA_ERROR_FILE_NOT_FOUND (301)` if the
/// device runtime is not found.
pub fn setting_kernel(
    context: &Arc<ContextCore>,
    handle: ConditionalHandle,
    address: DevicePointer,
) -> Result<KernelNode> {
    let address = address.0;
    Ok(KernelNode {
        function: function(context)?,
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: KernelAttributes::NONE,
        arguments: vec![handle.0.to_ne_bytes().to_vec(), address.to_ne_bytes().to_vec()],
        ranges: vec![DeclaredRange { argument: 1, address, bytes: 4, access: Access::Read }],
    })
}
