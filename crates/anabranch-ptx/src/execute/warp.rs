//! A warp: its lanes in parts that are at different places of the code.
//!
//! The part that is deepest in calls runs first, and of those the one at the lowest place, until it meets another part and
//! joins it. So parts meet again behind branches. A part that goes backwards often, while others could run, lets these run
//! first: it may wait for them.

use super::Launch;
use super::checker::Checker;
use super::frame::{Buffer, Frame};
use crate::fault::{Detail, FaultCode};
use crate::machine::{FULL, Failure, Lanes, Op, Plane, Step};
use crate::types::Space;

/// What a part of a warp does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Ready,
    /// It waits for other lanes at the same place.
    Gathering,
    /// In checked mode, it waits for the other lanes before a barrier that all of a warp come to together.
    Apart,
    /// It waits at a barrier.
    Barrier(u32),
}

/// Lanes that are at one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) mask: u32,
    pub(crate) place: u32,
    pub(crate) frame: u32,
    pub(crate) depth: u32,
    pub(crate) state: State,
    /// It has had its turn while others wait.
    pub(crate) spent: bool,
    /// Jumps back in this turn.
    pub(crate) turns: u32,
}

/// Why a warp stopped.
pub(crate) enum Stop {
    /// All its lanes have ended.
    Done,
    /// No part can go on.
    Blocked,
    /// A part has come to a barrier.
    Barrier { part: usize },
    /// Its operations are used up.
    Turn,
    /// It lets others go first.
    Yield,
    /// A part goes round a loop that looks at memory: it may wait for what others write.
    Look,
    /// A lane has failed, at this place of a function.
    Fault { failure: Box<Failure>, function: u32, place: u32 },
}

/// A warp of a block.
pub(crate) struct Warp {
    pub(crate) number: u32,
    /// The lanes that exist.
    pub(crate) all: u32,
    /// The lanes that have not ended.
    pub(crate) live: u32,
    pub(crate) parts: Vec<Part>,
    pub(crate) frames: Vec<Frame>,
    /// Frames that are not in use, to be used again.
    pub(crate) free: Vec<Frame>,
    pub(crate) frame_bytes: u64,
    pub(crate) local: Buffer,
    /// What is the same for all blocks has been computed.
    pub(crate) prepared: bool,
    /// It has looked at memory in front of a barrier, in a turn that goes on behind that.
    watches: bool,
    /// A part has ended its turn because it looks at memory.
    looked: bool,
    /// The lanes that have arrived at barriers without waiting there, before all others have, by the barriers' numbers.
    arrived: Vec<(u32, u32)>,
}

/// Jumps back that a part may make while others wait.
const LONG_TURN: u32 = 1 << 14;

/// The same for one that reads memory in a way that sees what others write: it may wait for them.
const SHORT_TURN: u32 = 32;

/// What a block tells its warps.
pub(crate) struct Surroundings<'b> {
    pub(crate) launch: &'b Launch<'b>,
    pub(crate) checker: Option<&'b Checker<'b>>,
}

/// The places in their block of the threads of a warp.
pub(crate) fn places(launch: &Launch<'_>, number: u32) -> [Plane; 3] {
    let [x, y, _] = launch.geometry.block;
    let first = number * 32;
    let mut threads = [Plane([0; 32]); 3];
    // Divisions for each lane would take most of the time of a small launch.
    let mut place = [first % x, first / x % y, first / x / y];
    for lane in 0..32 {
        for (plane, value) in threads.iter_mut().zip(place) {
            plane.0[lane] = value;
        }
        place[0] += 1;
        if place[0] == x {
            place = [0, place[1] + 1, place[2]];
            if place[1] == y {
                place = [0, 0, place[2] + 1];
            }
        }
    }
    threads
}

impl Warp {
    /// With a frame for the kernel. `None`: there is no memory.
    pub(crate) fn new(launch: &Launch<'_>, number: u32) -> Option<Warp> {
        let total: u32 = launch.geometry.block.iter().product();
        let left = total.saturating_sub(number * 32);
        let all = if left >= 32 { FULL } else { (1 << left) - 1 };
        let bytes = launch.program.function(launch.kernel).code.local_bytes as usize;
        let mut warp = Warp {
            number,
            all,
            live: 0,
            parts: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            frame_bytes: 0,
            local: Buffer::new(32 * bytes)?,
            prepared: false,
            watches: false,
            looked: false,
            arrived: Vec::new(),
        };
        let frame = warp.new_frame(launch, launch.kernel)?;
        warp.frames.push(frame);
        Some(warp)
    }

