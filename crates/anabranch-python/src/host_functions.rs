//! Functions of Python that run in stream order.
//!
//! A driver calls a host function on a thread of its own, perhaps with locks that other threads wait for. That thread does
//! not attach to the interpreter: it waits for a thread of Python (`_workers.py`), which calls the function. The calls of this
//! module are made without the interpreter, so that whoever holds such a lock waits for nobody.
//!
//! The threads are Python's because an interpreter that ends stops them wherever they are. There is nothing of Rust on their
//! stacks then that would have to be left in order.

use crate::kept::Kept;
use crate::{process, threads};
use anabranch::hal::{InsideWork, Raised};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for calls while others wait, too.
const IDLE: Duration = Duration::from_secs(10);

/// How many exceptions are kept that the library has let go of.
const LAST: usize = 16;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Exceptions that the library may report, by their numbers.
struct Exceptions {
    kept: BTreeMap<u64, Kept<PyErr>>,
    /// Those that the library has let go of, the last ones.
    last: VecDeque<u64>,
}

static EXCEPTIONS: Mutex<Exceptions> = Mutex::new(Exceptions { kept: BTreeMap::new(), last: VecDeque::new() });

fn exceptions() -> MutexGuard<'static, Exceptions> {
    EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that no thread has begun, and how many threads wait for one.
struct Calls {
    waiting: VecDeque<Call>,
    idle: usize,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { waiting: VecDeque::new(), idle: 0 });
static ADDED: Condvar = Condvar::new();
static IS_STARTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// That the thread runs a host function, which must not call the library: the driver does not know it.
    static INSIDE: RefCell<Option<Inside>> = const { RefCell::new(None) };
}

/// While a thread runs a host function, for which it is counted as attached to the interpreter. An exception from elsewhere may end the
/// thread before it has said that the function has ended.
struct Inside {
    _work: InsideWork,
}

impl Drop for Inside {
    fn drop(&mut self) {
        threads::end_attached();
    }
}

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function with its arguments.
///
/// The garbage collector sees it while only one object of Python has it; see [`visit_sole`](Self::visit_sole). It does not see what a
/// graph or work in a stream has: whether an executable graph, a clone or a launch that is pending has the function, too, only the
/// library knows, so that the references to it cannot be counted, and what is cleared would be missing when the function is called.
pub(crate) struct Function(Kept<Parts>);

struct Parts {
    function: Py<PyAny>,
    arguments: Py<PyTuple>,
    keywords: Option<Py<PyDict>>,
}

/// What a function has raised, with its description.
type Outcome = Result<(), (String, Kept<PyErr>)>;

struct Call {
    function: Arc<Function>,
    /// A last argument.
    status: Option<i32>,
    sender: Sender<Outcome>,
}

