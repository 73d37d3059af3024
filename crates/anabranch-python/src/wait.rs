//! Waits that Ctrl-C ends.

use crate::{error, process, threads};
use anabranch::{Result, Status};
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// For this long, a wait asks again and again: short work is complete before a thread that sleeps could be woken.
const MOMENT: Duration = Duration::from_micros(50);
/// After this long, it lets other threads run in between. One of them may be what it waits for.
const ALONE: Duration = Duration::from_micros(10);

/// How often a wait looks whether a signal has arrived.
const INTERVAL: Duration = Duration::from_millis(20);

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
        py.check_signals()?;
    }
}

/// Makes a call that blocks on another thread, and waits for it. If a signal handler raises an exception, the wait ends with
/// it; the call then ends by itself.
pub(crate) fn for_call<T: Send + 'static>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    error::require_usable(py)?;
    let (sender, mut receiver) = channel();
    threads::run(move || {
        let _ = sender.send(body());
    });
    loop {
        // It is moved there and back, as it cannot be shared.
        let (received, back) = process::detached(py, move || (receiver.recv_timeout(INTERVAL), receiver));
        receiver = back;
        match received {
            Ok(result) => return result.map_err(|error| error::raise(py, &error)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let hint = "see what was printed where it happened";
                return Err(error::refused(py, Status::UNKNOWN, "waiting", "the call has panicked", hint));
            }
        }
    }
}
