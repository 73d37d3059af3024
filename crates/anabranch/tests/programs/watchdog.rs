//! Finding programs that hang.

use crate::operation::Program;
use std::io::{Write as _, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Only a hang takes so long.
const LONGEST: Duration = Duration::from_secs(120);

type Running = Arc<Mutex<Option<(Instant, Program)>>>;

/// Ends the process when a program hangs, and says which. A thread that hangs can be ended in no other way.
pub(crate) struct Watchdog {
    running: Running,
    #[allow(dead_code, reason = "its drop ends the thread")]
    ends: Sender<()>,
}

/// A program that is running.
pub(crate) struct Watched<'a>(&'a Running);

impl Watchdog {
    /// For programs made from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let running = Running::default();
        let (ends, ended) = channel();
        let watched = running.clone();
        std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(1)) {
                if let Some((begin, program)) = &*watched.lock().unwrap()
                    && begin.elapsed() > LONGEST
                {
                    // What `eprintln!` writes here is kept for the test's end, which does not come.
                    let _ = writeln!(stderr(), "a program of PROPTEST_RNG_SEED={seed} hangs: {program:?}");
                    std::process::abort();
                }
            }
        });
        Self { running, ends }
    }

    pub(crate) fn watch(&self, program: &Program) -> Watched<'_> {
        *self.running.lock().unwrap() = Some((Instant::now(), program.clone()));
        Watched(&self.running)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = None;
    }
}
