//! The values of conditional nodes, as one executable graph has them.

use anabranch_hal::{ConditionalHandle, ConditionalValues};
use std::sync::atomic::{AtomicU32, Ordering};

/// A value, and what every launch begins with.
#[derive(Debug)]
struct Cell {
    handle: u64,
    default: Option<u32>,
    value: AtomicU32,
}

/// The values of an executable graph, by handle.
#[derive(Debug, Default)]
pub(crate) struct Conditionals {
    cells: Vec<Cell>,
}

impl Conditionals {
    pub(super) fn new(values: impl IntoIterator<Item = (ConditionalHandle, Option<u32>)>) -> Self {
        let cell = |(handle, default): (ConditionalHandle, Option<u32>)| Cell {
            handle: handle.0,
            default,
            value: AtomicU32::new(default.unwrap_or(0)),
        };
        let mut cells: Vec<_> = values.into_iter().map(cell).collect();
        cells.sort_unstable_by_key(|cell| cell.handle);
        Self { cells }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Begins a launch.
    pub(super) fn reset(&self) {
        for cell in &self.cells {
            if let Some(default) = cell.default {
                cell.value.store(default, Ordering::Relaxed);
            }
        }
    }

    fn cell(&self, handle: ConditionalHandle) -> Option<&AtomicU32> {
        let index = self.cells.binary_search_by_key(&handle.0, |cell| cell.handle).ok()?;
        self.cells.get(index).map(|cell| &cell.value)
    }

    pub(super) fn get(&self, handle: ConditionalHandle) -> u32 {
        self.cell(handle).map_or(0, |value| value.load(Ordering::Acquire))
    }
}

impl ConditionalValues for Conditionals {
    fn set(&self, handle: ConditionalHandle, value: u32) -> bool {
        self.cell(handle).map(|cell| cell.store(value, Ordering::Release)).is_some()
    }
}
