//! The kernel that sets the value of a conditional node, loaded into a context when it is first needed.

use crate::capture::CaptureModeGuard;
use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use anabranch_hal::{
    Access, BackendKind, CaptureMode, ConditionalHandle, DeclaredRange, DevicePointer, FunctionHandle, HostFunction,
    HostModule, KernelNode, ModuleHandle, ModuleImage,
};
use parking_lot::Mutex;
use std::sync::Arc;

const PTX: &str = include_str!("set_conditional.ptx");
const NAME: &str = "set_conditional";

/// The kernel, once it is loaded.
#[derive(Default)]
pub(crate) struct ConditionalSetter {
    loaded: Mutex<Option<(ModuleHandle, FunctionHandle)>>,
}

impl ConditionalSetter {
    /// The kernel, which is loaded if it is not.
    pub(crate) fn function(&self, context: &Arc<ContextCore>) -> Result<FunctionHandle> {
        let mut loaded = self.loaded.lock();
        if let Some((_, function)) = *loaded {
            return Ok(function);
        }
        let operation = "loading the kernel that sets conditional values";
        // Loading concerns no capture, and must not spoil the one that it may be needed for.
        let _relaxed = CaptureModeGuard::enter(context, CaptureMode::Relaxed)?;
        let driver = context.driver();
        let host = || {
            HostModule::new().with_function(HostFunction::new(NAME, &[8, 8], |block, arguments| {
                let value = arguments.slice::<u32>(1);
                block.phase(|_, _| arguments.set_conditional(0, value.get(0)));
            }))
        };
        // SAFETY: the context is live, and both images are this library's own.
        let module = unsafe {
            match context.device().backend() {
                BackendKind::Host => driver.module_load(context.handle(), ModuleImage::Host(&host())),
                _ => driver.module_load_with_device_runtime(context.handle(), ModuleImage::Ptx(PTX)),
            }
        }
        .during(operation, || context.place())?;
        let function =
            // SAFETY: the module was just loaded.
            unsafe { driver.module_function(context.handle(), module, NAME) }.during(operation, || context.place())?;
        *loaded = Some((module, function));
        Ok(function)
    }

    /// Takes the module out, to be unloaded with its context.
    pub(crate) fn take(&self) -> Option<ModuleHandle> {
        self.loaded.lock().take().map(|(module, _)| module)
    }
}

/// A launch that sets a conditional value to the number at an address.
pub(crate) fn setting_kernel(
    context: &Arc<ContextCore>,
    handle: ConditionalHandle,
    address: DevicePointer,
) -> Result<KernelNode> {
    let address = address.0;
    Ok(KernelNode {
        function: context.conditional_setter()?,
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        arguments: vec![handle.0.to_ne_bytes().to_vec(), address.to_ne_bytes().to_vec()],
        ranges: vec![DeclaredRange { argument: 1, address, bytes: 4, access: Access::Read }],
    })
}
