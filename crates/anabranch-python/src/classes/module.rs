//! Modules of device code, and their kernels.

use crate::classes::compiler::Compiled;
use crate::classes::config::LaunchConfig;
use crate::classes::context::Context;
use crate::few::Few;
use crate::slot::{Lent, Slot};
use crate::wait;
use anabranch::FunctionAttribute;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString};

/// Loads device code.
pub(crate) fn load(context: &anabranch::Context, image: &Bound<'_, PyAny>) -> PyResult<Module> {
    let py = image.py();
    let context = context.clone();
    let module = if let Ok(compiled) = image.cast::<Compiled>() {
        let compiled = compiled.get().0.clone();
        wait::for_call(py, move || anabranch::Module::load_compiled(&context, &compiled))
    } else if let Ok(text) = image.cast::<PyString>() {
        let text = PyBackedStr::try_from(text.clone())?;
        wait::for_call(py, move || anabranch::Module::load_ptx(&context, &text))
    } else if let Ok(bytes) = image.cast::<PyBytes>() {
        let bytes = PyBackedBytes::from(bytes.clone());
        wait::for_call(py, move || {
            // SAFETY: the program promises that NVIDIA's tools made the image, as the method says.
            unsafe { anabranch::Module::load_binary(&context, &bytes) }
        })
    } else {
        let name = image.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{name} is no module: pass PTX as a str, machine code as bytes, or what compile() returned"
        )));
    }?;
    let id = module.id();
    Ok(Module { slot: Slot::new("module", module), id })
}

/// Device code that is loaded in a context.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Module {
    slot: Slot<anabranch::Module>,
    id: u64,
}

#[pymethods]
impl Module {
    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.slot.get(py)?.context()))
    }

    /// An id that is unique in the process and never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.slot.get(py)?.as_raw().as_raw())
    }

    /// The address and the number of bytes of a variable. They are valid as long as the module is loaded.
    fn variable(&self, py: Python<'_>, name: &str) -> PyResult<(u64, usize)> {
        let module = self.slot.get(py)?;
        let (address, bytes) = wait::call(py, || module.global(name))?;
        Ok((address.0, bytes))
    }

    /// The names of the kernels.
    fn kernel_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let module = self.slot.get(py)?;
        wait::call(py, || module.kernel_names())
    }

    /// The kernel of that name, as it is in the code. `parameters` are the sizes of its parameters in bytes, for drivers that
    /// do not say them.
    #[pyo3(signature = (name, *, parameters = None))]
    fn kernel(&self, py: Python<'_>, name: &str, parameters: Option<Few<usize>>) -> PyResult<Kernel> {
        let parameters = parameters.map(|Few(parameters)| parameters);
        let module = self.slot.get(py)?;
        let kernel = wait::call(py, || module.kernel(name))?;
        let known = kernel.parameters().map(|known| known.iter().map(|parameter| parameter.size).collect());
        let id = kernel.id();
        Ok(Kernel { slot: Slot::new("kernel", kernel), sizes: known.or(parameters), id })
    }

    /// Gives up this object's hold on the code, which is unloaded when no kernel and no graph has it.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.id == other.get().id)
    }

    fn __hash__(&self) -> u64 {
        self.id
    }

    fn __repr__(&self) -> String {
        let closed = if self.slot.is_open() { "" } else { " (closed)" };
        format!("<anabranch.Module {}{closed}>", self.id)
    }
}

/// A kernel, which `Stream.launch` launches.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Kernel {
    slot: Slot<anabranch::Kernel>,
    sizes: Option<Vec<usize>>,
    id: u64,
}

impl Kernel {
    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, anabranch::Kernel>> {
        self.slot.get(py)
    }

    /// The sizes of the parameters in bytes, if they are known.
    pub(crate) fn sizes(&self) -> Option<&[usize]> {
        self.sizes.as_deref()
    }
}

#[pymethods]
impl Kernel {
    /// The name.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.name().to_owned())
    }

    /// The sizes of the parameters in bytes, or None if the driver does not say them.
    #[getter]
    fn parameters(&self) -> Option<Vec<usize>> {
        self.sizes.clone()
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.get(py)?.module().context()))
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.as_raw().as_raw())
    }

    /// What the kernel needs: the limit of threads in a block, registers of a thread, and bytes of shared, local and constant
    /// memory.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kernel = self.get(py)?;
        let info = wait::call(py, || kernel.info())?;
        let listed = PyDict::new(py);
        listed.set_item("max_threads_per_block", info.max_threads_per_block)?;
        listed.set_item("registers", info.registers)?;
        listed.set_item("static_shared_bytes", info.static_shared_bytes)?;
        listed.set_item("max_dynamic_shared_bytes", info.max_dynamic_shared_bytes)?;
        listed.set_item("local_bytes", info.local_bytes)?;
        listed.set_item("constant_bytes", info.constant_bytes)?;
        Ok(listed)
    }

    /// Sets the percentage of the cache that should be shared memory, or -1 for the default.
    fn set_preferred_shared_memory_carveout(&self, py: Python<'_>, percentage: i32) -> PyResult<()> {
        let kernel = self.get(py)?;
        wait::call(py, || kernel.set_attribute(FunctionAttribute::PreferredSharedMemoryCarveout(percentage)))
    }

    /// Sets the limit of the dynamic shared memory of a block, in bytes.
    fn set_max_dynamic_shared_bytes(&self, py: Python<'_>, bytes: u32) -> PyResult<()> {
        let kernel = self.get(py)?;
        wait::call(py, || kernel.set_attribute(FunctionAttribute::MaxDynamicSharedBytes(bytes)))
    }

    /// The maximum number of blocks that run on a multiprocessor at the same time.
    #[pyo3(signature = (threads_per_block, *, dynamic_shared_bytes = 0))]
    fn max_active_blocks(&self, py: Python<'_>, threads_per_block: u32, dynamic_shared_bytes: usize) -> PyResult<u32> {
        let kernel = self.get(py)?;
        wait::call(py, || kernel.max_active_blocks(threads_per_block, dynamic_shared_bytes))
    }

    /// The maximum number of clusters of a launch that run at the same time.
    fn max_active_clusters(&self, py: Python<'_>, config: &Bound<'_, LaunchConfig>) -> PyResult<u32> {
        let (kernel, config) = (self.get(py)?, config.get().to_library());
        wait::call(py, || kernel.max_active_clusters(&config))
    }

    /// The maximum number of blocks in a cluster of a launch, whatever the cluster of the configuration is.
    fn max_cluster_size(&self, py: Python<'_>, config: &Bound<'_, LaunchConfig>) -> PyResult<u32> {
        let (kernel, config) = (self.get(py)?, config.get().to_library());
        wait::call(py, || kernel.max_cluster_size(&config))
    }

    /// Gives up this object's hold on the kernel.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.id == other.get().id)
    }

    fn __hash__(&self) -> u64 {
        self.id
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.peek(py) {
            Some(kernel) => format!("<anabranch.Kernel {}>", kernel.name()),
            None => "<anabranch.Kernel (closed)>".to_owned(),
        }
    }
}
