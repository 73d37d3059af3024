//! What the program prints.

use crate::arguments::Arguments;
use crate::measure::Measurements;
use crate::output::{self, OutputError};
use crate::picture::Picture;
use anabranch::Device;
use std::time::Duration;

/// What a run was about.
pub(crate) struct Report<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) device: &'a Device,
    pub(crate) picture: &'a Picture,
    pub(crate) bands: usize,
    pub(crate) streams: usize,
}

impl Report<'_> {
    /// Times and throughput.
    pub(crate) fn print_measurements(&self, measurements: &Measurements) -> Result<(), OutputError> {
        let Self { arguments, device, picture, bands, streams } = self;
        let origin = arguments.input.as_ref().map_or_else(|| "drawn".to_owned(), |path| path.display().to_string());
        line("device", &format!("{device} ({})", device.properties().name))?;
        line("picture", &format!("{} x {}, {origin}", picture.width(), picture.height()))?;
        line("work", &format!("{}, the median of {}", count(*bands, "band"), count(arguments.repeat, "run")))?;

        let stages = &measurements.stages;
        let named = [
            ("upload", stages.upload),
            ("blur", stages.blur),
            ("gradient", stages.gradient),
            ("choose scale", stages.choose_scale),
            ("stretch", stages.stretch),
            ("download", stages.download),
        ];
        let list: Vec<String> = named.iter().map(|(name, time)| format!("{name} {time:.3} ms")).collect();
        line("stages", &list.join(", "))?;

        let (one, several) = (measurements.one.milliseconds, measurements.several.milliseconds);
        line("main stream", &self.speed(one))?;
        let ratio = format!("{:.2} times as fast", one / several.max(f32::MIN_POSITIVE));
        line(&count(*streams, "stream"), &format!("{}, {ratio}", self.speed(several)))
    }

    /// That the results were compared.
    pub(crate) fn print_verified(&self, serially: Duration) -> Result<(), OutputError> {
        let milliseconds = serially.as_secs_f64() * 1e3;
        line("verified", &format!("equal byte for byte to the serial computation, which took {milliseconds:.1} ms"))
    }

    /// Where the result is.
    pub(crate) fn print_written(&self) -> Result<(), OutputError> {
        line("written", &self.arguments.output.display().to_string())
    }

    fn speed(&self, milliseconds: f32) -> String {
        let pixels = self.picture.pixels().len() as f32;
        format!("{milliseconds:.3} ms, {:.0} Mpixel/s", pixels / milliseconds.max(f32::MIN_POSITIVE) / 1e3)
    }
}

fn line(name: &str, text: &str) -> Result<(), OutputError> {
    output::line(format_args!("{name:13}{text}"))
}

fn count(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}
