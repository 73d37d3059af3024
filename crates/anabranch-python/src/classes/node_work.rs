//! The work of nodes of graphs that are built by hand.

use crate::classes::arguments::{self, Argument};
use crate::classes::buffer::Buffer;
use crate::classes::conditional::Conditional;
use crate::classes::config::LaunchConfig;
use crate::classes::event::Event;
use crate::classes::graph::Graph;
use crate::classes::module::Kernel;
use crate::classes::node_pattern;
use crate::classes::open_graph::{Edited, OpenGraph};
use crate::classes::signal::{Signal, condition_of};
use crate::classes::transfer::{require_copy, require_pattern};
use crate::dtype::{DType, Element, TypedCall};
use crate::few::Few;
use crate::host_functions::Function;
use crate::memory::{Use, View};
use crate::slot::release;
use crate::wait;
use anabranch::{Error, Result, Status, WaitCondition};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// What a node does, and what it refers to. The library's work is made of it whenever it is used.
enum Work {
    Empty,
    Kernel { kernel: Arc<anabranch::Kernel>, config: LaunchConfig, arguments: Vec<Argument> },
    Copy { destination: Arc<View>, source: Arc<View> },
    Fill { destination: Arc<View>, element: Vec<u8> },
    FillPattern { destination: Arc<View>, pattern: Vec<u8> },
    Function(Arc<Function>),
    EventRecord(Arc<anabranch::Event>),
    EventWait(Arc<anabranch::Event>),
    WriteSignal(Arc<anabranch::Signal>, u64),
    WaitSignal(Arc<anabranch::Signal>, WaitCondition, u64),
    SetConditional(anabranch::Conditional, Arc<View>),
    Child(Arc<OpenGraph>),
}

/// What a node of a graph does, for `Graph.add`, `Graph.set_node` and `ExecutableGraph.set_node`. It can be used any number of
/// times.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct NodeWork {
    /// There until it is dropped.
    work: Option<Work>,
    kind: &'static str,
}

/// Work that is given to a graph. Its function has another owner from before the interpreter is left until after it is back: the
/// garbage collector, which runs meanwhile, finds all the time that the function is not the work's alone. Otherwise it could count a
/// reference of the work at first, and not find it again.
pub(crate) struct LentWork<'a> {
    work: &'a NodeWork,
    _function: Option<Arc<Function>>,
}

impl NodeWork {
    fn new(kind: &'static str, work: Work) -> Self {
        Self { work: Some(work), kind }
    }

    /// The work, to give it to a graph.
    pub(crate) fn lend(&self, _py: Python<'_>) -> LentWork<'_> {
        let function = match &self.work {
            Some(Work::Function(function)) => Some(function.clone()),
            _ => None,
        };
        LentWork { work: self, _function: function }
    }

    fn edit<R: Send>(
        &self,
        py: Python<'_>,
        graph: &OpenGraph,
        edit: impl FnOnce(&mut Edited<'_>, anabranch::NodeWork<'_>) -> Result<R> + Send,
    ) -> PyResult<R> {
        match &self.work {
            Some(Work::Child(child)) => {
                wait::call(py, || graph.edit_with(child, |graph, child| edit(graph, anabranch::NodeWork::child(child))))
            }
            _ => wait::in_turn(py, self.uses(), || {
                let work = self.plain()?;
                graph.edit(|graph| edit(graph, work))
            }),
        }
    }

    fn uses(&self) -> Vec<Use<'_>> {
        match &self.work {
            Some(Work::Kernel { arguments, .. }) => arguments.iter().filter_map(Argument::used).collect(),
            Some(Work::Copy { destination, source }) => vec![destination.written(), source.read()],
            Some(Work::Fill { destination, .. } | Work::FillPattern { destination, .. }) => vec![destination.written()],
            Some(Work::SetConditional(_, value)) => vec![value.read()],
            _ => Vec::new(),
        }
    }

