//! Running the pipeline several times, in one stream and in several.

use crate::pipeline::{Lanes, Pipeline, StageTimes};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;

/// What the runs gave.
#[derive(Debug)]
pub(crate) struct Measurements {
    pub(crate) one: Measured,
    pub(crate) several: Measured,
    /// Of the last run in one stream.
    pub(crate) stages: StageTimes,
}

/// What the runs gave that were alike.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Milliseconds on the device, the median.
    pub(crate) milliseconds: f32,
    /// The edges that the last run found, row by row.
    pub(crate) edges: Vec<u8>,
}

impl Measurements {
    /// Runs the pipeline `repeat` times in one stream and as often in several, and each once before that.
    pub(crate) fn take(pipeline: &mut Pipeline, repeat: usize) -> Result<Self, Box<dyn Error>> {
        let bar = ProgressBar::new(2 * (repeat as u64 + 1)); // hidden where there is no terminal
        bar.set_style(ProgressStyle::with_template("{msg:15} {wide_bar} {pos}/{len}, {eta} left")?);
        bar.set_message("one stream");
        let one = Measured::take(pipeline, Lanes::One, repeat, &bar)?;
        let stages = pipeline.stage_times()?;
        bar.set_message("several streams");
        let several = Measured::take(pipeline, Lanes::Several, repeat, &bar)?;
        bar.finish_and_clear();
        Ok(Self { one, several, stages })
    }
}

impl Measured {
    fn take(pipeline: &mut Pipeline, lanes: Lanes, repeat: usize, bar: &ProgressBar) -> Result<Self, Box<dyn Error>> {
        let mut times = Vec::with_capacity(repeat);
        for number in 0..=repeat {
            let milliseconds = pipeline.run(lanes)?;
            if number > 0 {
                times.push(milliseconds);
            }
            bar.inc(1);
        }
        let edges = pipeline.edges()?;
        Ok(Self { milliseconds: median(&mut times), edges })
    }
}

/// The one in the middle, or the mean of both. 0 of none.
pub(crate) fn median(times: &mut [f32]) -> f32 {
    times.sort_by(f32::total_cmp);
    match times {
        [] => 0.0,
        _ => (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0,
    }
}
