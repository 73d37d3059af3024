//! Modules of host functions, and launches.

use super::{HostDriver, present, resolve, usable};
use crate::capture::Target;
use crate::graph::{FROM_LAUNCH_COMPLETION, FROM_TRIGGER, FROM_TRIGGER_AT_BLOCK_START};
use crate::limits::MAX_SHARED_BYTES_OPTIN;
use crate::module::{FunctionState, ModuleState, check_cluster_extents, events_of};
use anabranch_hal::{
    Call, DevicePointer, Failure, FunctionAttribute, FunctionHandle, FunctionInfo, Launch, Live, ModuleHandle,
    ModuleImage, Modules, NodeParameters, Result, Status, StreamHandle,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Checks a launch, and enqueues or captures it.
///
/// # Safety
/// Each argument's address is valid for reads of its parameter's size; what the kernel then does is sound; the
/// kernel's module is not unloaded before it has run.
unsafe fn launch_or_capture(target: Target<'_>, function: &FunctionState, launch: &Launch<'_>) -> Result<()> {
    if !Arc::ptr_eq(&function.core, &target.stream().core) {
        return Err(Failure::new(Status::INVALID_HANDLE));
    }
    function.check_arguments(launch)?;
    let block = function.check_block(launch);
    if block.is_ok() {
        check_cluster_extents(launch)?;
    }
    if let Err(failure) = block.and_then(|()| function.check_configuration(launch)) {
        // What the device cannot run invalidates a capture, unlike other errors in the arguments of a call.
        target.invalidate();
        return Err(failure);
    }
    let events = match launch.overlap {
        Some(overlap) => events_of(overlap, &function.core)?,
        None => [None, None],
    };
    match target {
        Target::Queue(stream) => {
            // SAFETY: the caller promises that the arguments can be read, and that the kernel is sound and remains loaded.
            unsafe { function.enqueue(stream, launch) }
            events.into_iter().flatten().for_each(|event| event.record(stream));
            Ok(())
        }
        Target::Capture(mut recording) => {
            // SAFETY: the caller promises that the arguments can be read, whose number was checked.
            let node = unsafe { function.node(recording.stream(), launch) };
            // SAFETY: the caller promises that the kernel is sound and remains loaded, at each launch of the node.
            let added = unsafe {
                match launch.overlap {
                    Some(overlap) if overlap.programmatic_serialization => recording.add_overlapping(node),
                    _ => recording.add(NodeParameters::Kernel(node)),
                }
            }?;
            let at_block_start =
                launch.overlap.and_then(|overlap| overlap.programmatic_event).is_some_and(|event| event.at_block_start);
            let trigger = if at_block_start { FROM_TRIGGER_AT_BLOCK_START } else { FROM_TRIGGER };
            let data = [trigger, FROM_LAUNCH_COMPLETION];
            let mut before = [None, None];
            for ((event, data), before) in events.into_iter().zip(data).zip(&mut before) {
                if let Some(event) = event {
                    *before = Some(event.record_captured(recording.record_early(added.node, data)?));
                }
            }
            // The earlier records, perhaps with a stream, are dropped without the captures' lock.
            drop(recording);
            drop(before);
            Ok(())
        }
    }
}

/// Refuses a name that cannot be passed to a driver in C.
fn check_name(name: &str) -> Result<()> {
    if name.contains('\0') {
        return Err(Failure::argument(Status::NOT_FOUND, format!("the name {name:?} has a zero byte")));
    }
    Ok(())
}

/// Refuses a number that cannot be passed to a driver in C, which takes it with a sign.
fn check_signed(number: u32) -> Result<()> {
    i32::try_from(number).map(|_| ()).map_err(|_| Failure::new(Status::INVALID_VALUE))
}

impl HostDriver {
    /// Loads a module, linked with the device runtime or not.
    fn load_module(&self, call: &Call<'_>, image: ModuleImage<'_>, device_runtime: bool) -> Result<ModuleHandle> {
        let context = usable(call)?;
        context.core.wait_for_all();
        let (core, memory) = (&context.core, &self.shared.memory);
        let module = match image {
            ModuleImage::Host(module) => ModuleState::load(core, memory, module)?,
            ModuleImage::Ptx(text) => {
                ModuleState::load_ptx(core, memory, text, device_runtime, self.shared.operation_limit)?
            }
            _ => {
                return Err(Failure::argument(
                    Status::NOT_SUPPORTED,
                    "the software device runs PTX and functions in Rust, and no machine code; load the PTX that it was \
                     made of",
                ));
            }
        };
        Ok(ModuleHandle::from_raw(self.modules.insert(module)))
    }
}

impl Modules for HostDriver {
    unsafe fn module_load(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        self.load_module(call, image, false)
    }

    unsafe fn module_load_with_device_runtime(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        self.load_module(call, image, true)
    }

    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()> {
        present(call)?;
        // SAFETY: the caller promises that the module exists.
        let core = Arc::clone(&ModuleState::of(unsafe { Live::new(module) })?.core);
        self.shared.captures.before_unsafe_call()?;
        // Launches in flight do not keep the module alive.
        core.wait_to_give_back(call);
        self.modules.remove(module.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        core.check()
    }

    fn module_function(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>, name: &str) -> Result<FunctionHandle> {
        check_name(name)?;
        usable(call)?;
        let module = ModuleState::of(module)?;
        if name.is_empty() {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // The module holds the function for as long as the handle may be used.
        module
            .function(name)
            .map(|function| FunctionHandle::from_raw(Arc::as_ptr(function) as usize))
            .ok_or(Failure::new(Status::NOT_FOUND))
    }

    fn module_function_names(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>) -> Result<Vec<String>> {
        usable(call)?;
        let module = ModuleState::of(module)?;
        Ok(module.functions.iter().map(|function| function.body.name().to_owned()).collect())
    }

    fn module_global(
        &self,
        call: &Call<'_>,
        module: Live<'_, ModuleHandle>,
        name: &str,
    ) -> Result<(DevicePointer, usize)> {
        check_name(name)?;
        usable(call)?;
        let module = ModuleState::of(module)?;
        if name.is_empty() || module.function(name).is_some() {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let global = module.globals.ranges().iter().find(|global| global.name == name);
        global.map(|global| (global.address, global.bytes)).ok_or(Failure::new(Status::NOT_FOUND))
    }

    fn function_name(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<String> {
        usable(call)?;
        // Unlike other calls, this one takes a null function for a wrong value.
        let function = FunctionState::of(function).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
        Ok(function.body.name().to_owned())
    }

    fn function_info(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<FunctionInfo> {
        usable(call)?;
        let function = FunctionState::of(function)?;
        Ok(FunctionInfo {
            max_threads_per_block: function.body.most_threads(),
            static_shared_bytes: function.body.static_shared_bytes(),
            max_dynamic_shared_bytes: function.max_dynamic_shared_bytes.load(Ordering::Relaxed),
            local_bytes: function.body.local_bytes(),
            constant_bytes: function.body.constant_bytes(),
            registers: 0,
            parameters: Some(function.body.parameters()),
        })
    }

    fn function_set_attribute(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        attribute: FunctionAttribute,
    ) -> Result<()> {
        if let FunctionAttribute::MaxDynamicSharedBytes(bytes) = attribute {
            check_signed(bytes)?;
        }
        usable(call)?;
        let function = FunctionState::of(function)?;
        let bad = Err(Failure::new(Status::INVALID_VALUE));
        match attribute {
            FunctionAttribute::MaxDynamicSharedBytes(bytes) => {
                if bytes > MAX_SHARED_BYTES_OPTIN.saturating_sub(function.body.static_shared_bytes()) {
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

    fn function_max_active_blocks(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32> {
        check_signed(threads_per_block)?;
        usable(call)?;
        let function = FunctionState::of(function)?;
        if threads_per_block == 0 {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        Ok(function.max_active_blocks(threads_per_block, dynamic_shared_bytes))
    }

    fn function_max_active_clusters(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32> {
        usable(call)?;
        FunctionState::of(function)?.max_active_clusters(launch)
    }

    fn function_max_cluster_size(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32> {
        usable(call)?;
        FunctionState::of(function)?.max_cluster_size(launch)
    }

    unsafe fn launch(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        let function = FunctionState::of(function)?;
        // SAFETY: the caller promises that the arguments are those of the kernel, and that it is sound with them.
        // `module_unload` waits for the launches that it finds, and its caller promises that there are none later.
        unsafe { launch_or_capture(target, function, launch) }
    }
}
