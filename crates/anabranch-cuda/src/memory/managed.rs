//! Managed memory: moving and discarding several ranges.

use super::batch::runs;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::{
    CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_SINGLE, CUdeviceptr, CUmemLocation,
};
use crate::handles::raw_stream;
use anabranch_hal::{Call, DevicePointer, Live, ManagedRange, MemoryAttachment, Prefetch, Result, StreamHandle};

/// Ranges as the driver takes them: their addresses and their sizes.
fn arrays(ranges: impl Iterator<Item = ManagedRange>) -> (Vec<CUdeviceptr>, Vec<usize>) {
    ranges.map(|range| (range.address.0, range.bytes)).unzip()
}

impl CudaDriver {
    /// Where ranges are moved to: the places, and the first range of each.
    fn places(&self, prefetches: &[Prefetch]) -> Result<(Vec<CUmemLocation>, Vec<usize>)> {
        let (places, begins) = runs(prefetches.iter().map(|prefetch| prefetch.location));
        let places = places.into_iter().map(|place| self.location(Some(place))).collect::<Result<_>>()?;
        Ok((places, begins))
    }

    /// # Safety
    /// As for `Memory::prefetch_batch_async`, and if the contents are discarded, for `Memory::discard_batch_async`.
    pub(super) unsafe fn queue_prefetches(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        discard: bool,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let (mut addresses, mut sizes) = arrays(prefetches.iter().map(|prefetch| prefetch.range));
        let (mut places, mut begins) = self.places(prefetches)?;
        let _bound = self.bind_for_stream(call.context, stream)?;
        let (addresses, sizes) = (addresses.as_mut_ptr(), sizes.as_mut_ptr());
        let (count, numbers, first) = (places.len(), places.as_mut_ptr(), begins.as_mut_ptr());
        let (all, stream, functions) = (prefetches.len(), raw_stream(stream), &self.functions);
        // SAFETY: the stream is live, as its type says, and the caller keeps the ranges allocated until the operations have run.
        // The arrays have as many elements as their numbers say, and the driver reads them before it returns.
        check(unsafe {
            if discard {
                functions.cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, all, numbers, first, count, 0, stream)
            } else {
                functions.cuMemPrefetchBatchAsync(addresses, sizes, all, numbers, first, count, 0, stream)
            }
        })
    }

    /// # Safety
    /// As for `Memory::attach_async`.
    pub(super) unsafe fn queue_attachment(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        attachment: MemoryAttachment,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let flag = match attachment {
            MemoryAttachment::Global => CU_MEM_ATTACH_GLOBAL,
            MemoryAttachment::Host => CU_MEM_ATTACH_HOST,
            MemoryAttachment::Single => CU_MEM_ATTACH_SINGLE,
        };
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the memory allocated until that has run, and uses it
        // as the flag says.
        check(unsafe { self.functions.cuStreamAttachMemAsync(raw_stream(stream), address.0, bytes, flag) })
    }

    /// # Safety
    /// As for `Memory::discard_batch_async`.
    pub(super) unsafe fn queue_discards(
        &self,
        call: &Call<'_>,
        ranges: &[ManagedRange],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let (mut addresses, mut sizes) = arrays(ranges.iter().copied());
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the ranges allocated until the operations have run.
        // The arrays have as many elements as the number says, and the driver reads them before it returns.
        check(unsafe {
            self.functions.cuMemDiscardBatchAsync(
                addresses.as_mut_ptr(),
                sizes.as_mut_ptr(),
                ranges.len(),
                0,
                raw_stream(stream),
            )
        })
    }
}
