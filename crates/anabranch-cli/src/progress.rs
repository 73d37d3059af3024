//! How far a long command has come, on a terminal's standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A bar that appears when the command takes long. In a pipe it never does.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Its end notifies the waiting thread that there is nothing to show any more.
    _ended: Option<Sender<()>>,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} of {len}  {msg}") {
            bar.set_style(style);
        }
        if !stderr().is_terminal() {
            return Self { bar, _ended: None };
        }
        let (ended, wait) = channel();
        let shown = bar.clone();
        // Without the thread there is no bar, which does no harm.
        let _ = std::thread::Builder::new().name("anabranch-progress".to_owned()).spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(100));
            }
        });
        Self { bar, _ended: Some(ended) }
    }

    /// Says what is being done.
    pub(crate) fn begin(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Counts a step, and prints with the bar out of the way.
    pub(crate) fn step<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.inc(1);
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
