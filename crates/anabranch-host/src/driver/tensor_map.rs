//! Tensor maps.

use super::HostDriver;
use crate::error::permitted;
use anabranch_hal::{Call, EncodedTensorMap, Result, TensorMaps, TiledTensor};

impl TensorMaps for HostDriver {
    fn tensor_map_encode(&self, call: &Call<'_>, tensor: &TiledTensor) -> Result<EncodedTensorMap> {
        permitted()?;
        // The context exists, as its type says. Hardware does not look at the memory either.
        let _ = call;
        tensor.check()?;
        Ok(EncodedTensorMap::of_software_device(tensor))
    }
}
