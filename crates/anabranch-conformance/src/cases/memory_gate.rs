//! Calls that block until a gate is open.

use crate::gate::Gate;
use std::sync::mpsc::channel;

/// Runs `wait`, which blocks until the gate is open. Another thread opens the gate once `wait` has begun.
pub(super) fn opened_during<R>(gate: &Gate, wait: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        let (begun, opener) = channel::<()>();
        scope.spawn(move || {
            let _ = opener.recv();
            gate.open();
        });
        drop(begun);
        wait()
    })
}