impl Function {
    /// Starts a thread for it if there is none.
    pub(crate) fn new(
        py: Python<'_>,
        function: Py<PyAny>,
        arguments: Py<PyTuple>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<Arc<Self>> {
        if !function.bind(py).is_callable() {
            let name = function.bind(py).get_type().name()?;
            return Err(PyTypeError::new_err(format!("a function was expected, and not {name}")));
        }
        if !IS_STARTED.swap(true, Ordering::Relaxed)
            && let Err(error) = start(py)
        {
            IS_STARTED.store(false, Ordering::Relaxed);
            return Err(error);
        }
        Ok(Arc::new(Self(Kept::new(Parts { function, arguments, keywords }))))
    }

    /// Shows what it refers to to the garbage collector, unless somebody else has it, too. Whoever calls this gives it to others only with
    /// the interpreter, and so not while the collector runs, which asks more than once.
    pub(crate) fn visit_sole(self: &Arc<Self>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(self) > 1 {
            return Ok(());
        }
        visit.call(&self.0.function)?;
        visit.call(&self.0.arguments)?;
        visit.call(&self.0.keywords)
    }

    /// Calls it on a thread of Python, and waits for that. An exception unwinds, which the library reports to whoever
    /// synchronises.
    pub(crate) fn run(self: &Arc<Self>) {
        self.call(None);
    }

    /// Like [`run`](Self::run), with a status behind the arguments.
    pub(crate) fn run_with_status(self: &Arc<Self>, status: i32) {
        self.call(Some(status));
    }

    fn call(self: &Arc<Self>, status: Option<i32>) {
        let (sender, receiver) = channel();
        calls().waiting.push_back(Call { function: self.clone(), status, sender });
        ADDED.notify_one();
        // When the interpreter is ending, the function is not called.
        if process::is_exiting() {
            forget_waiting();
        }
        match receiver.recv() {
            Ok(Ok(())) => {}
            Ok(Err((message, error))) => {
                let exception = Exception::keep(error);
                let message = format!("raised {message} (exception {})", exception.0);
                // It has been told already where the exception was raised.
                std::panic::resume_unwind(Box::new(Raised { message, kept: Arc::new(exception) }));
            }
            // The interpreter is ending, or else an exception has ended the thread that was to call it.
            Err(_) if process::is_exiting() => {}
            Err(_) => std::panic::resume_unwind(Box::new("an exception from elsewhere has ended its thread")),
        }
    }
}

/// Says an exception where those are said that nobody can catch.
#[pyfunction]
#[pyo3(name = "_write_unraisable")]
pub(crate) fn write_unraisable(py: Python<'_>, exception: Bound<'_, PyAny>, object: Option<Bound<'_, PyAny>>) {
    PyErr::from_value(exception).write_unraisable(py, object.as_ref());
}

/// Starts a thread that waits for calls, without code of Python: while the interpreter ends, it ends threads that run such code, which
/// must not happen inside of Rust.
fn start(py: Python<'_>) -> PyResult<()> {
    let work = py.import("anabranch._workers")?.getattr("work")?;
    py.import("_thread")?.call_method1("start_new_thread", (work, PyTuple::empty(py))).map(drop)
}

/// Lets go of the calls that were not begun: the interpreter is ending. Those who wait for them go on.
pub(crate) fn forget_waiting() {
    let waiting = std::mem::take(&mut calls().waiting);
    drop(waiting);
}

/// A call that a thread of Python makes.
#[pyclass(frozen, name = "_HostCall", module = "anabranch._anabranch")]
pub(crate) struct HostCall {
    #[pyo3(get)]
    function: Py<PyAny>,
    #[pyo3(get)]
    arguments: Py<PyTuple>,
    #[pyo3(get)]
    keywords: Py<PyDict>,
    /// Whether no other thread waits for calls.
    #[pyo3(get)]
    is_last: bool,
    call: Mutex<Option<Call>>,
}

/// The next call, for a thread of Python that makes calls. Waits until there is one, or long enough while others wait, too.
#[pyfunction]
#[pyo3(name = "_next_call")]
pub(crate) fn next_call(py: Python<'_>) -> PyResult<Option<HostCall>> {
    // An exception may have kept the thread from ending the last one.
    leave();
    let taken = py.detach(|| {
        let mut calls = calls();
        calls.idle += 1;
        let call = loop {
            if let Some(call) = calls.waiting.pop_front() {
                break call;
            }
            let (woken, waited) = ADDED.wait_timeout(calls, IDLE).unwrap_or_else(PoisonError::into_inner);
            calls = woken;
            if waited.timed_out() && calls.waiting.is_empty() && calls.idle > 1 {
                calls.idle -= 1;
                return None;
            }
        };
        calls.idle -= 1;
        let is_last = calls.idle == 0;
        drop(calls);
        if !threads::begin_attached() {
            // The interpreter is ending: whoever waits for the call goes on, and this thread does not come back.
            drop(call);
            process::stay();
        }
        Some((call, is_last))
    });
    let Some((call, is_last)) = taken else { return Ok(None) };
    INSIDE.with(|inside| *inside.borrow_mut() = Some(Inside { _work: InsideWork::enter() }));
    let function = &*call.function.0;
    let mut arguments = function.arguments.clone_ref(py);
    if let Some(status) = call.status {
        let status = PyTuple::new(py, [status])?;
        arguments = arguments.bind(py).as_sequence().concat(status.as_sequence())?.cast_into::<PyTuple>()?.unbind();
    }
    let keywords = function.keywords.as_ref().map_or_else(|| PyDict::new(py).unbind(), |given| given.clone_ref(py));
    let function = function.function.clone_ref(py);
    Ok(Some(HostCall { function, arguments, keywords, is_last, call: Mutex::new(Some(call)) }))
}

/// The thread runs no host function any more.
fn leave() {
    drop(INSIDE.with(|inside| inside.borrow_mut().take()));
}

#[pymethods]
impl HostCall {
    /// Who looks for it, in frames or elsewhere, can keep this. Nothing is cleared: as with tuples, a cycle has an object in it that was
    /// changed.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.arguments)?;
        visit.call(&self.keywords)
    }

    /// The function has returned, or has raised an exception.
    #[pyo3(signature = (exception, /))]
    fn end(&self, py: Python<'_>, exception: Option<Bound<'_, PyAny>>) {
        let Some(Call { function, sender, .. }) = self.call.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return;
        };
        let outcome = exception.map_or(Ok(()), |exception| {
            let error = PyErr::from_value(exception);
            Err((describe(py, &error), Kept::new(error)))
        });
        leave();
        // Before whoever waits goes on, which may drop the last reference.
        drop(function);
        let _ = sender.send(outcome);
    }
}

fn describe(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    match error.value(py).str().map(|text| text.to_string()) {
        Ok(text) if !text.is_empty() => format!("{name}: {text}"),
        _ => name,
    }
}

/// The number of an exception, which is kept until the library has reported it, or will not report it any more.
struct Exception(u64);

impl Exception {
    fn keep(error: Kept<PyErr>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        exceptions().kept.insert(number, error);
        Self(number)
    }
}

impl Drop for Exception {
    fn drop(&mut self) {
        let mut exceptions = exceptions();
        if !exceptions.kept.contains_key(&self.0) {
            return;
        }
        // The library reports an error at this moment, perhaps, of which this is the cause.
        exceptions.last.push_back(self.0);
        let oldest = if exceptions.last.len() > LAST { exceptions.last.pop_front() } else { None };
        let gone = oldest.and_then(|number| exceptions.kept.remove(&number));
        drop(exceptions);
        drop(gone);
    }
}

/// The exception that a message of the library is about.
pub(crate) fn take_exception(message: &str) -> Option<PyErr> {
    let number: u64 = message.rsplit_once("(exception ")?.1.split(')').next()?.parse().ok()?;
    let mut exceptions = exceptions();
    exceptions.last.retain(|last| *last != number);
    let taken = exceptions.kept.remove(&number);
    drop(exceptions);
    taken.map(Kept::into_inner)
}
