//! Modules and kernels (Driver API, groups MODULE and EXEC).

mod assembler;
mod attributes;
mod image;
mod launch;
mod linker;
mod logs;

pub(crate) use attributes::kernel_attributes;

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::ffi::find_device_runtime;
use crate::handles::{function_handle, module_handle, raw_function, raw_module, raw_stream};
use anabranch_hal::{
    Call, DevicePointer, Failure, FunctionAttribute, FunctionHandle, FunctionInfo, Launch, Live, ModuleHandle,
    ModuleImage, Modules, ParameterInfo, Result, Status, StreamHandle,
};
use std::ffi::{CStr, CString, c_int};
use std::ptr;

impl CudaDriver {
    /// An attribute of a function of the current context.
    fn function_attribute(&self, function: Live<'_, FunctionHandle>, attribute: CUfunction_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the function is live, as its type says.
        check(unsafe { self.functions.cuFuncGetAttribute(&mut value, attribute, raw_function(function)) })?;
        // No attribute that is asked for here is ever negative.
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// The name of a function of the current context.
    fn raw_function_name(&self, function: Live<'_, FunctionHandle>) -> Result<String> {
        let mut name = ptr::null();
        // SAFETY: the function is live, as its type says.
        check(unsafe { self.functions.cuFuncGetName(&mut name, raw_function(function)) })?;
        if name.is_null() {
            return Err(Failure::new(Status::NOT_FOUND));
        }
        // SAFETY: the driver's names have a terminator, and stay as long as the module is loaded.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// The parameters of a function of the current context. None where the driver is too old to say.
    pub(crate) fn function_parameters(&self, function: Live<'_, FunctionHandle>) -> Result<Option<Vec<ParameterInfo>>> {
        if self.functions.cuFuncGetParamInfo.is_none() {
            return Ok(None);
        }
        let function = raw_function(function);
        let mut parameters = Vec::new();
        loop {
            let (index, mut offset, mut size) = (parameters.len(), 0, 0);
            // SAFETY: the function is live, as its type says.
            match check(unsafe { self.functions.cuFuncGetParamInfo(function, index, &mut offset, &mut size) }) {
                Ok(()) => parameters.push(ParameterInfo { offset, size }),
                // There is no parameter of that number: these are all.
                Err(failure) if failure.status == Status::INVALID_VALUE => return Ok(Some(parameters)),
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// A copy of the image that the driver cannot read past the end of.
fn whole(image: ModuleImage<'_>) -> Result<image::Image> {
    match image {
        ModuleImage::Ptx(text) => image::of_ptx(text),
        ModuleImage::Binary(bytes) => image::of_binary(bytes),
        ModuleImage::Host(_) => {
            let message = "a module of host functions can be loaded on the host device only";
            Err(Failure::argument(Status::NOT_SUPPORTED, message))
        }
        _ => Err(Failure::argument(Status::NOT_SUPPORTED, "the CUDA back end knows no such kind of image")),
    }
}

/// A name with a terminator. Nothing has a name with a zero byte in it.
fn name_of(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Failure::argument(Status::NOT_FOUND, format!("the name {name:?} has a zero byte")))
}

/// An unsigned number for a signed parameter of the driver.
fn signed_number(value: u32) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| Failure::new(Status::INVALID_VALUE))
}

impl Modules for CudaDriver {
    unsafe fn module_load(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        let image = whole(image)?;
        let _bound = self.bind(call.context)?;
        // SAFETY: the context is current. The image is whole: it was checked to be as long as it says itself, and the
        // caller promises that its contents are what NVIDIA's tools made.
        let module = unsafe { assembler::load(&self.functions, &image) }?;
        Ok(module_handle(module))
    }

    unsafe fn module_load_with_device_runtime(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        let image = whole(image)?;
        let library = find_device_runtime().map_err(|message| Failure::argument(Status::FILE_NOT_FOUND, message))?;
        let _bound = self.bind(call.context)?;
        // SAFETY: the context is current. The image is whole: it was checked to be as long as it says itself, and the
        // caller promises that its contents are what NVIDIA's tools made.
        let module = unsafe { linker::load(&self.functions, &image, &library) }?;
        Ok(module_handle(module))
    }

    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the module is live, as its type says, and that no queued work uses it and this is the last use of it.
        check(unsafe { self.functions.cuModuleUnload(raw_module(module)) })
    }

    fn module_function(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>, name: &str) -> Result<FunctionHandle> {
        let name = name_of(name)?;
        let _bound = self.bind(call.context)?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is live, as its type says; the name has a terminator.
        check(unsafe { self.functions.cuModuleGetFunction(&mut function, raw_module(module), name.as_ptr()) })?;
        Ok(function_handle(function))
    }

    fn module_function_names(&self, call: &Call<'_>, module: Live<'_, ModuleHandle>) -> Result<Vec<String>> {
        let _bound = self.bind(call.context)?;
        let module = raw_module(module);
        let mut count = 0;
        // SAFETY: the module is live, as its type says.
        check(unsafe { self.functions.cuModuleGetFunctionCount(&mut count, module) })?;
        let mut functions = vec![ptr::null_mut(); count as usize];
        // SAFETY: the module is live, as its type says; there is room for as many functions as stated.
        check(unsafe { self.functions.cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module) })?;
        // SAFETY: the functions were just found in the module, which is live, as its type says.
        let live = |function| unsafe { Live::new(function_handle(function)) };
        functions.into_iter().map(|function| self.raw_function_name(live(function))).collect()
    }

    fn module_global(
        &self,
        call: &Call<'_>,
        module: Live<'_, ModuleHandle>,
        name: &str,
    ) -> Result<(DevicePointer, usize)> {
        let name = name_of(name)?;
        let _bound = self.bind(call.context)?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the module is live, as its type says; the name has a terminator.
        check(unsafe {
            self.functions.cuModuleGetGlobal(&mut address, &mut bytes, raw_module(module), name.as_ptr())
        })?;
        Ok((DevicePointer(address), bytes))
    }

    fn function_name(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<String> {
        let _bound = self.bind(call.context)?;
        self.raw_function_name(function)
    }

    fn function_info(&self, call: &Call<'_>, function: Live<'_, FunctionHandle>) -> Result<FunctionInfo> {
        let _bound = self.bind(call.context)?;
        let attribute = |attribute| self.function_attribute(function, attribute);
        let parameters = self.function_parameters(function);
        Ok(FunctionInfo {
            max_threads_per_block: attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_dynamic_shared_bytes: attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
            local_bytes: attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            constant_bytes: attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
            registers: attribute(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            parameters: parameters?,
        })
    }

    fn function_set_attribute(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        attribute: FunctionAttribute,
    ) -> Result<()> {
        let (attribute, value) = match attribute {
            FunctionAttribute::MaxDynamicSharedBytes(bytes) => {
                (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, signed_number(bytes)?)
            }
            FunctionAttribute::PreferredSharedMemoryCarveout(percent) => {
                (CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent)
            }
            FunctionAttribute::NonPortableClusterSize(allowed) => {
                (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, c_int::from(allowed))
            }
            other => {
                let message = format!("the CUDA back end knows no attribute {other:?} of kernels");
                return Err(Failure::argument(Status::NOT_SUPPORTED, message));
            }
        };
        let _bound = self.bind(call.context)?;
        // SAFETY: the function is live, as its type says; the driver refuses values out of range.
        check(unsafe { self.functions.cuFuncSetAttribute(raw_function(function), attribute, value) })
    }

    fn function_max_active_blocks(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32> {
        let threads = signed_number(threads_per_block)?;
        let _bound = self.bind(call.context)?;
        let mut blocks = 0;
        // SAFETY: the function is live, as its type says.
        check(unsafe {
            self.functions.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                raw_function(function),
                threads,
                dynamic_shared_bytes,
            )
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    fn function_max_active_clusters(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32> {
        let _bound = self.bind(call.context)?;
        launch::ask_about_clusters(self, launch, |clusters, config| {
            // SAFETY: the function is live, as its type says. The configuration has as many attributes as stated.
            unsafe { self.functions.cuOccupancyMaxActiveClusters(clusters, raw_function(function), config) }
        })
    }

    fn function_max_cluster_size(
        &self,
        call: &Call<'_>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<u32> {
        let _bound = self.bind(call.context)?;
        launch::ask_about_clusters(self, launch, |blocks, config| {
            // SAFETY: the function is live, as its type says. The configuration has as many attributes as stated.
            unsafe { self.functions.cuOccupancyMaxPotentialClusterSize(blocks, raw_function(function), config) }
        })
    }

    #[inline]
    unsafe fn launch(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (stream, function) = (raw_stream(stream), raw_function(function));
            // SAFETY: stream and function are live, as their types say; the caller promises that the arguments are
            // those that the kernel declares, and that what it does with them is sound.
            unsafe { launch::queue(self, stream, function, launch) }
        })
    }
}