    /// The library's work, unless it is a child.
    fn plain(&self) -> Result<anabranch::NodeWork<'_>> {
        match &self.work {
            Some(Work::Empty) => Ok(anabranch::NodeWork::empty()),
            Some(Work::Kernel { kernel, config, arguments }) => {
                let list = arguments::list(arguments)?;
                // SAFETY: the arguments have the sizes that the kernel declares. That they have its types, and that it stays within
                // its memory, the program promises, as wherever Python launches code of a device.
                unsafe { anabranch::NodeWork::kernel(kernel, &config.to_library(), &list) }
            }
            Some(Work::Copy { destination, source }) => destination.dtype.with(Copy(destination, source)),
            Some(Work::Fill { destination, element }) => destination.dtype.with(Fill(destination, element)),
            Some(Work::FillPattern { destination, pattern }) => node_pattern::fill(destination, pattern),
            Some(Work::Function(function)) => {
                let function = function.clone();
                Ok(anabranch::NodeWork::host_func(move || function.run()))
            }
            Some(Work::EventRecord(event)) => Ok(anabranch::NodeWork::event_record(event)),
            Some(Work::EventWait(event)) => Ok(anabranch::NodeWork::event_wait(event)),
            Some(Work::WriteSignal(signal, value)) => Ok(anabranch::NodeWork::write_signal(signal, *value)),
            Some(Work::WaitSignal(signal, condition, value)) => {
                Ok(anabranch::NodeWork::wait_signal(signal, *condition, *value))
            }
            Some(Work::SetConditional(conditional, value)) => {
                anabranch::NodeWork::set_conditional(*conditional, value.bytes()?.cast::<u32>()?)
            }
            Some(Work::Child(_)) | None => {
                Err(Error::argument(Status::INVALID_VALUE, "making a node", "the work is a graph"))
            }
        }
    }
}

impl LentWork<'_> {
    /// Adds a node to a graph.
    pub(crate) fn add_to(
        &self,
        py: Python<'_>,
        graph: &OpenGraph,
        dependencies: &[anabranch::Node],
    ) -> PyResult<anabranch::Node> {
        self.work.edit(py, graph, |graph, work| graph.add(dependencies, work))
    }

    /// Replaces the work of a node.
    pub(crate) fn set_in(&self, py: Python<'_>, graph: &OpenGraph, node: anabranch::Node) -> PyResult<()> {
        self.work.edit(py, graph, |graph, work| graph.set_node(node, work))
    }

    /// Replaces the work of a node of an executable graph.
    pub(crate) fn set_in_executable(
        &self,
        py: Python<'_>,
        graph: &anabranch::ExecutableGraph,
        node: anabranch::Node,
    ) -> PyResult<()> {
        let work = self.work;
        match &work.work {
            Some(Work::Child(child)) => {
                wait::call(py, || child.read(|child| graph.set_node(node, anabranch::NodeWork::child(child))))
            }
            _ => wait::in_turn(py, work.uses(), || graph.set_node(node, work.plain()?)),
        }
    }
}

impl Drop for NodeWork {
    fn drop(&mut self) {
        release(self.work.take());
    }
}

struct Copy<'a>(&'a View, &'a View);

impl<'a> TypedCall for Copy<'a> {
    type Output = Result<anabranch::NodeWork<'a>>;

    fn call<T: Element>(self) -> Self::Output {
        let Self(destination, source) = self;
        // SAFETY: other threads submit no work that uses the memory meanwhile, and the parts do not overlap.
        let bytes = unsafe { destination.bytes_mut("copying in a graph") }?;
        anabranch::NodeWork::copy(bytes.cast::<T>()?, source.bytes()?.cast::<T>()?)
    }
}

struct Fill<'a>(&'a View, &'a [u8]);

impl<'a> TypedCall for Fill<'a> {
    type Output = Result<anabranch::NodeWork<'a>>;

    fn call<T: Element>(self) -> Self::Output {
        let Self(destination, element) = self;
        // SAFETY: other threads submit no work that uses the memory meanwhile.
        let bytes = unsafe { destination.bytes_mut("filling in a graph") }?;
        anabranch::NodeWork::fill(bytes.cast::<T>()?, bytemuck::pod_read_unaligned::<T>(element))
    }
}

/// A number as an element, in bytes.
fn element(dtype: DType, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    struct Bytes<'a, 'py>(&'a Bound<'py, PyAny>);

    impl TypedCall for Bytes<'_, '_> {
        type Output = PyResult<Vec<u8>>;

        fn call<T: Element>(self) -> Self::Output {
            Ok(bytemuck::bytes_of(&T::of_python(self.0)?).to_vec())
        }
    }

    dtype.with(Bytes(value))
}

#[pymethods]
impl NodeWork {
    /// No work: a point where others meet.
    #[staticmethod]
    fn empty() -> Self {
        Self::new("empty", Work::Empty)
    }

