//! Copies with attributes, alone and in batches.

use crate::driver::CudaDriver;
use crate::error::{Answer, check};
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::raw_stream;
use anabranch_hal::{
    AttributedCopy, AttributedCopy3d, Call, CopyAttributes, CopyPlace, CopySourceOrder, Failure, Live, MemoryLocation,
    Result, Status, StreamHandle,
};

/// The index that the driver leaves where an error is not that of a certain copy.
const NO_COPY: usize = usize::MAX;

/// The result of a call for a batch, of which the driver may have named a copy that is wrong.
fn check_batch(answer: Answer, wrong: usize) -> Result<()> {
    check(answer).map_err(|failure| match failure.detail {
        None if wrong != NO_COPY => {
            Failure::argument(failure.status, format!("the driver refuses copy {wrong} of the batch"))
        }
        _ => failure,
    })
}

/// The driver's number of a source order.
fn source_order(order: CopySourceOrder) -> Result<CUmemcpySrcAccessOrder> {
    match order {
        CopySourceOrder::Stream => Ok(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
        CopySourceOrder::DuringCall => Ok(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
        CopySourceOrder::Any => Ok(CU_MEMCPY_SRC_ACCESS_ORDER_ANY),
        other => {
            let message = format!("the CUDA back end knows no order {other:?} of reading the source");
            Err(Failure::argument(Status::NOT_SUPPORTED, message))
        }
    }
}

/// Where equal items of a list begin, as the driver takes attributes and locations of a batch.
pub(super) fn runs<T: PartialEq>(items: impl Iterator<Item = T>) -> (Vec<T>, Vec<usize>) {
    let (mut values, mut begins) = (Vec::new(), Vec::new());
    for (index, item) in items.enumerate() {
        if values.last() != Some(&item) {
            values.push(item);
            begins.push(index);
        }
    }
    (values, begins)
}

/// One end of a copy of a region, in elements of one byte from where the region begins. `None`: it is beyond all addresses.
fn operand(place: &CopyPlace, extent: [usize; 3], hint: CUmemLocation) -> Option<CUmemcpy3DOperand> {
    let [x, y, z] = place.origin;
    let or_end = |given: usize, origin: usize, extent: usize| {
        if given == 0 { origin.checked_add(extent) } else { Some(given) }
    };
    let row_length = or_end(place.pitch, x, extent[0])?;
    let layer_height = or_end(place.height, y, extent[1])?;
    let offset = z.checked_mul(layer_height)?.checked_add(y)?.checked_mul(row_length)?.checked_add(x)?;
    let mut operand = CUmemcpy3DOperand::zeroed();
    operand.type_ = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr = CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1 {
        ptr: place.address.checked_add(offset as u64)?,
        rowLength: row_length,
        layerHeight: layer_height,
        locHint: hint,
    };
    Some(operand)
}

impl CudaDriver {
    fn copy_attributes(&self, attributes: &CopyAttributes) -> Result<CUmemcpyAttributes> {
        Ok(CUmemcpyAttributes {
            srcAccessOrder: source_order(attributes.source_order)?,
            srcLocHint: self.location(attributes.source_hint)?,
            dstLocHint: self.location(attributes.destination_hint)?,
            flags: attributes.flags.bits(),
        })
    }

    fn region_copy(&self, AttributedCopy3d { copy, attributes }: &AttributedCopy3d) -> Result<CUDA_MEMCPY3D_BATCH_OP> {
        let end = |place: &CopyPlace, hint: Option<MemoryLocation>| {
            operand(place, copy.extent, self.location(hint)?).ok_or(Failure::new(Status::INVALID_VALUE))
        };
        let [width, height, depth] = copy.extent;
        Ok(CUDA_MEMCPY3D_BATCH_OP {
            src: end(&copy.source, attributes.source_hint)?,
            dst: end(&copy.destination, attributes.destination_hint)?,
            extent: CUextent3D { width, height, depth },
            srcAccessOrder: source_order(attributes.source_order)?,
            flags: attributes.flags.bits(),
        })
    }

    /// # Safety
    /// As for `Memory::copy_batch_async`.
    pub(super) unsafe fn queue_batch(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let (attributes, mut begins) = runs(copies.iter().map(|copy| copy.attributes));
        let mut attributes = attributes.iter().map(|one| self.copy_attributes(one)).collect::<Result<Vec<_>>>()?;
        let mut destinations: Vec<CUdeviceptr> = copies.iter().map(|copy| copy.destination).collect();
        let mut sources: Vec<CUdeviceptr> = copies.iter().map(|copy| copy.source).collect();
        let mut sizes: Vec<usize> = copies.iter().map(|copy| copy.bytes).collect();
        let mut wrong = NO_COPY;
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the ranges valid as long as the copies use them.
        // The arrays have as many elements as their numbers say, and the driver reads them before it returns.
        let answer = unsafe {
            self.functions.cuMemcpyBatchAsync(
                destinations.as_mut_ptr(),
                sources.as_mut_ptr(),
                sizes.as_mut_ptr(),
                copies.len(),
                attributes.as_mut_ptr(),
                begins.as_mut_ptr(),
                attributes.len(),
                &mut wrong,
                raw_stream(stream),
            )
        };
        check_batch(answer, wrong)
    }

    /// # Safety
    /// As for `Memory::copy_3d_batch_async`.
    pub(super) unsafe fn queue_region_batch(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy3d],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let mut operations = copies.iter().map(|copy| self.region_copy(copy)).collect::<Result<Vec<_>>>()?;
        let mut wrong = NO_COPY;
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the regions valid as long as the copies use them.
        // The array has as many elements as the number says, and the driver reads it before it returns.
        let answer = unsafe {
            self.functions.cuMemcpy3DBatchAsync(
                operations.len(),
                operations.as_mut_ptr(),
                &mut wrong,
                0,
                raw_stream(stream),
            )
        };
        check_batch(answer, wrong)
    }

    /// # Safety
    /// As for `Memory::copy_with_attributes_async`.
    pub(super) unsafe fn queue_with_attributes(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let mut attributes = self.copy_attributes(&copy.attributes)?;
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the ranges valid as long as the copy uses them.
        // The driver reads the attributes before it returns.
        check(unsafe {
            self.functions.cuMemcpyWithAttributesAsync(
                copy.destination,
                copy.source,
                copy.bytes,
                &mut attributes,
                raw_stream(stream),
            )
        })
    }

    /// # Safety
    /// As for `Memory::copy_3d_with_attributes_async`.
    pub(super) unsafe fn queue_region_with_attributes(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy3d,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let mut operation = self.region_copy(copy)?;
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the regions valid as long as the copy uses them.
        // The driver reads the description before it returns.
        check(unsafe { self.functions.cuMemcpy3DWithAttributesAsync(&mut operation, 0, raw_stream(stream)) })
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_COPY, check_batch, operand, runs};
    use crate::ffi::cuda_types::{CU_MEMCPY_OPERAND_TYPE_POINTER, CUmemLocation};
    use crate::ffi::{MissingSymbol, Zeroed};
    use anabranch_hal::{CopyPlace, Status};

    #[test]
    fn equal_attributes_are_given_once() {
        assert_eq!(runs([7, 7, 8, 8, 8, 7].into_iter()), (vec![7, 8, 7], vec![0, 2, 5]));
        assert_eq!(runs(std::iter::empty::<u8>()), (vec![], vec![]));
    }

    #[test]
    fn a_copy_that_the_driver_names_is_in_the_error() {
        let failure = check_batch(Ok(1), 3).unwrap_err();
        assert_eq!(failure.status, Status::INVALID_VALUE);
        assert!(failure.to_string().contains("copy 3 of the batch"), "{failure}");
        assert!(check_batch(Ok(1), NO_COPY).unwrap_err().detail.is_none());
        assert!(check_batch(Ok(0), 3).is_ok());
        let missing = MissingSymbol { name: "cuMemcpyBatchAsync", since: 12080 };
        assert!(check_batch(Err(missing), NO_COPY).unwrap_err().to_string().contains("CUDA 12.8"));
    }

    #[test]
    fn an_operand_begins_where_the_region_does() {
        let place = CopyPlace { address: 0x1000, host: false, pitch: 64, height: 8, origin: [1, 2, 3] };
        let found = operand(&place, [7, 4, 2], CUmemLocation::zeroed()).unwrap();
        assert_eq!(found.type_, CU_MEMCPY_OPERAND_TYPE_POINTER);
        // SAFETY: the operand is a pointer, as its type says.
        let pointer = unsafe { found.op.ptr };
        assert_eq!(pointer.ptr, 0x1000 + (3 * 8 + 2) * 64 + 1);
        assert_eq!((pointer.rowLength, pointer.layerHeight), (64, 8));

        let close = CopyPlace { pitch: 0, height: 0, ..place };
        // SAFETY: the operand is a pointer, as its type says.
        let pointer = unsafe { operand(&close, [7, 4, 2], CUmemLocation::zeroed()).unwrap().op.ptr };
        assert_eq!((pointer.rowLength, pointer.layerHeight), (8, 6));
        assert_eq!(pointer.ptr, 0x1000 + (3 * 6 + 2) * 8 + 1);

        let far = CopyPlace { origin: [0, 0, usize::MAX], ..place };
        assert!(operand(&far, [1, 1, 1], CUmemLocation::zeroed()).is_none());
    }
}
