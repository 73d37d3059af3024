//! Calls of functions.

use super::Launch;
use super::frame::{Buffer, Frame};
use super::provided;
use super::warp::{Part, State, Surroundings, Warp, failure_of};
use crate::fault::{Detail, FaultCode};
use crate::lower::{Place, Site};
use crate::machine::{Failure, Lanes, Op};
use crate::program::function_of;

/// The most bytes of registers that the frames of a warp may have together.
const FRAMES_LIMIT: u64 = 1 << 26;

impl Warp {
    /// A frame of a function, used before if there is one. `None`: there is no memory.
    pub(crate) fn new_frame(&mut self, launch: &Launch<'_>, function: u32) -> Option<Frame> {
        if let Some(index) = self.free.iter().position(|frame| frame.function == function) {
            return Some(self.free.swap_remove(index));
        }
        let bytes = launch.program.function(function).code.frame_bytes;
        let frame = Frame::new(function, bytes, &launch.program.functions[function as usize])?;
        self.frame_bytes += u64::from(bytes);
        Some(frame)
    }

    fn site<'l>(&self, index: usize, op: &Op, launch: &Launch<'l>) -> &'l Site {
        let function = self.frames[self.parts[index].frame as usize].function;
        &launch.program.function(function).code.sites[op.target as usize]
    }

    /// `call` of a function that is known.
    pub(super) fn call(
        &mut self,
        index: usize,
        lanes: &mut Lanes<'_>,
        op: &Op,
        around: &Surroundings<'_>,
    ) -> Result<(), Box<Failure>> {
        let site = self.site(index, op, around.launch);
        let function = site.function.unwrap_or(u32::MAX);
        self.enter(index, lanes, function, site, op.target, around)
    }

    /// `call` of addresses, and `brx.idx`: the lanes that go where the first one goes. The others come back here. `true`: the warp is
    /// together, and has looked at memory long enough for others to run first now.
    pub(super) fn call_indirect(
        &mut self,
        index: usize,
        lanes: &mut Lanes<'_>,
        op: &Op,
        around: &Surroundings<'_>,
    ) -> Result<bool, Box<Failure>> {
        let site = self.site(index, op, around.launch);
        let first = lanes.taken.trailing_zeros() & 31;
        let chosen = lanes.addresses.0[first as usize];
        let same = (0..32).filter(|lane| lanes.taken >> lane & 1 != 0 && lanes.addresses.0[*lane] == chosen);
        let same = same.fold(0u32, |mask, lane| mask | 1 << lane);
        let part = self.parts[index];
        let others = lanes.taken & !same;
        // Lanes whose guard does not hold go on at once; the others come to this place again.
        let skipping = part.mask & !lanes.taken;
        if skipping != 0 {
            self.parts.push(Part { mask: skipping, place: part.place + 1, ..part });
        }
        if others != 0 {
            self.parts.push(Part { mask: others, ..part });
        }
        self.parts[index].mask = same;
        lanes.taken = same;
        lanes.mask = same;
        if let Some(table) = site.table {
            let function = self.frames[part.frame as usize].function;
            let targets = &around.launch.program.function(function).code.tables[table as usize];
            let Some(target) = targets.get(chosen as usize) else {
                let detail = Detail::BadBranch { number: chosen as u32, targets: targets.len() as u32 };
                return Err(failure_of(FaultCode::INVALID_PC, detail, first));
            };
            self.parts[index].place = *target;
            let alone = self.parts.len() == 1;
            let turn_ends = *target <= part.place && (!alone || lanes.watches) && self.turn_ends(index, lanes);
            self.join();
            return Ok(turn_ends && alone);
        }
        let Some(function) = function_of(chosen) else {
            return Err(failure_of(FaultCode::INVALID_PC, Detail::BadCall, first));
        };
        self.enter(index, lanes, function, site, op.target, around).map(|()| false)
    }

    /// Begins a function for the lanes of `taken`.
    fn enter(
        &mut self,
        index: usize,
        lanes: &mut Lanes<'_>,
        function: u32,
        site: &Site,
        number: u32,
        around: &Surroundings<'_>,
    ) -> Result<(), Box<Failure>> {
        let launch = around.launch;
        let first = lanes.taken.trailing_zeros() & 31;
        let bad = || failure_of(FaultCode::INVALID_PC, Detail::BadCall, first);
        let no_memory = || failure_of(FaultCode::LAUNCH_FAILED, Detail::OutOfMemory, first);
        if function as usize >= launch.program.functions.len() {
            return Err(bad());
        }
        let callee = launch.program.function(function);
        let part = self.parts[index];
        let caller = &self.frames[part.frame as usize];
        let caller_local = caller.local;
        if !callee.defined {
            let skipping = part.mask & !lanes.taken;
            lanes.mask = lanes.taken;
            let mut call = provided::Builtin { lanes, local: self.local_arena(), frame: caller_local, site };
            call.perform(&callee.name, launch)?;
            if let (Some(checker), Some(place)) = (around.checker, site.results.first()) {
                let start = caller_local + u64::from(place.offset);
                checker.note_local(self.number, lanes.taken, start, place.bytes).ok_or_else(no_memory)?;
            }
            let _ = skipping;
            self.parts[index].place += 1;
            return Ok(());
        }
        let fits = |actual: &[Place], formal: &[Place]| {
            actual.len() == formal.len() && actual.iter().zip(formal).all(|(a, b)| a.bytes == b.bytes)
        };
        if callee.kernel
            || !callee.code.refusals.is_empty()
            || !fits(&site.arguments, &callee.code.formals)
            || !fits(&site.results, &callee.code.results)
        {
            return Err(bad());
        }
        let depth = caller.depth + 1;
        let caller_bytes = launch.program.function(caller.function).code.local_bytes;
        let end = caller_local + u64::from(caller_bytes);
        let local = end.next_multiple_of(callee.code.local_alignment.max(16).into());
        let needed = local + u64::from(callee.code.local_bytes);
        let too_deep = depth > launch.options.call_depth
            || needed > launch.options.stack_bytes.into()
            || self.frame_bytes + u64::from(callee.code.frame_bytes) > FRAMES_LIMIT;
        if too_deep {
            return Err(failure_of(FaultCode::HARDWARE_STACK_ERROR, Detail::CallDepth, first));
        }
        self.grow_local(needed).ok_or_else(no_memory)?;
        lanes.local = self.local_arena();
        if let Some(checker) = around.checker {
            let bytes = callee.code.local_bytes.into();
            let forgotten = checker.forget_local(self.number, lanes.taken, local, bytes, self.local_bytes());
            forgotten.ok_or_else(no_memory)?;
        }
        for (from, to) in site.arguments.iter().zip(&callee.code.formals) {
            self.copy(lanes.taken, caller_local + u64::from(from.offset), local + u64::from(to.offset), to.bytes);
            if let Some(checker) = around.checker {
                let start = local + u64::from(to.offset);
                checker.note_local(self.number, lanes.taken, start, to.bytes).ok_or_else(no_memory)?;
            }
        }
        let mut frame = self.new_frame(launch, function).ok_or_else(no_memory)?;
        frame.parent = Some((part.frame, part.place + 1));
        frame.site = number;
        frame.lanes = lanes.taken;
        frame.local = local;
        frame.depth = depth;
        // A place among the frames that no part refers to any more, or a new one.
        let place = self.frames.iter().position(|frame| frame.lanes == 0 && frame.depth != 0);
        let place = match place {
            Some(place) => {
                let old = std::mem::replace(&mut self.frames[place], frame);
                self.free.push(old);
                place
            }
            None => {
                self.frames.push(frame);
                self.frames.len() - 1
            }
        };
        let skipping = part.mask & !lanes.taken;
        if skipping != 0 {
            self.parts.push(Part { mask: skipping, place: part.place + 1, ..part });
        }
        let turns = part.turns;
        self.parts[index] = Part {
            mask: lanes.taken,
            place: 0,
            frame: place as u32,
            depth,
            state: State::Ready,
            spent: part.spent,
            turns,
        };
        Ok(())
    }

    /// `ret`: back to the callers, with the results.
    pub(super) fn leave(&mut self, index: usize, lanes: u32, around: &Surroundings<'_>) {
        let launch = around.launch;
        let part = self.parts[index];
        let frame = &mut self.frames[part.frame as usize];
        frame.lanes &= !lanes;
        let Some((parent, place)) = frame.parent else { return };
        let (function, site, local) = (frame.function, frame.site, frame.local);
        let caller = &self.frames[parent as usize];
        let (caller_local, depth) = (caller.local, caller.depth);
        let site = &launch.program.function(caller.function).code.sites[site as usize];
        for (from, to) in launch.program.function(function).code.results.iter().zip(&site.results) {
            self.copy(lanes, local + u64::from(from.offset), caller_local + u64::from(to.offset), to.bytes);
            if let Some(checker) = around.checker {
                // Without memory for that, reading the result is taken for reading what was never written.
                let _ = checker.note_local(self.number, lanes, caller_local + u64::from(to.offset), to.bytes);
            }
        }
        self.parts[index].mask &= !lanes;
        self.parts[index].place += 1;
        let back = Part { mask: lanes, place, frame: parent, depth, ..part };
        if self.parts[index].mask == 0 {
            self.parts[index] = back;
        } else {
            self.parts.push(back);
        }
        self.join();
    }

    /// Copies bytes of local memory of some lanes.
    fn copy(&mut self, mask: u32, from: u64, to: u64, bytes: u32) {
        let stride = self.local_bytes();
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            let base = stride * lane;
            self.local.copy_within((base + from) as usize, (base + to) as usize, bytes as usize);
        }
    }

    /// Makes local memory larger, at least twice as large. `None`: there is no memory.
    fn grow_local(&mut self, needed: u64) -> Option<()> {
        let old = self.local_bytes();
        if needed <= old {
            return Some(());
        }
        let bytes = needed.max(2 * old).next_multiple_of(64);
        let larger = Buffer::new(32 * bytes as usize)?;
        for lane in 0..32u64 {
            // SAFETY: both buffers have these bytes of each lane, and the new one is used by nothing else.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.local.pointer().add((lane * old) as usize),
                    larger.pointer().add((lane * bytes) as usize),
                    old as usize,
                );
            }
        }
        self.local = larger;
        Some(())
    }
}
