//! Programs of the safe API.

mod captures;
mod futures;
mod graphs;
mod memory;
mod model;
mod objects;
mod signals;
mod work;

use super::super::call::FrontCall;
use super::super::slots::{ContextSlot, Flags};
use super::Generator;
use model::FrontModel;

pub(super) fn fill(generator: &mut Generator) {
    let mut front = Front { generator, model: FrontModel::default() };
    front.set_up();
    let length = 70 + front.generator.numbers.below(50);
    while front.generator.calls.len() < length {
        let call = front.call();
        front.generator.push(call);
    }
}

/// A program of the safe API that is being made.
struct Front<'a> {
    generator: &'a mut Generator,
    model: FrontModel,
}

impl Front<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.generator.numbers.below(limit)
    }

    fn chance(&mut self, parts: usize, of: usize) -> bool {
        self.generator.numbers.chance(parts, of)
    }

    fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        self.generator.numbers.one_of(choices)
    }

    fn push(&mut self, call: FrontCall) {
        self.generator.push(call);
    }

    /// Makes streams, events and memory to begin with.
    fn set_up(&mut self) {
        self.model.counts_orders = self.chance(1, 2);
        let second = u16::from(!self.model.counts_orders);
        for number in 0..4 {
            let call = self.create_stream(ContextSlot(if number == 3 { second } else { 0 }));
            self.push(call);
        }
        for number in 0..3 {
            let context = ContextSlot(if number == 2 { second } else { 0 });
            let event = self.new_event(context);
            self.push(FrontCall::EventCreate { event, context, flags: Flags(0) });
        }
        for number in 0..6 {
            let (stream, _) = self.model.streams[if number < 4 { number % 3 } else { 3 }];
            self.model.focus = vec![stream];
            let call = self.allocate();
            self.push(call);
        }
        self.model.focus.clear();
        let context = ContextSlot(0);
        let call = FrontCall::GraphCreate { graph: self.new_graph(context, 0, true), context };
        self.push(call);
    }

    /// Any call.
    fn call(&mut self) -> FrontCall {
        match self.below(52) {
            0..=14 => self.work(),
            15 | 16 => self.host_access(),
            17..=19 => self.order(),
            20 | 21 => self.ask(),
            22 | 23 => self.wait(),
            24 | 25 => self.allocate(),
            26 => self.create(),
            27 => self.drop_something(),
            28 => self.settings(),
            29 => self.checked_launch(),
            30..=34 => self.capture(),
            35..=38 => self.future(),
            39..=41 => self.signal(),
            _ => self.graph(),
        }
    }

    /// Few calls that are made inside of another one.
    fn body(&mut self) -> Vec<FrontCall> {
        let count = self.below(4);
        (0..count).map(|_| self.simple()).collect()
    }

    /// A call without calls inside.
    fn simple(&mut self) -> FrontCall {
        match self.below(16) {
            0..=8 => self.work(),
            9..=10 => self.order(),
            11 => self.ask(),
            12 => self.wait(),
            13 => self.allocate(),
            14 => self.drop_something(),
            _ => self.launch_call(),
        }
    }

    /// A call that concerns a context.
    fn settings(&mut self) -> FrontCall {
        let context = self.context();
        match self.below(16) {
            0..=3 if self.model.counts_orders => FrontCall::StrictOrder { context, strict: self.chance(1, 3) },
            4..=11 if self.model.counts_orders => FrontCall::OrdersInserted { context },
            12 => {
                let kernel = self.one_of(["store", "mixed", "nothing", ""]);
                FrontCall::ModuleLoad { context, kernel }
            }
            _ => {
                let (mode, body) = (self.mode(), self.body());
                FrontCall::InMode { context, mode, body }
            }
        }
    }
}
