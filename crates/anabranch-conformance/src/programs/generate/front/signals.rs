//! Calls for signals.

use super::Front;
use crate::programs::call::FrontCall;
use crate::programs::slots::{GateSlot, New};

impl Front<'_> {
    pub(super) fn signal(&mut self) -> FrontCall {
        if self.model.signals.is_empty() || self.chance(1, 5) {
            // No other call of the program uses numbers of conditional values.
            let (signal, context) = (GateSlot(self.generator.model.new_value()), self.context());
            self.model.signals.push((signal, context));
            return FrontCall::SignalCreate { signal: New(signal), context };
        }
        let (stream, context) = self.any_stream();
        let fitting: Vec<_> = self.model.signals.iter().copied().filter(|(_, of)| *of == context).collect();
        let any = self.generator.numbers.pick(&fitting).or_else(|| self.generator.numbers.pick(&self.model.signals));
        let signal = any.map_or(GateSlot(u16::MAX), |(signal, _)| signal);
        match self.below(12) {
            0..=7 => FrontCall::SignalWait { stream, signal, condition: self.below(3) as u8 },
            8 => FrontCall::SignalWrite { stream, signal },
            9 => FrontCall::SignalSet { signal },
            10 => {
                self.model.signals.retain(|(known, _)| *known != signal);
                FrontCall::SignalDrop { signal }
            }
            _ => FrontCall::StreamWait { stream, other: self.stream() },
        }
    }
}
