//! How a kernel is launched.

use crate::error::is_of_program;
use crate::few::Few;
use anabranch::Dimensions;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The grid in blocks, the block in threads, and options of a launch.
#[pyclass(frozen, weakref, eq, hash, module = "anabranch")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LaunchConfig {
    /// The extents of the grid, in blocks.
    #[pyo3(get)]
    grid: [u32; 3],
    /// The extents of a block, in threads.
    #[pyo3(get)]
    block: [u32; 3],
    /// The extents of a cluster, in blocks.
    #[pyo3(get)]
    cluster: Option<[u32; 3]>,
    /// The dynamic shared memory of a block, in bytes.
    #[pyo3(get)]
    dynamic_shared_bytes: u32,
    /// Whether all blocks run at the same time and may wait for each other.
    #[pyo3(get)]
    cooperative: bool,
    /// The priority of the launch, if it is not the stream's.
    #[pyo3(get)]
    priority: Option<i32>,
    /// Whether the launch may begin before the kernel that comes before it in the stream has ended.
    #[pyo3(get)]
    programmatic_stream_serialization: bool,
}

impl LaunchConfig {
    /// The configuration that an argument stands for: one of this class, a number of elements, or a pair of grid and block.
    pub(crate) fn of_python(config: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(config) = config.cast::<Self>() {
            return Ok(config.get().clone());
        }
        if let Ok(pair) = config.cast::<PyTuple>()
            && pair.len() == 2
        {
            return Self::new(&pair.get_item(0)?, &pair.get_item(1)?, None, 0, false, None, false);
        }
        Err(PyTypeError::new_err("a LaunchConfig, or a pair of grid and block, was expected"))
    }

    /// The configuration of the library.
    pub(crate) fn to_library(&self) -> anabranch::LaunchConfig<'static> {
        let mut config =
            anabranch::LaunchConfig::new(self.grid, self.block).dynamic_shared_bytes(self.dynamic_shared_bytes);
        if let Some(cluster) = self.cluster {
            config = config.cluster(cluster);
        }
        if self.cooperative {
            config = config.cooperative();
        }
        if let Some(priority) = self.priority {
            config = config.priority(priority);
        }
        if self.programmatic_stream_serialization {
            config = config.programmatic_stream_serialization();
        }
        config
    }
}

fn dimensions(extents: &Bound<'_, PyAny>) -> PyResult<[u32; 3]> {
    let refuse = |error: PyErr| {
        if is_of_program(extents.py(), &error) {
            error
        } else if error.is_instance_of::<PyOverflowError>(extents.py()) {
            PyValueError::new_err("an extent is not negative, and has at most 32 bits")
        } else if error.is_instance_of::<PyTypeError>(extents.py()) {
            PyTypeError::new_err("extents are a number, or up to three of them")
        } else {
            error
        }
    };
    if extents.hasattr("__index__")? {
        return extents.extract::<u32>().map(|extent| Dimensions::from(extent).0).map_err(refuse);
    }
    let Few(listed) = extents.extract::<Few<u32>>().map_err(refuse)?;
    match listed[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(PyTypeError::new_err("extents are a number, or up to three of them")),
    }
}

#[pymethods]
impl LaunchConfig {
    /// Extents are a number, or up to three of them.
    #[new]
    #[pyo3(signature = (
        grid, block, *, cluster = None, dynamic_shared_bytes = 0, cooperative = false, priority = None,
        programmatic_stream_serialization = false
    ))]
    fn new(
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        cluster: Option<&Bound<'_, PyAny>>,
        dynamic_shared_bytes: u32,
        cooperative: bool,
        priority: Option<i32>,
        programmatic_stream_serialization: bool,
    ) -> PyResult<Self> {
        Ok(Self {
            grid: dimensions(grid)?,
            block: dimensions(block)?,
            cluster: cluster.map(dimensions).transpose()?,
            dynamic_shared_bytes,
            cooperative,
            priority,
            programmatic_stream_serialization,
        })
    }

    /// A grid with at least one thread for each of so many elements, in blocks of 256.
    #[staticmethod]
    fn for_elements(count: u32) -> Self {
        let config = anabranch::LaunchConfig::for_elements(count);
        Self {
            grid: config.grid(),
            block: config.block(),
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            programmatic_stream_serialization: false,
        }
    }

    fn __repr__(&self) -> String {
        format!("anabranch.LaunchConfig({:?}, {:?})", self.grid, self.block)
    }
}
