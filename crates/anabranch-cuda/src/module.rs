//! Modules and kernels (Driver API, groups MODULE and EXEC).

mod assembler;
mod image;
mod launch;
mod linker;
mod logs;

pub(crate) use launch::attributes;

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::ffi::find_device_runtime;
use crate::handles::{function_handle, module_handle, raw_function, raw_module, raw_stream};
use anabranch_hal::{
    Call, DevicePointer, Failure, FunctionAttribute, FunctionHandle, FunctionInfo, Launch, ModuleHandle, ModuleImage,
    Modules, ParameterInfo, Result, Status, StreamHandle,
};
use std::ffi::{CStr, CString, c_int};
use std::ptr;

impl CudaDriver {
    /// # Safety
    ///
    /// The handle rule, and the context is current.
    unsafe fn function_attribute(&self, function: CUfunction, attribute: CUfunction_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the caller vouches for the function.
        check(unsafe { self.functions.cuFuncGetAttribute(&mut value, attribute, function) })?;
        // No attribute that is asked for here is ever negative.
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// # Safety
    ///
    /// The handle rule, and the context is current.
    unsafe fn raw_function_name(&self, function: CUfunction) -> Result<String> {
        let mut name = ptr::null();
        // SAFETY: the caller vouches for the function.
        check(unsafe { self.functions.cuFuncGetName(&mut name, function) })?;
        if name.is_null() {
            return Err(Failure::new(Status::NOT_FOUND));
        }
        // SAFETY: the driver's names have a terminator, and stay as long as the module is loaded.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// None where the driver is too old to say.
    ///
    /// # Safety
    ///
    /// The handle rule, and the context is current.
    pub(crate) unsafe fn function_parameters(&self, function: CUfunction) -> Result<Option<Vec<ParameterInfo>>> {
        if self.functions.cuFuncGetParamInfo.is_none() {
            return Ok(None);
        }
        let mut parameters = Vec::new();
        loop {
            let (index, mut offset, mut size) = (parameters.len(), 0, 0);
            // SAFETY: the caller vouches for the function.
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
        // caller vouches that its contents are what NVIDIA's tools made.
        let module = unsafe { assembler::load(&self.functions, &image) }?;
        Ok(module_handle(module))
    }

    unsafe fn module_load_with_device_runtime(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        let image = whole(image)?;
        let library = find_device_runtime().map_err(|message| Failure::argument(Status::FILE_NOT_FOUND, message))?;
        let _bound = self.bind(call.context)?;
        // SAFETY: the context is current, and the image is whole, as for loading without the device runtime.
        let module = unsafe { linker::load(&self.functions, &image, &library) }?;
        Ok(module_handle(module))
    }

    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: by the handle rule the module is live; no queued work uses it, and this is the last use of it.
        check(unsafe { self.functions.cuModuleUnload(raw_module(module)) })
    }

    unsafe fn module_function(&self, call: &Call<'_>, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let name = name_of(name)?;
        let _bound = self.bind(call.context)?;
        let mut function = ptr::null_mut();
        // SAFETY: by the handle rule the module is live; the name has a terminator.
        check(unsafe { self.functions.cuModuleGetFunction(&mut function, raw_module(module), name.as_ptr()) })?;
        Ok(function_handle(function))
    }

    unsafe fn module_function_names(&self, call: &Call<'_>, module: ModuleHandle) -> Result<Vec<String>> {
        let _bound = self.bind(call.context)?;
        let module = raw_module(module);
        let mut count = 0;
        // SAFETY: by the handle rule the module is live.
        check(unsafe { self.functions.cuModuleGetFunctionCount(&mut count, module) })?;
        let mut functions = vec![ptr::null_mut(); count as usize];
        // SAFETY: by the handle rule the module is live; there is room for as many functions as stated.
        check(unsafe { self.functions.cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module) })?;
        // SAFETY: the function is one of a live module, and the context is current.
        functions.into_iter().map(|function| unsafe { self.raw_function_name(function) }).collect()
    }

    unsafe fn module_global(
        &self,
        call: &Call<'_>,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePointer, usize)> {
        let name = name_of(name)?;
        let _bound = self.bind(call.context)?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: by the handle rule the module is live; the name has a terminator.
        check(unsafe {
            self.functions.cuModuleGetGlobal(&mut address, &mut bytes, raw_module(module), name.as_ptr())
        })?;
        Ok((DevicePointer(address), bytes))
    }

    unsafe fn function_name(&self, call: &Call<'_>, function: FunctionHandle) -> Result<String> {
        let _bound = self.bind(call.context)?;
        // SAFETY: by the handle rule the function is of a live module, and the context is current.
        unsafe { self.raw_function_name(raw_function(function)) }
    }

    unsafe fn function_info(&self, call: &Call<'_>, function: FunctionHandle) -> Result<FunctionInfo> {
        let _bound = self.bind(call.context)?;
        let function = raw_function(function);
        // SAFETY: by the handle rule the function is of a live module, and the context is current.
        let attribute = |attribute| unsafe { self.function_attribute(function, attribute) };
        // SAFETY: by the handle rule the function is of a live module, and the context is current.
        let parameters = unsafe { self.function_parameters(function) };
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

    unsafe fn function_set_attribute(
        &self,
        call: &Call<'_>,
        function: FunctionHandle,
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
        // SAFETY: by the handle rule the function is of a live module; the driver refuses values out of range.
        check(unsafe { self.functions.cuFuncSetAttribute(raw_function(function), attribute, value) })
    }

    unsafe fn function_max_active_blocks(
        &self,
        call: &Call<'_>,
        function: FunctionHandle,
        threads_per_block: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32> {
        let threads = signed_number(threads_per_block)?;
        let _bound = self.bind(call.context)?;
        let mut blocks = 0;
        // SAFETY: by the handle rule the function is of a live module.
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

    #[inline]
    unsafe fn launch(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        function: FunctionHandle,
        launch: &Launch<'_>,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (stream, function) = (raw_stream(stream), raw_function(function));
            // SAFETY: by the handle rule stream and function are live; the caller vouches for the arguments and for what
            // the kernel does.
            unsafe { launch::queue(&self.functions, stream, function, launch) }
        })
    }
}
