//! What is printed after a run.

use super::argument::Argument;
use super::array::{Array, describe};
use crate::arguments::RunOptions;
use anabranch::Device;
use serde_json::{Value, json};
use std::fmt;

/// What ran, and how long it took.
pub(crate) struct Report<'a> {
    pub(super) device: &'a Device,
    pub(super) options: &'a RunOptions,
    pub(super) kernel: &'a str,
    pub(super) arguments: &'a [Argument],
    pub(super) arrays: Vec<Option<Array>>,
    pub(super) milliseconds: Vec<f64>,
}

impl Report<'_> {
    fn minimum(&self) -> f64 {
        self.milliseconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
    }

    pub(super) fn as_json(&self) -> Value {
        let arguments: Vec<Value> = self.arguments.iter().zip(&self.arrays).map(argument_as_json).collect();
        json!({
            "device": self.device.to_string(),
            "device_name": self.device.properties().name,
            "file": self.options.file.display().to_string(),
            "kernel": self.kernel,
            "grid": self.options.grid.0,
            "block": self.options.block.0,
            "shared_bytes": self.options.shared,
            "checked": self.options.check,
            "arguments": arguments,
            "milliseconds": self.milliseconds,
            "minimum_milliseconds": self.minimum(),
            "median_milliseconds": self.median(),
        })
    }
}

fn argument_as_json((argument, array): (&Argument, &Option<Array>)) -> Value {
    let mut value = match argument {
        Argument::Read { file } => json!({ "kind": "in", "file": file.display().to_string() }),
        Argument::Changed { file, result } => {
            json!({ "kind": "inout", "file": file.display().to_string(), "result": result.display().to_string() })
        }
        Argument::Written { result, .. } => json!({ "kind": "out", "result": result.display().to_string() }),
        Argument::Number { element, text, .. } => json!({ "kind": "number", "type": element.name(), "value": text }),
    };
    if let Some(array) = array {
        value["type"] = json!(array.element.name());
        value["shape"] = json!(array.shape);
    }
    value
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents = |[x, y, z]: [u32; 3]| match (y, z) {
            (1, 1) => format!("{x}"),
            (_, 1) => format!("{x} x {y}"),
            _ => format!("{x} x {y} x {z}"),
        };
        let RunOptions { file, grid, block, shared, check, .. } = self.options;
        write!(
            formatter,
            "{} of {} on {} ({})",
            self.kernel,
            file.display(),
            self.device,
            self.device.properties().name
        )?;
        write!(
            formatter,
            "{}\n  grid   {}\n  block  {}",
            if *check { ", checked" } else { "" },
            extents(grid.0),
            extents(block.0)
        )?;
        if *shared > 0 {
            write!(formatter, "\n  shared memory {shared} bytes")?;
        }
        for (argument, array) in self.arguments.iter().zip(&self.arrays) {
            let array = array.as_ref().map(|array| describe(array.element, &array.shape)).unwrap_or_default();
            match argument {
                Argument::Read { file } => write!(formatter, "\n  in     {array} of {}", file.display()),
                Argument::Changed { file, result } => {
                    write!(formatter, "\n  inout  {array} of {}, written to {}", file.display(), result.display())
                }
                Argument::Written { result, .. } => {
                    write!(formatter, "\n  out    {array}, written to {}", result.display())
                }
                Argument::Number { element, text, .. } => write!(formatter, "\n  {:<6} {text}", element.name()),
            }?;
        }
        match self.milliseconds.len() {
            1 => write!(formatter, "\n  time   {:.3} ms", self.minimum()),
            runs => {
                let (minimum, median) = (self.minimum(), self.median());
                write!(formatter, "\n  time   {minimum:.3} ms at least, {median:.3} ms in the median of {runs} runs")
            }
        }
    }
}
