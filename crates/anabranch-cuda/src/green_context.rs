//! Green contexts (Driver API, group GREEN_CONTEXTS).

mod descriptors;

use self::descriptors::DESCRIPTORS;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{CU_DEV_RESOURCE_TYPE_SM, CU_GREEN_CTX_DEFAULT_STREAM, CUdevResource};
use crate::handles::{green_handle, raw_green, raw_stream, stream_handle};
use anabranch_hal::{
    Call, Contexts, DeviceOrdinal, Failure, GreenContextHandle, GreenContexts, Live, MultiprocessorResource,
    MultiprocessorSplit, RESOURCE_BYTES, Result, SplitFlags, Status, StreamFlags, StreamHandle,
};
use std::ptr;

/// The largest number of groups that a split is asked for. No device has more multiprocessors.
const MOST_GROUPS: u32 = 1024;

/// A resource that the driver has written.
fn from_raw(raw: &CUdevResource) -> MultiprocessorResource {
    // SAFETY: the structure has this size, as the compiler checks, and no padding. All its bytes are initialised, because it was
    // zero before the driver wrote it.
    let bytes = unsafe { std::mem::transmute::<CUdevResource, [u8; RESOURCE_BYTES]>(*raw) };
    // SAFETY: the driver was asked for multiprocessors, so this member of the union was written; and any bytes are a value of it.
    let sm = unsafe { raw.__bindgen_anon_1.sm };
    MultiprocessorResource::new(sm.smCount, sm.minSmPartitionSize, sm.smCoscheduledAlignment, bytes)
}

/// The driver's form of a resource.
///
/// # Safety
///
/// The resource is from this driver.
unsafe fn raw(resource: &MultiprocessorResource) -> CUdevResource {
    // SAFETY: the bytes are those of such a structure, as the caller promises.
    unsafe { std::mem::transmute::<[u8; RESOURCE_BYTES], CUdevResource>(*resource.raw()) }
}

/// A resource that a call writes.
fn asked(ask: impl FnOnce(*mut CUdevResource) -> Result<()>) -> Result<MultiprocessorResource> {
    let mut written = CUdevResource::zeroed();
    ask(&mut written)?;
    Ok(from_raw(&written))
}

impl GreenContexts for CudaDriver {
    fn device_multiprocessors(&self, device: DeviceOrdinal) -> Result<MultiprocessorResource> {
        let device = self.raw_device(device)?;
        asked(|written| {
            // SAFETY: the device is one of this driver, and the result is written to a variable that outlives the call.
            check(unsafe { self.functions.cuDeviceGetDevResource(device, written, CU_DEV_RESOURCE_TYPE_SM) })
        })
    }

    unsafe fn multiprocessors_split(
        &self,
        resource: &MultiprocessorResource,
        groups: u32,
        minimum: u32,
        flags: SplitFlags,
    ) -> Result<MultiprocessorSplit> {
        if groups == 0 {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let mut count = groups.min(MOST_GROUPS);
        let mut written = vec![CUdevResource::zeroed(); count as usize];
        let mut remainder = CUdevResource::zeroed();
        // SAFETY: the caller promises that the resource is from this driver.
        let input = unsafe { raw(resource) };
        // SAFETY: there is room for as many results as the count says; all arguments outlive the call.
        check(unsafe {
            self.functions.cuDevSmResourceSplitByCount(
                written.as_mut_ptr(),
                &mut count,
                &input,
                &mut remainder,
                flags.bits(),
                minimum,
            )
        })?;
        written.truncate(count as usize);
        let remainder = (remainder.type_ == CU_DEV_RESOURCE_TYPE_SM).then(|| from_raw(&remainder));
        Ok(MultiprocessorSplit {
            groups: written.iter().map(from_raw).collect(),
            remainder: remainder.filter(|remainder| remainder.count > 0),
        })
    }

    unsafe fn green_context_create(
        &self,
        device: DeviceOrdinal,
        resources: &[MultiprocessorResource],
    ) -> Result<GreenContextHandle> {
        if resources.is_empty() {
            // The driver reads the first without a look at their number.
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let device = self.raw_device(device)?;
        let bytes = resources.iter().map(|resource| *resource.raw()).collect();
        let descriptor = DESCRIPTORS.of(device, bytes, || {
            // SAFETY: the caller promises that the resources are from this driver.
            let mut resources: Vec<_> = resources.iter().map(|resource| unsafe { raw(resource) }).collect();
            let count = u32::try_from(resources.len()).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
            let mut descriptor = ptr::null_mut();
            // SAFETY: the array has that many elements, and the result is written to a variable that outlives the call.
            check(unsafe { self.functions.cuDevResourceGenerateDesc(&mut descriptor, resources.as_mut_ptr(), count) })?;
            Ok(descriptor)
        })?;
        let mut green = ptr::null_mut();
        // SAFETY: the descriptor was made by the driver, and remains valid as long as the process; the device is one of this driver.
        check(unsafe { self.functions.cuGreenCtxCreate(&mut green, descriptor, device, CU_GREEN_CTX_DEFAULT_STREAM) })?;
        Ok(green_handle(green))
    }

    unsafe fn green_context_destroy(&self, green: GreenContextHandle) -> Result<()> {
        // SAFETY: the caller promises that the green context exists, and that this is the last use of it.
        check(unsafe { self.functions.cuGreenCtxDestroy(raw_green(green)) })
    }

    fn green_context_multiprocessors(&self, green: Live<'_, GreenContextHandle>) -> Result<MultiprocessorResource> {
        asked(|written| {
            // SAFETY: the green context is live, as its type says; the result is written to a variable that outlives the call.
            check(unsafe {
                self.functions.cuGreenCtxGetDevResource(raw_green(green), written, CU_DEV_RESOURCE_TYPE_SM)
            })
        })
    }

    fn green_context_stream_create(
        &self,
        green: Live<'_, GreenContextHandle>,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<StreamHandle> {
        let mut stream = ptr::null_mut();
        // SAFETY: the green context is live, as its type says; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuGreenCtxStreamCreate(&mut stream, raw_green(green), flags.bits(), priority) })?;
        Ok(stream_handle(stream))
    }

    fn stream_green_context(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<Option<GreenContextHandle>> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut green = ptr::null_mut();
        // SAFETY: the stream is live, as its type says; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetGreenCtx(raw_stream(stream), &mut green) })?;
        let green = green_handle(green);
        Ok((!green.is_null()).then_some(green))
    }

    fn stream_multiprocessors(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<MultiprocessorResource> {
        // `cuStreamGetDevResource` is newer than all the others.
        match self.stream_green_context(call, stream)? {
            // SAFETY: the driver returns the green context only while it exists, and a stream of this library keeps it.
            Some(green) => self.green_context_multiprocessors(unsafe { Live::new(green) }),
            None => self.device_multiprocessors(self.context_device(call.context)?),
        }
    }
}
