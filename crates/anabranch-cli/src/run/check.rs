//! What can be seen to be wrong before anything runs.

use super::argument::Argument;
use super::array::{Array, byte_count, describe};
use crate::arguments::RunOptions;
use anabranch::Device;
use anabranch_ptx::{Parameter, Scalar};

/// A parameter of a kernel, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    bytes: usize,
    /// Its name and type, if the file says so.
    declared: Option<(String, Scalar)>,
}

impl Expected {
    /// A parameter of which only the size is known.
    pub(super) fn of_size(bytes: usize) -> Self {
        Self { bytes, declared: None }
    }

    fn describe(&self) -> String {
        match &self.declared {
            Some((_, scalar)) if scalar.bytes() as usize == self.bytes => scalar.name().to_owned(),
            _ => format!("{} bytes", self.bytes),
        }
    }
}

impl From<&Parameter> for Expected {
    fn from(parameter: &Parameter) -> Self {
        Self { bytes: parameter.bytes as usize, declared: Some((parameter.name.clone(), parameter.scalar)) }
    }
}

/// The bytes of an address.
const ADDRESS_BYTES: usize = 8;

/// Compares the arguments with the parameters of the kernel.
pub(super) fn arguments(kernel: &str, parameters: &[Expected], arguments: &[Argument]) -> Result<(), String> {
    if parameters.len() != arguments.len() {
        let types: Vec<String> = parameters.iter().map(Expected::describe).collect();
        return Err(format!(
            "the kernel `{kernel}` has {} parameters ({}), and the arguments given are {}",
            parameters.len(),
            types.join(", "),
            arguments.len()
        ));
    }
    for (number, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        let name = parameter.declared.as_ref().map_or(String::new(), |(name, _)| format!(" `{name}`"));
        let mismatch = |what: &str| {
            let number = number + 1;
            let found = parameter.describe();
            format!("argument {number} is {what}, and parameter {number}{name} of the kernel `{kernel}` is {found}")
        };
        let scalar = parameter.declared.as_ref().map(|(_, scalar)| *scalar);
        let real = matches!(scalar, Some(Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64));
        let Argument::Number { element, bytes, .. } = argument else {
            if parameter.bytes != ADDRESS_BYTES || real {
                return Err(mismatch("an array, of which the kernel gets the address, 8 bytes"));
            }
            continue;
        };
        let integer = scalar.is_some_and(|scalar| !real && !scalar.name().starts_with('b'));
        if bytes.len() != parameter.bytes {
            return Err(mismatch(&format!("{element}, {} bytes", bytes.len())));
        }
        if element.is_real() && integer || !element.is_real() && real {
            return Err(mismatch(element.name()));
        }
    }
    Ok(())
}

/// Compares the launch with what the device can have.
pub(super) fn shape(device: &Device, options: &RunOptions) -> Result<(), String> {
    let properties = device.properties();
    let (grid, block) = (options.grid.0, options.block.0);
    for (what, found, most) in
        [("grid", grid, properties.max_grid_dimensions), ("block", block, properties.max_block_dimensions)]
    {
        for ((axis, found), most) in ["x", "y", "z"].into_iter().zip(found).zip(most) {
            if found > most {
                return Err(format!(
                    "the {what} has an extent of {found} in {axis}, and {device} takes at most {most}"
                ));
            }
        }
    }
    let threads: u64 = block.into_iter().map(u64::from).product();
    let most = properties.max_threads_per_block;
    if threads > u64::from(most) {
        return Err(format!("the block has {threads} threads, and {device} takes at most {most}"));
    }
    let most = properties.max_shared_memory_per_block_optin;
    if options.shared > most {
        return Err(format!(
            "a block on {device} has at most {most} bytes of shared memory, and not {}",
            options.shared
        ));
    }
    Ok(())
}

/// Compares the arrays with the memory of the device.
pub(super) fn memory(device: &Device, arrays: &[Option<Array>]) -> Result<(), String> {
    let total = device.properties().total_memory;
    let mut sum = 0u64;
    for array in arrays.iter().flatten() {
        let bytes = byte_count(array.element, &array.shape);
        let fits = bytes.and_then(|bytes| sum.checked_add(bytes)).filter(|sum| *sum <= total);
        sum = fits.ok_or_else(|| {
            let extents = describe(array.element, &array.shape);
            format!("{device} has {total} bytes of memory, which are too few for the array {extents} beside the others")
        })?;
    }
    Ok(())
}