    /// Launches a kernel. Arguments are as for `Stream.launch`.
    #[staticmethod]
    #[pyo3(signature = (kernel, config, *arguments))]
    fn kernel(
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        config: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Self> {
        let config = LaunchConfig::of_python(config)?;
        let arguments = arguments::convert_all(py, kernel.get(), arguments)?;
        let kernel = kernel.get().get(py)?.share();
        Ok(Self::new("kernel", Work::Kernel { kernel, config, arguments }))
    }

    /// Copies a buffer to another one of the same type and number of elements.
    #[staticmethod]
    fn copy(py: Python<'_>, destination: &Bound<'_, Buffer>, source: &Bound<'_, Buffer>) -> PyResult<Self> {
        let (destination, source) = (destination.get().view(py)?, source.get().view(py)?);
        require_copy(py, &destination, &source)?;
        Ok(Self::new("copy", Work::Copy { destination, source }))
    }

    /// Fills a buffer with a number of at most 32 bits, or with one of 64 bits whose halves are equal.
    #[staticmethod]
    fn fill(py: Python<'_>, buffer: &Bound<'_, Buffer>, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let destination = buffer.get().view(py)?;
        let element = element(destination.dtype, value)?;
        Ok(Self::new("fill", Work::Fill { destination, element }))
    }

    /// Fills a buffer with 1, 2 or 4 bytes again and again, or with 8 bytes whose halves are equal.
    #[staticmethod]
    fn fill_pattern(py: Python<'_>, buffer: &Bound<'_, Buffer>, pattern: Few<u8>) -> PyResult<Self> {
        let (destination, Few(pattern)) = (buffer.get().view(py)?, pattern);
        require_pattern(&destination, &pattern)?;
        Ok(Self::new("fill", Work::FillPattern { destination, pattern }))
    }

    /// Calls a function at every launch, on another thread, as `Stream.launch_host_func` does.
    #[staticmethod]
    #[pyo3(signature = (function, /, *arguments, **keywords))]
    fn host_func(
        py: Python<'_>,
        function: Py<PyAny>,
        arguments: Py<PyTuple>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<Self> {
        Ok(Self::new("host function", Work::Function(Function::new(py, function, arguments, keywords)?)))
    }

    /// Records an event at every launch.
    #[staticmethod]
    fn event_record(py: Python<'_>, event: &Bound<'_, Event>) -> PyResult<Self> {
        Ok(Self::new("event record", Work::EventRecord(event.get().get(py)?.share())))
    }

    /// Waits at every launch for the latest record of an event.
    #[staticmethod]
    fn event_wait(py: Python<'_>, event: &Bound<'_, Event>) -> PyResult<Self> {
        Ok(Self::new("event wait", Work::EventWait(event.get().get(py)?.share())))
    }

    /// Sets a signal at every launch.
    #[staticmethod]
    fn write_signal(py: Python<'_>, signal: &Bound<'_, Signal>, value: u64) -> PyResult<Self> {
        Ok(Self::new("signal write", Work::WriteSignal(signal.get().get(py)?.share(), value)))
    }

    /// Waits at every launch until a signal satisfies a condition, as `Stream.wait_signal` does.
    #[staticmethod]
    #[pyo3(signature = (signal, value, condition = "greater_or_equal"))]
    fn wait_signal(py: Python<'_>, signal: &Bound<'_, Signal>, value: u64, condition: &str) -> PyResult<Self> {
        let condition = condition_of(condition)?;
        Ok(Self::new("signal wait", Work::WaitSignal(signal.get().get(py)?.share(), condition, value)))
    }

    /// Sets the value of a conditional node to the first element of a buffer of uint32.
    #[staticmethod]
    fn set_conditional(
        py: Python<'_>,
        conditional: &Bound<'_, Conditional>,
        value: &Bound<'_, Buffer>,
    ) -> PyResult<Self> {
        let value = value.get().view(py)?;
        if value.dtype != DType::U32 {
            let found = value.dtype.name();
            let message = format!("the value of a conditional node is a buffer of uint32, and this one is of {found}");
            return Err(PyTypeError::new_err(message));
        }
        Ok(Self::new("conditional setter", Work::SetConditional(conditional.get().value, value)))
    }

    /// Runs another graph, which is copied when the work is used.
    #[staticmethod]
    fn child(py: Python<'_>, graph: &Bound<'_, Graph>) -> PyResult<Self> {
        Ok(Self::new("child", Work::Child(graph.get().get(py)?.share())))
    }

    /// A function that no graph has yet may keep the work. Nothing is cleared: as with tuples, a cycle has an object in it that was
    /// changed.
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match &self.work {
            Some(Work::Function(function)) => function.visit_sole(&visit),
            _ => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.NodeWork {}>", self.kind)
    }
}
