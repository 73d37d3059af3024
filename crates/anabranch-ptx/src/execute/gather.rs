//! Lanes that wait for others at an operation which they perform together.
//!
//! Lanes of one part perform it at once. Those that have called a function at different places have frames of their own, and are
//! parts that never join in it: a frame is lent to the operation, which has the operands of them all.

use super::Launch;
use super::frame::Frame;
use super::warp::{Part, State, Warp, failure_of};
use crate::fault::{Detail, FaultCode};
use crate::lower::operands;
use crate::machine::{Failure, Lanes, Slot, Step, Use, Width};
use crate::ops::control::NO_GUARD;

impl Warp {
    /// Lets the lanes of a part wait at its operation, which has been performed for those of `taken`; and those go on who
    /// are complete with them.
    pub(super) fn gather(
        &mut self,
        index: usize,
        launch: &Launch<'_>,
        lanes: &mut Lanes<'_>,
    ) -> Result<(), Box<Failure>> {
        let part = self.parts[index];
        let function = self.frames[part.frame as usize].function;
        self.parts[index].state = State::Gathering;
        let gone = lanes.taken & part.mask;
        self.go_on(index, gone);
        if gone != 0 {
            self.join();
        }
        self.perform_together(function, part.place, launch, lanes)?;
        self.meet(launch);
        Ok(())
    }

    /// Lets lanes of a part go on behind its operation, while the others wait there.
    fn go_on(&mut self, index: usize, gone: u32) {
        let part = &mut self.parts[index];
        let next = Part { mask: gone, place: part.place + 1, state: State::Ready, ..*part };
        part.mask &= !gone;
        match (gone, part.mask) {
            (0, _) => {}
            (_, 0) => *part = next,
            _ => self.parts.push(next),
        }
    }

    /// The same for lanes of all parts.
    fn all_go_on(&mut self, gone: u32) {
        if gone != 0 {
            for index in 0..self.parts.len() {
                if self.parts[index].state == State::Gathering {
                    self.go_on(index, self.parts[index].mask & gone);
                }
            }
            self.join();
        }
    }

    /// Performs an operation for the lanes that wait at it in different calls of its function.
    fn perform_together(
        &mut self,
        function: u32,
        place: u32,
        launch: &Launch<'_>,
        lanes: &mut Lanes<'_>,
    ) -> Result<(), Box<Failure>> {
        let waits = |part: &&Part| {
            part.state == State::Gathering
                && part.place == place
                && self.frames[part.frame as usize].function == function
        };
        let parts: Vec<Part> = self.parts.iter().filter(waits).copied().collect();
        let all = parts.iter().fold(0, |all, part| all | part.mask);
        if parts.len() < 2 {
            return Ok(());
        }
        let no_memory = || failure_of(FaultCode::LAUNCH_FAILED, Detail::OutOfMemory, all.trailing_zeros() & 31);
        let lent = self.new_frame(launch, function).ok_or_else(no_memory)?;
        let spec = &launch.program.function(function).code.specs.specs()[place as usize];
        let guard = (spec.guard, if spec.guard == NO_GUARD { Use::No } else { Use::Read(Width::Predicate) });
        let used = || operands(spec).into_iter().chain([guard]);
        for part in &parts {
            let own = &self.frames[part.frame as usize];
            // What is written only is copied, too: a lane whose guard does not hold keeps what it has.
            used().for_each(|(slot, used)| match used {
                Use::No => {}
                Use::Read(width) | Use::Write(width) | Use::Change(width) => {
                    copy_lanes(own, &lent, (slot, width), part.mask);
                }
            });
        }
        self.use_frame(&lent, all, lanes);
        let op = &launch.program.functions[function as usize].ops[place as usize];
        // SAFETY: the operation is one of the function whose frame this is.
        let step = unsafe { (op.run)(lanes, op) };
        let done = match step {
            Step::Next => all,
            Step::Gather => lanes.taken & all,
            _ => 0,
        };
        for part in &parts {
            let own = &self.frames[part.frame as usize];
            used().for_each(|(slot, used)| match used {
                Use::No | Use::Read(_) => {}
                Use::Write(width) | Use::Change(width) => copy_lanes(&lent, own, (slot, width), part.mask & done),
            });
        }
        self.free.push(lent);
        self.all_go_on(done);
        Ok(())
    }

    /// Lanes that wait in `bar.warp.sync` at different places have met when all that their mask names are there, with the same mask.
    fn meet(&mut self, launch: &Launch<'_>) {
        // The masks of the lanes that wait there.
        let (mut named, mut waiting) = ([0u32; 32], 0);
        for part in self.parts.iter().filter(|part| part.state == State::Gathering) {
            let frame = &self.frames[part.frame as usize];
            let op = &launch.program.functions[frame.function as usize].ops[part.place as usize];
            if op.flags != crate::ops::warp::MEET {
                continue;
            }
            waiting |= part.mask;
            // SAFETY: `e` of this operation is a plane of 32 bits of its function's frames, which nothing writes now.
            let masks = unsafe { frame.registers.pointer().add(op.e.0 as usize).cast::<[u32; 32]>().read() };
            for lane in (0..32).filter(|lane| part.mask >> lane & 1 != 0) {
                named[lane] = masks[lane];
            }
        }
        let (mut left, mut met) = (waiting, 0);
        while left != 0 {
            let mask = named[(left.trailing_zeros() & 31) as usize];
            let group = (0..32).filter(|&lane| named[lane] == mask).fold(0, |lanes, lane| lanes | 1 << lane) & left;
            left &= !group;
            if mask & self.live & !group == 0 {
                met |= group;
            }
        }
        self.all_go_on(met);
    }
}

/// Copies what lanes have in a slot from one frame of a function to another.
fn copy_lanes(from: &Frame, to: &Frame, (slot, width): (Slot, Width), mask: u32) {
    let start = slot.0 as usize;
    let end = start + width.slot_bytes() as usize;
    assert!(end <= from.registers.bytes() && end <= to.registers.bytes(), "a slot outside of its frame");
    let bytes = width.bytes() as usize;
    // SAFETY: the slot lies within both frames, and no reference to what is in them exists. Its size and place are multiples of 4.
    unsafe {
        let (from, to) = (from.registers.pointer().add(start), to.registers.pointer().add(start));
        if width == Width::Predicate {
            let (from, to) = (from.cast::<u32>(), to.cast::<u32>());
            to.write(to.read() & !mask | from.read() & mask);
            return;
        }
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            std::ptr::copy_nonoverlapping(from.add(lane * bytes), to.add(lane * bytes), bytes);
        }
    }
}
