//! A kernel with its arguments on a device.

use super::argument::Argument;
use super::array::{Array, byte_count};
use super::check::{self, Expected};
use super::program::Program;
use crate::arguments::RunOptions;
use crate::output::Failure;
use anabranch::{ArgumentList, Buffer, Device, Event, FunctionAttribute, Kernel, LaunchConfig, Stream};

/// A kernel with its arguments on a device.
pub(crate) struct Prepared {
    stream: Stream,
    kernel: Kernel,
    config: LaunchConfig<'static>,
    begin: Event,
    end: Event,
    places: Vec<Place>,
}

/// Where an argument is.
enum Place {
    Number(Vec<u8>),
    /// Memory of the device. `initial`: what is in it before each launch, or nothing if that is zeros.
    Memory {
        array: Array,
        buffer: Buffer<u8>,
        initial: Option<Vec<u8>>,
        written: bool,
    },
}

impl Prepared {
    pub(super) fn new(
        device: &Device,
        program: &Program,
        options: &RunOptions,
        arguments: &[Argument],
        arrays: Vec<Option<Array>>,
    ) -> Result<Self, Failure> {
        let context = device.context()?;
        let stream = context.create_stream()?;
        let kernel = program.load(&context)?;
        if program.parameters().is_none()
            && let Some(parameters) = kernel.parameters()
        {
            let parameters: Vec<Expected> =
                parameters.iter().map(|parameter| Expected::of_size(parameter.size)).collect();
            check::arguments(program.kernel(), &parameters, arguments).map_err(Failure::Usage)?;
        }
        if options.shared > device.properties().max_shared_memory_per_block {
            kernel.set_attribute(FunctionAttribute::MaxDynamicSharedBytes(options.shared))?;
        }
        let config = LaunchConfig::new(options.grid.0, options.block.0).dynamic_shared_bytes(options.shared);
        let mut places = Vec::new();
        for (argument, array) in arguments.iter().zip(arrays) {
            places.push(match (argument, array) {
                (Argument::Number { bytes, .. }, _) => Place::Number(bytes.clone()),
                (_, None) => continue,
                (_, Some(mut array)) => {
                    let bytes = byte_count(array.element, &array.shape).and_then(|bytes| usize::try_from(bytes).ok());
                    let buffer = stream.allocate_zeroed::<u8>(bytes.unwrap_or(usize::MAX))?;
                    let written = argument.result().is_some();
                    let zeroed = matches!(argument, Argument::Written { .. });
                    let initial = (!zeroed).then(|| std::mem::take(&mut array.data));
                    Place::Memory { array, buffer, initial, written }
                }
            });
        }
        let (begin, end) = (context.create_event()?, context.create_event()?);
        let mut prepared = Self { stream, kernel, config, begin, end, places };
        prepared.fill(false)?;
        prepared.stream.synchronize()?;
        Ok(prepared)
    }

    /// Gives memory its initial contents. `written`: only memory that the kernel writes.
    fn fill(&mut self, written: bool) -> Result<(), Failure> {
        for place in &mut self.places {
            match place {
                Place::Memory { written: false, .. } if written => {}
                Place::Memory { buffer, initial: Some(initial), .. } => self.stream.copy_from_host(buffer, initial)?,
                Place::Memory { buffer, initial: None, .. } => self.stream.fill_zero(buffer)?,
                Place::Number(_) => {}
            }
        }
        Ok(())
    }

    /// Runs the kernel from the initial contents of memory. Returns how long it took, in milliseconds.
    pub(super) fn launch(&mut self) -> Result<f64, Failure> {
        self.fill(true)?;
        let mut arguments = ArgumentList::new();
        for place in &mut self.places {
            match place {
                Place::Number(bytes) => arguments.push_bytes(bytes),
                Place::Memory { buffer, written: true, .. } => arguments.push(buffer),
                Place::Memory { buffer, .. } => arguments.push(&*buffer),
            }
        }
        self.stream.record(&self.begin)?;
        // SAFETY: their number and sizes are those of the kernel's parameters. That it stays within its memory is what
        // whoever names it on the command line answers for, who can have it checked.
        unsafe { self.stream.launch(&self.kernel, &self.config, arguments)? };
        self.stream.record(&self.end)?;
        self.stream.synchronize()?;
        Ok(f64::from(self.end.elapsed_since(&self.begin)?))
    }

    /// The arrays after the last launch that are results, in the order of the arguments.
    pub(super) fn results(self) -> Result<Vec<Option<Array>>, Failure> {
        let mut results = Vec::new();
        for place in self.places {
            results.push(match place {
                Place::Number(_) => None,
                Place::Memory { array, buffer, written: true, .. } => {
                    Some(Array { data: self.stream.download(&buffer)?, ..array })
                }
                Place::Memory { array, .. } => Some(array),
            });
        }
        Ok(results)
    }
}
