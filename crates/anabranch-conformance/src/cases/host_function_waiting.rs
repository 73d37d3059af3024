//! Host functions that wait for a thread which goes on to use the library. Whoever made that thread wait for them would wait
//! for ever. Here they give up after a while, and the case fails.

use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::gate::quiesce;
use crate::kernels;
use anabranch::{Capabilities, Result, Stream, flush_deferred_drops};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("host_function_waiting.of_an_open_stream", "H1", of_an_open_stream).needs(BACKGROUND),
    Case::new("host_function_waiting.of_a_dropped_stream", "H1", of_a_dropped_stream).needs(BACKGROUND),
    Case::new("host_function_waiting.of_a_thread_that_goes_on", "H1", of_a_thread_that_goes_on).needs(BACKGROUND),
    Case::new("host_function_waiting.of_a_thread_that_has_ended", "H1", of_a_thread_that_has_ended).needs(BACKGROUND),
];

/// How long a host function waits.
const LIMIT: Duration = Duration::from_secs(20);

/// A host function that waits to be released.
struct Waiting {
    release: Sender<()>,
    released: Receiver<bool>,
}

impl Waiting {
    /// Launches one, and waits until it runs.
    fn launch(stream: &Stream) -> Result<Self> {
        let ((release, wait), (tell, released), (began, begun)) = (channel(), channel(), channel());
        stream.launch_host_func(move || {
            let _ = began.send(());
            let _ = tell.send(wait.recv_timeout(LIMIT) != Err(RecvTimeoutError::Timeout));
        })?;
        // An error means that it does not run at all, which the end tells.
        let _ = begun.recv();
        Ok(Self { release, released })
    }

    /// Fails if the host function has given up.
    fn release(self) -> Verdict {
        let _ = self.release.send(());
        match self.released.recv() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failed("a call waited for the host function".to_owned())),
            Err(_) => Err(Failed("the host function did not run".to_owned())),
        }
    }
}

/// Drops memory of every kind and a module while the host function that `launch` returns waits, and makes new memory. A module
/// is not loaded meanwhile, because that waits for pending work on hardware.
fn goes_on<R>(
    environment: &Environment,
    launch: impl FnOnce() -> std::result::Result<(Waiting, R), Failed>,
) -> Verdict {
    let context = environment.context();
    let stream = environment.stream()?;
    let make = || -> Result<_> {
        let plain = context.allocate_zeroed::<u8>(&stream, 1000)?;
        Ok((stream.upload(&[1u8; 1000])?, plain, context.allocate_pinned::<u8>(1000)?, context.create_stream()?))
    };
    let dropped = (make()?, kernels::program().load(context)?);
    quiesce(environment)?;
    let (waiting, kept) = launch()?;
    drop(dropped);
    // The next calls of this thread, and those after the background has seen what was dropped.
    for _ in 0..3 {
        drop(make()?);
        flush_deferred_drops();
    }
    let mut pinned = context.allocate_pinned::<u8>(100)?;
    stream.fill(&mut pinned, 7)?;
    let found = pinned.as_slice()?.to_vec();
    waiting.release()?;
    drop(kept);
    equal("what was filled meanwhile", found, vec![7; 100])?;
    quiesce(environment).map_err(Failed::from)
}

fn of_an_open_stream(environment: &Environment) -> Verdict {
    goes_on(environment, || {
        let stream = environment.stream()?;
        Ok((Waiting::launch(&stream)?, stream))
    })
}

fn of_a_dropped_stream(environment: &Environment) -> Verdict {
    goes_on(environment, || Ok((Waiting::launch(&environment.stream()?)?, ())))
}

/// A thread that ends when this is dropped.
struct Thread {
    end: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It says itself what is wrong.
            let _ = thread.join();
        }
    }
}

/// A host function of another thread's default stream.
fn on_another_thread(environment: &Environment) -> std::result::Result<(Waiting, Thread), Failed> {
    let context = environment.context().clone();
    let ((give, take), (end, ended)) = (channel(), channel::<()>());
    let thread = thread::spawn(move || {
        let stream = context.per_thread_stream();
        let _ = give.send(stream.and_then(|stream| Waiting::launch(&stream)));
        let _ = ended.recv();
    });
    let waiting = take.recv().map_err(|_| Failed("the other thread has panicked".to_owned()))??;
    Ok((waiting, Thread { end: Some(end), thread: Some(thread) }))
}

fn of_a_thread_that_goes_on(environment: &Environment) -> Verdict {
    goes_on(environment, || on_another_thread(environment))
}

fn of_a_thread_that_has_ended(environment: &Environment) -> Verdict {
    goes_on(environment, || on_another_thread(environment).map(|(waiting, _)| (waiting, ())))
}
