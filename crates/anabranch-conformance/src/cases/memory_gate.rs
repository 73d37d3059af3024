//! Calls that block until a gate is open.

use crate::gate::Gate;
use std::sync::mpsc::channel;

/// Does `wait`, which blocks until the gate is open, and has another thread open it from the moment it begins.
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