    /// The memory that it has.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.frame_bytes + self.local.bytes() as u64
    }

    /// How many threads of a count wait at a barrier: a warp whose lanes all wait counts as a whole one.
    pub(super) fn waiting_at(&self, barrier: u32) -> u32 {
        let waiting = self.parts.iter().filter(|part| part.state == State::Barrier(barrier));
        let lanes = waiting.fold(0, |lanes, part| lanes | part.mask);
        if lanes != 0 && lanes == self.live { 32 } else { lanes.count_ones() }
    }

    /// Lanes arrive at a barrier with a count, and do not wait. Returns how many threads that counts for.
    pub(super) fn arrive(&mut self, barrier: u32, lanes: u32) -> u32 {
        match self.arrived.iter_mut().find(|arrived| arrived.0 == barrier) {
            Some(arrived) => arrived.1 |= lanes,
            None if lanes == self.live => return 32,
            None => self.arrived.push((barrier, lanes)),
        }
        self.arrivals(barrier)
    }

    /// How many threads arrivals count for that are complete now: a warp counts as a whole one once all its lanes have arrived that
    /// have not ended.
    pub(super) fn arrivals(&mut self, barrier: u32) -> u32 {
        let live = self.live;
        let is_complete = |&mut (number, lanes): &mut (u32, u32)| number == barrier && live & !lanes == 0;
        self.arrived.extract_if(.., is_complete).map(|_| 32).sum()
    }

    /// Begins the kernel.
    pub(crate) fn start(&mut self) {
        // The frame of the kernel stays where it is.
        self.free.extend(self.frames.drain(1..));
        self.frames[0].lanes = self.all;
        self.live = self.all;
        self.watches = false;
        self.arrived.clear();
        self.parts.clear();
        self.parts.push(Part {
            mask: self.all,
            place: 0,
            frame: 0,
            depth: 0,
            state: State::Ready,
            spent: false,
            turns: 0,
        });
    }

    /// The bytes of local memory of each lane.
    pub(crate) fn local_bytes(&self) -> u64 {
        (self.local.bytes() / 32) as u64
    }

    /// The part that runs next.
    fn choose(&mut self, rotated: &mut bool) -> Option<usize> {
        let best = |parts: &[Part], spent: bool| {
            let ready = parts.iter().enumerate().filter(|(_, part)| part.state == State::Ready && part.spent == spent);
            ready.min_by_key(|(_, part)| (u32::MAX - part.depth, part.place)).map(|(index, _)| index)
        };
        if let [part] = &*self.parts {
            return (part.state == State::Ready).then_some(0);
        }
        if let Some(found) = best(&self.parts, false) {
            return Some(found);
        }
        let found = best(&self.parts, true);
        for part in &mut self.parts {
            part.spent = false;
        }
        *rotated = found.is_some();
        found
    }

    /// Joins parts that are at one place.
    pub(crate) fn join(&mut self) {
        if let [part] = &mut *self.parts {
            part.spent = false;
            return;
        }
        let mut index = 0;
        while index < self.parts.len() {
            let part = self.parts[index];
            let other = self.parts[..index].iter().position(|other| {
                other.frame == part.frame
                    && other.place == part.place
                    && !matches!(other.state, State::Barrier(_))
                    && !matches!(part.state, State::Barrier(_))
            });
            match other {
                Some(other) => {
                    let other = &mut self.parts[other];
                    other.mask |= part.mask;
                    other.state = State::Ready;
                    other.spent |= part.spent;
                    self.parts.swap_remove(index);
                }
                None => index += 1,
            }
        }
        if let [part] = &mut *self.parts {
            part.spent = false;
        }
    }

    /// Runs until something happens that the block has to know, or `budget` operations have been performed. `lanes` has what
    /// all warps of the block have in common.
    pub(crate) fn run(&mut self, around: &Surroundings<'_>, lanes: &mut Lanes<'_>, budget: &mut u64) -> Stop {
        lanes.warp = self.number;
        lanes.local = self.local_arena();
        lanes.watches = std::mem::take(&mut self.watches);
        self.looked = false;
        if !self.prepared {
            self.prepare(around.launch, lanes);
        }
        loop {
            if *budget == 0 {
                break Stop::Turn;
            }
            let mut rotated = false;
            let Some(index) = self.choose(&mut rotated) else {
                break if self.parts.is_empty() { Stop::Done } else { Stop::Blocked };
            };
            if rotated {
                // Each part has had its turn, and now another warp may.
                break if self.looked { Stop::Look } else { Stop::Turn };
            }
            let stop = match around.checker {
                None => self.run_part(index, around, lanes, |_, _| {}, budget),
                Some(checker) => {
                    self.run_part(index, around, lanes, |function, place| checker.place.set((function, place)), budget)
                }
            };
            if let Some(stop) = stop {
                break stop;
            }
        }
    }

    /// Computes what is the same for all blocks, in the frame of the kernel, which is used for all of them.
    fn prepare(&mut self, launch: &Launch<'_>, lanes: &mut Lanes<'_>) {
        self.prepared = true;
        let Some(frame) = self.frames.first() else { return };
        self.use_frame(frame, FULL, lanes);
        for op in &launch.program.functions[launch.kernel as usize].prologue {
            // SAFETY: the operations are those of the kernel, whose frame this is.
            unsafe { (op.run)(lanes, op) };
        }
    }

    /// Lets operations run in a frame. Until then the lanes are in one of another warp.
    pub(super) fn use_frame(&self, frame: &Frame, mask: u32, lanes: &mut Lanes<'_>) {
        lanes.registers = frame.registers.pointer();
        lanes.frame_local = frame.local;
        lanes.mask = mask;
        lanes.live = self.live;
    }

    pub(crate) fn local_arena(&self) -> crate::machine::Arena {
        crate::machine::Arena { start: self.local.address(), bytes: self.local_bytes() }
    }

    /// Runs one part until it meets another, stops, or changes the parts. `see` is told each operation before it is performed.
    fn run_part(
        &mut self,
        index: usize,
        around: &Surroundings<'_>,
        lanes: &mut Lanes<'_>,
        see: impl Fn(u32, u32),
        budget: &mut u64,
    ) -> Option<Stop> {
        let launch = around.launch;
        let part = self.parts[index];
        let frame = &self.frames[part.frame as usize];
        let function = frame.function;
        let ops = &*launch.program.functions[function as usize].ops;
        self.use_frame(frame, part.mask, lanes);
        let alone = self.parts.len() == 1;
        let mut limit = if alone { u32::MAX } else { self.next_meeting(index, part.place).unwrap_or(u32::MAX) };
        let mut place = part.place;
        let mut start = place;
        let mut step;
        loop {
            if place == limit {
                self.parts[index].place = place;
                *budget = budget.saturating_sub(u64::from(place - start));
                self.join();
                return None;
            }
            see(function, place);
            debug_assert!((place as usize) < ops.len());
            // SAFETY: places are those of labels, and of what follows an operation; both were checked with the function: jumps
            // go to operations, and the last one never goes on.
            let op = unsafe { ops.get_unchecked(place as usize) };
            // SAFETY: the operation is one of the function of this frame, whose registers it refers to.
            step = unsafe { (op.run)(lanes, op) };
            match step {
                Step::Next => place += 1,
                Step::Jump => {
                    let done = u64::from(place - start) + 1;
                    *budget = budget.saturating_sub(done);
                    let back = op.target <= place;
                    place = op.target;
                    start = place;
                    if *budget == 0 {
                        self.parts[index].place = place;
                        self.join();
                        return Some(Stop::Turn);
                    }
                    if back && (!alone || lanes.watches) && self.turn_ends(index, lanes) {
                        self.parts[index].place = place;
                        self.join();
                        return if alone { Some(Stop::Look) } else { None };
                    }
                    if !alone {
                        match self.next_meeting(index, place) {
                            Some(next) => limit = next,
                            None => {
                                self.parts[index].place = place;
                                self.join();
                                return None;
                            }
                        }
                    }
                }
                _ => break,
            }
        }
        *budget = budget.saturating_sub(u64::from(place - start) + 1);
        if step == Step::Exit && alone && lanes.taken == part.mask {
            // Mostly a warp ends as a whole.
            self.live = 0;
            self.parts.clear();
            return Some(Stop::Done);
        }
        self.parts[index].place = place;
        self.event(index, (step, &ops[place as usize]), around, lanes)
    }

    /// The next place where others of the same frame are, who can be joined, or none if some are here or before.
    fn next_meeting(&self, index: usize, place: u32) -> Option<u32> {
        let frame = self.parts[index].frame;
        let mut next = u32::MAX;
        for (other, at) in self.parts.iter().enumerate() {
            if other == index || at.frame != frame || matches!(at.state, State::Barrier(_)) {
                continue;
            }
            if at.place > place {
                next = next.min(at.place);
            } else if at.state == State::Ready || at.place == place {
                return None;
            }
        }
        Some(next)
    }

    /// Counts a jump back. Whether others should run first now.
    pub(super) fn turn_ends(&mut self, index: usize, lanes: &mut Lanes<'_>) -> bool {
        let others = self.parts.len() > 1;
        let part = &mut self.parts[index];
        part.turns += 1;
        if part.turns < if lanes.watches { SHORT_TURN } else { LONG_TURN } {
            return false;
        }
        part.turns = 0;
        part.spent = others;
        self.looked |= std::mem::take(&mut lanes.watches);
        true
    }

    /// What happens after an operation that is neither followed by the next one nor a jump of all lanes.
    fn event(
        &mut self,
        index: usize,
        (step, op): (Step, &Op),
        around: &Surroundings<'_>,
        lanes: &mut Lanes<'_>,
    ) -> Option<Stop> {
        let part = self.parts[index];
        let function = self.frames[part.frame as usize].function;
        let fault = |failure| Some(Stop::Fault { failure, function, place: part.place });
        match step {
            Step::Next | Step::Jump => {}
            Step::Diverge => {
                self.parts[index].mask &= !lanes.taken;
                self.parts[index].place += 1;
                self.parts.push(Part { mask: lanes.taken, place: op.target, ..part });
                if op.target <= part.place {
                    let last = self.parts.len() - 1;
                    self.turn_ends(last, lanes);
                }
                self.join();
            }
            Step::Call => {
                if let Err(failure) = self.call(index, lanes, op, around) {
                    return fault(failure);
                }
            }
            Step::CallIndirect => match self.call_indirect(index, lanes, op, around) {
                Ok(true) => return Some(Stop::Look),
                Ok(false) => {}
                Err(failure) => return fault(failure),
            },
            Step::Return => self.leave(index, lanes.taken, around),
            Step::Exit => self.exit(index, lanes.taken),
            Step::Barrier => {
                self.watches = lanes.watches;
                return Some(Stop::Barrier { part: index });
            }
            Step::Gather => {
                if let Err(failure) = self.gather(index, around.launch, lanes) {
                    return fault(failure);
                }
            }
            Step::Yield => {
                self.parts[index].place += 1;
                self.parts[index].spent = self.parts.len() > 1;
                self.join();
                return Some(Stop::Yield);
            }
            Step::Fault => {
                let failure = lanes.failure.take();
                return fault(failure.unwrap_or_else(|| failure_of(FaultCode::LAUNCH_FAILED, Detail::Trap, 0)));
            }
        }
        None
    }

    /// Ends lanes.
    fn exit(&mut self, index: usize, ended: u32) {
        self.live &= !ended;
        let mut frame = Some(self.parts[index].frame);
        while let Some(number) = frame {
            let at = &mut self.frames[number as usize];
            at.lanes &= !ended;
            frame = at.parent.map(|(parent, _)| parent);
        }
        self.parts[index].mask &= !ended;
        self.parts[index].place += 1;
        if self.live == 0 {
            return self.parts.clear();
        }
        if self.parts[index].mask == 0 {
            self.parts.swap_remove(index);
        }
        // Those who wait for lanes wait for fewer now.
        for part in &mut self.parts {
            if matches!(part.state, State::Gathering | State::Apart) {
                part.state = State::Ready;
            }
        }
        if !self.parts.is_empty() {
            self.join();
        }
    }
}

/// What a failure is that the interpreter itself finds.
pub(crate) fn failure_of(code: FaultCode, detail: Detail, lane: u32) -> Box<Failure> {
    Box::new(Failure { code, detail, lane, address: None, bytes: 0, space: Space::Generic })
}
