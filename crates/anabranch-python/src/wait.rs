//! Waits that Ctrl-C ends.

use crate::memory::{Turns, Use};
use crate::slot::release;
use crate::{error, process, threads};
use anabranch::{Result, Status};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// For this long, a wait asks again and again: short work is complete before a thread that sleeps could be woken.
const MOMENT: Duration = Duration::from_micros(50);
/// After this long, it lets other threads run in between. One of them may be what it waits for.
const ALONE: Duration = Duration::from_micros(10);

/// How often a wait looks whether a signal has arrived.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long a wait goes on once the interpreter ends.
const GRACE: Duration = Duration::from_secs(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls the library without the interpreter.
pub(crate) fn call<T: Send>(py: Python<'_>, body: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    error::require_usable(py)?;
    process::detached(py, body).map_err(|error| error::raise(py, &error))
}

/// Calls the library without the interpreter, to submit work that uses memory: while no other thread submits work that uses it, if one of
/// the two writes. Others may submit for as long as a stream is full: if a signal handler raises an exception meanwhile, this ends with it.
pub(crate) fn in_turn<'a, T: Send>(
    py: Python<'_>,
    uses: impl IntoIterator<Item = Use<'a>>,
    body: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let (turns, mut body) = (Turns::at(uses), Some(body));
    loop {
        error::require_usable(py)?;
        let (turns, body) = (&turns, &mut body);
        let result = process::detached(py, move || {
            let taken = turns.take(INTERVAL)?;
            let result = body.take().map(|body| body());
            drop(taken);
            result
        });
        if let Some(result) = result {
            return result.map_err(|error| error::raise(py, &error));
        }
        go_on(py)?;
    }
}

/// Asks for a moment, without the interpreter, whether work is complete.
pub(crate) fn for_a_moment(py: Python<'_>, is_complete: impl Fn() -> Result<bool> + Send) -> PyResult<bool> {
    call(py, move || {
        if is_complete()? {
            return Ok(true);
        }
        let since = Instant::now();
        loop {
            let elapsed = since.elapsed();
            if elapsed >= MOMENT {
                return Ok(false);
            }
            if elapsed < ALONE {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            if is_complete()? {
                return Ok(true);
            }
        }
    })
}

/// Waits for a future without the interpreter. If a signal handler raises an exception, the wait ends with it.
pub(crate) fn for_future<T: Send, F: Future<Output = Result<T>> + Unpin + Send>(
    py: Python<'_>,
    mut future: F,
) -> PyResult<T> {
    let result = poll_until_ready(py, &mut future);
    release(future);
    result
}

fn poll_until_ready<T: Send, F: Future<Output = Result<T>> + Unpin + Send>(
    py: Python<'_>,
    mut future: &mut F,
) -> PyResult<T> {
    error::require_usable(py)?;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    // The first poll asks whether it is ready, and the next one is after a wait.
    let mut waits = false;
    loop {
        let (future, waker) = (&mut future, &waker);
        let polled = process::detached(py, move || {
            if waits {
                std::thread::park_timeout(INTERVAL);
            }
            Pin::new(future).poll(&mut Context::from_waker(waker))
        });
        if let Poll::Ready(result) = polled {
            return result.map_err(|error| error::raise(py, &error));
        }
        waits = true;
        go_on(py)?;
    }
}

/// Makes a call that blocks on another thread, and waits for it. If a signal handler raises an exception, the wait ends with
/// it; the call then ends by itself. Without another thread, the call is made here, and no signal ends it.
pub(crate) fn for_call<T: Send + 'static>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    made_elsewhere(py, body)?.map_err(|error| error::raise(py, &error))
}

/// What the call has returned, or else the exception of a signal handler.
fn made_elsewhere<T: Send + 'static>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    error::require_usable(py)?;
    let (sender, mut receiver) = channel();
    let job = threads::run(move || {
        let _ = sender.send(body());
    });
    if let Err(job) = job {
        process::detached(py, job);
    }
    loop {
        // It is moved there and back, as it cannot be shared.
        let (received, back) = process::detached(py, move || (receiver.recv_timeout(INTERVAL), receiver));
        receiver = back;
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => go_on(py)?,
            Err(RecvTimeoutError::Disconnected) => {
                let hint = "see what was printed where it happened";
                return Err(error::refused(py, Status::UNKNOWN, "waiting", "the call has panicked", hint));
            }
        }
    }
}

/// Waits that were given up and still go on, by what they wait for. The flag is set, with this locked, when such a wait has ended.
static GIVEN_UP: Mutex<BTreeMap<u64, Arc<AtomicBool>>> = Mutex::new(BTreeMap::new());
static ENDED: Condvar = Condvar::new();

fn given_up() -> MutexGuard<'static, BTreeMap<u64, Arc<AtomicBool>>> {
    GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`for_call`], for a call that only waits, for what has this id. A program may give such a wait up and try again, over and over:
/// the next one waits for the last one, so that there is one thread for all.
pub(crate) fn for_wait<T: Send + 'static>(
    py: Python<'_>,
    id: u64,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    loop {
        let is_free = process::detached(py, || {
            let waits = given_up();
            let is_waiting = |waits: &mut BTreeMap<_, _>| waits.contains_key(&id);
            let ended = ENDED.wait_timeout_while(waits, INTERVAL, is_waiting);
            !ended.unwrap_or_else(PoisonError::into_inner).0.contains_key(&id)
        });
        if is_free {
            break;
        }
        go_on(py)?;
    }
    let ended = Arc::new(AtomicBool::new(false));
    let body = {
        let ended = Ended { id, ended: ended.clone() };
        move || {
            let result = body();
            drop(ended);
            result
        }
    };
    match made_elsewhere(py, body) {
        Ok(result) => result.map_err(|error| error::raise(py, &error)),
        Err(exception) => {
            let mut waits = given_up();
            if !ended.load(Ordering::Relaxed) {
                waits.insert(id, ended);
            }
            Err(exception)
        }
    }
}

/// Says when it is dropped that a wait has ended.
struct Ended {
    id: u64,
    ended: Arc<AtomicBool>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let mut waits = given_up();
        self.ended.store(true, Ordering::Relaxed);
        if waits.get(&self.id).is_some_and(|ended| Arc::ptr_eq(ended, &self.ended)) {
            waits.remove(&self.id);
        }
        drop(waits);
        ENDED.notify_all();
    }
}

/// Lets a wait go on, unless a signal handler raises an exception, or the interpreter ends: what it waits for may wait for a function of
/// Python, and no more of those are called.
fn go_on(py: Python<'_>) -> PyResult<()> {
    if process::is_exiting_for(GRACE) {
        let message = "the interpreter is ending, and calls no functions of streams any more";
        let hint = "wait for work before the program ends";
        return Err(error::refused(py, Status::DEINITIALIZED, "waiting", message, hint));
    }
    py.check_signals()
}
