//! Calls for signals, which hold streams up.
//!
//! A signal is 0 until the program, a stream or the player sets it to 1, which every condition is about. The player sets all
//! signals before a call that may wait, because nothing else would.

use super::told::{plain, told};
use super::{Answer, Front, FrontCall};
use crate::programs::slots::{ContextSlot, GateSlot};
use anabranch::{Signal, WaitCondition, flush_deferred_drops};

impl Front {
    pub(super) fn signal_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::SignalCreate { signal, context } => told(self.context(*context).create_signal(), |created| {
                self.objects.signals.insert(signal.0, created);
                String::new()
            }),
            C::SignalDrop { signal } => {
                drop(self.objects.signals.remove(signal)?);
                plain(Ok(()))
            }
            C::SignalSet { signal } => {
                self.objects.signals.get(signal)?.set(1);
                plain(Ok(()))
            }
            C::SignalWait { stream, signal, condition } => {
                let conditions = [WaitCondition::GreaterOrEqual, WaitCondition::Equal, WaitCondition::And];
                let condition = conditions[usize::from(*condition) % conditions.len()];
                self.quiesce();
                plain(self.stream(*stream)?.wait_signal(self.signal(*signal)?, condition, 1))
            }
            C::SignalWrite { stream, signal } => plain(self.stream(*stream)?.write_signal(self.signal(*signal)?, 1)),
            _ => return None,
        })
    }

    pub(super) fn signal(&self, slot: GateSlot) -> Option<&Signal> {
        self.objects.signals.get(&slot)
    }

    /// Waits until everything that was dropped has been freed. On a GPU, freeing may wait for all streams, and hold up all
    /// other calls meanwhile.
    fn quiesce(&mut self) {
        let is_quiet = std::mem::replace(&mut self.is_held_up, true);
        if is_quiet || self.is_inside || !self.captures.is_empty() {
            return;
        }
        for context in [0, 1].map(ContextSlot) {
            // Its error is that of a call of the program, which reports it itself.
            let _ = self.context(context).synchronize();
        }
        flush_deferred_drops();
    }

    /// Sets all signals.
    pub(super) fn set_signals(&mut self) {
        self.is_held_up = false;
        self.objects.signals.values().for_each(|signal| signal.set(1));
    }
}
