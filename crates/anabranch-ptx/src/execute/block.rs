//! A block: its warps, its shared memory and its barriers.

use super::Launch;
use super::barrier::{self, Barrier};
use super::checker::Checker;
use super::frame::Buffer;
use super::warp::{State, Stop, Surroundings, Warp, places};
use crate::fault::{Detail, Fault, FaultCode};
use crate::machine::{Arena, Failure, Lanes, Observer, Op, Plane, Regions, Scratch, Wide};
use crate::ops::control;
use crate::types::Space;

/// Operations that a warp performs before the next one has its turn.
const WARP_TURN: u64 = 1 << 14;

/// When warps only meet at barriers and look at memory for so many operations, the block may wait for another one, and lets others go
/// first.
const LOOKING: u64 = 1 << 13;

/// How far a block has come.
#[derive(Debug)]
pub enum Progress {
    /// All its threads have ended.
    Done,
    /// The number of operations has been performed, or all threads let others go first.
    Yielded,
    /// The kernel has failed. The block does not go on.
    Fault(Box<Fault>),
}

/// Runs blocks of a launch, one after another, on the thread that has it.
pub struct BlockRun<'l> {
    block: Block<'l>,
    /// Where the threads of each warp are.
    threads: Vec<[Plane; 3]>,
    shared: Buffer,
    scratch: Box<Scratch>,
    checker: Option<Checker<'l>>,
}

/// The warps of a block, and what they wait for.
struct Block<'l> {
    launch: &'l Launch<'l>,
    warps: Vec<Warp>,
    barriers: [Barrier; barrier::COUNT],
    /// A bit for each barrier that threads wait at.
    waiting: u32,
    index: [u32; 3],
    /// The warp that is next.
    next: usize,
    /// Operations until the one after it has its turn. It goes on with them behind barriers, which may be of its threads only.
    turn: u64,
    performed: u64,
    /// Nothing is left to run: the block has not begun, has ended or has failed.
    ended: bool,
    /// There was no memory for the warps.
    lacks_memory: bool,
}

// SAFETY: the pointers within are to memory that the run owns, and to regions that any thread may access, as `GlobalMemory`
// promises.
unsafe impl Send for BlockRun<'_> {}

impl std::fmt::Debug for BlockRun<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BlockRun").field("block", &self.block.index).finish_non_exhaustive()
    }
}

impl<'l> BlockRun<'l> {
    /// Memory for one block. If there is none, each block that is run fails with [`Detail::OutOfMemory`].
    pub fn new(launch: &'l Launch<'l>) -> BlockRun<'l> {
        let threads: u32 = launch.geometry.block.iter().product();
        let warps: Option<Vec<_>> = (0..threads.div_ceil(32)).map(|number| Warp::new(launch, number)).collect();
        let memory = warps.zip(Buffer::new(launch.geometry.total_shared as usize));
        let lacks_memory = memory.is_none();
        let (warps, shared) = memory.unwrap_or_default();
        BlockRun {
            block: Block {
                launch,
                warps,
                lacks_memory,
                barriers: Default::default(),
                waiting: 0,
                index: [0; 3],
                next: 0,
                turn: WARP_TURN,
                performed: 0,
                ended: true,
            },
            threads: (0..threads.div_ceil(32)).map(|number| places(launch, number)).collect(),
            shared,
            scratch: Box::new(Scratch { addresses: Wide([0; 32]), regions: Regions::EMPTY }),
            checker: None,
        }
    }

    /// Begins a block of the grid, and forgets the one before.
    pub fn start(&mut self, block: u64) {
        let launch = self.block.launch;
        let index = launch.block_index(block);
        self.block.start(index);
        self.shared.clear();
        self.checker = launch.options.checked.then(|| Checker::new(launch, index));
    }

    /// The memory that it takes up, in bytes: registers, local memory and shared memory.
    pub fn memory_bytes(&self) -> u64 {
        self.block.warps.iter().map(Warp::memory_bytes).sum::<u64>() + self.shared.bytes() as u64
    }

    /// Operations that the block has performed, of one warp each.
    pub fn performed(&self) -> u64 {
        self.block.performed
    }

    /// Runs about this many operations of the block, of one warp each. A block that has not been started is done.
    pub fn step(&mut self, operations: u64) -> Progress {
        if self.block.ended {
            return Progress::Done;
        }
        let launch = self.block.launch;
        if self.block.lacks_memory {
            let failure = super::warp::failure_of(FaultCode::LAUNCH_FAILED, Detail::OutOfMemory, 0);
            return self.block.fail(0, *failure, launch.kernel, 0);
        }
        let around = Surroundings { launch, checker: self.checker.as_ref() };
        // What differs from warp to warp is what they fill in.
        let mut lanes = Lanes {
            registers: std::ptr::null_mut(),
            mask: 0,
            taken: 0,
            live: 0,
            warp: 0,
            addresses: &mut self.scratch.addresses,
            threads: NOWHERE,
            block_index: self.block.index,
            geometry: &launch.geometry,
            memory: launch.memory,
            direct: launch.direct,
            regions: &mut self.scratch.regions,
            shared: Arena { start: self.shared.address(), bytes: launch.geometry.total_shared.into() },
            local: Arena { start: 0, bytes: 0 },
            frame_local: 0,
            parameters: Arena {
                start: launch.parameters.as_ptr().expose_provenance() as u64,
                bytes: launch.parameter_bytes,
            },
            constants: &launch.program.constants,
            observer: around.checker.map(|checker| checker as &dyn Observer),
            locate: launch.program.locate,
            watches: false,
            failure: None,
        };
        self.block.run(&around, &mut lanes, &self.threads, operations)
    }
}

/// The places of no warp.
const NOWHERE: &[Plane; 3] = &[Plane([0; 32]); 3];

impl Block<'_> {
    fn start(&mut self, index: [u32; 3]) {
        self.index = index;
        for warp in &mut self.warps {
            warp.start();
        }
        if self.waiting != 0 {
            self.barriers = Default::default();
            self.waiting = 0;
        }
        self.next = 0;
        self.turn = WARP_TURN;
        self.performed = 0;
        self.ended = false;
    }

    fn run<'b>(
        &mut self,
        around: &Surroundings<'_>,
        lanes: &mut Lanes<'b>,
        threads: &'b [[Plane; 3]],
        operations: u64,
    ) -> Progress {
        let mut left = operations;
        let mut yields = 0;
        let mut looking = 0;
        loop {
            let Some(index) = self.runnable() else {
                self.ended = true;
                if self.warps.iter().all(|warp| warp.live == 0) {
                    return Progress::Done;
                }
                return self.stuck();
            };
            if left == 0 {
                return Progress::Yielded;
            }
            let mut budget = self.turn.min(left);
            if let Some(limit) = self.launch.options.operation_limit {
                budget = budget.min(limit.saturating_sub(self.performed).max(1));
            }
            let before = budget;
            lanes.threads = &threads[index];
            let stop = self.warps[index].run(around, lanes, &mut budget);
            let performed = before - budget;
            self.performed += performed;
            left = left.saturating_sub(performed);
            self.turn = self.turn.saturating_sub(performed);
            self.next = index + 1;
            let (mut yielded, mut looked) = (false, false);
            looking += performed;
            match stop {
                // Mostly no barrier waits for this warp.
                Stop::Done | Stop::Blocked if self.waiting != 0 => self.release(),
                Stop::Done | Stop::Blocked => {}
                Stop::Turn if performed >= WARP_TURN / 2 => looking = 0,
                Stop::Turn => {}
                Stop::Yield => yielded = true,
                Stop::Look => looked = true,
                Stop::Barrier { part } => {
                    if let Err(failure) = self.arrive(index, part) {
                        return self.fail(index, *failure.0, failure.1, failure.2);
                    }
                    // The warp goes on if it can, so that its memory is still near.
                    if self.turn != 0 {
                        self.next = index;
                    }
                    self.release();
                }
                Stop::Fault { failure, function, place } => return self.fail(index, *failure, function, place),
            }
            if self.next != index {
                self.turn = WARP_TURN;
            }
            if self.launch.options.operation_limit.is_some_and(|limit| self.performed >= limit) && self.runs() {
                let failure = super::warp::failure_of(FaultCode::LAUNCH_TIMEOUT, Detail::Watchdog, 0);
                let (function, place, lane) = self.somewhere(index);
                return self.fail(index, Failure { lane, ..*failure }, function, place);
            }
            // A warp that has done nothing has only begun another round of its parts.
            yields = if yielded { yields + 1 } else { yields * usize::from(performed == 0) };
            if yields > self.warps.len() || (looked && looking >= LOOKING) {
                return Progress::Yielded;
            }
        }
    }

    fn runs(&self) -> bool {
        self.warps.iter().any(|warp| warp.live != 0)
    }

    /// A warp that can go on.
    fn runnable(&self) -> Option<usize> {
        let count = self.warps.len();
        let ready = |warp: &Warp| match &*warp.parts {
            [part] => part.state == State::Ready,
            parts => parts.iter().any(|part| part.state == State::Ready),
        };
        let next = if self.next < count { self.next } else { 0 };
        if self.warps.get(next).is_some_and(ready) {
            return Some(next);
        }
        (next..count).chain(0..next).find(|&index| ready(&self.warps[index]))
    }

    /// Where some lane of a warp is: the function, the place, and the lane.
    fn somewhere(&self, index: usize) -> (u32, u32, u32) {
        let warp = &self.warps[index];
        let part = warp.parts.first();
        part.map_or((self.launch.kernel, 0, 0), |part| {
            (warp.frames[part.frame as usize].function, part.place, part.mask.trailing_zeros())
        })
    }

    fn op(&self, index: usize, part: usize) -> (Op, u32) {
        let warp = &self.warps[index];
        let part = &warp.parts[part];
        let function = warp.frames[part.frame as usize].function;
        (self.launch.program.functions[function as usize].ops[part.place as usize], function)
    }

    /// Nothing can go on, and not all threads have ended.
    fn stuck(&mut self) -> Progress {
        for index in 0..self.warps.len() {
            let apart = self.warps[index].parts.iter().position(|part| part.state == State::Apart);
            let Some(part) = apart else { continue };
            let (at, (_, function)) = (self.warps[index].parts[part], self.op(index, part));
            let lane = at.mask.trailing_zeros() & 31;
            let failure = super::warp::failure_of(FaultCode::LAUNCH_FAILED, Detail::BarrierDivergence, lane);
            return self.fail(index, *failure, function, at.place);
        }
        let waits = |warp: &Warp| warp.parts.iter().any(|part| part.state == State::Gathering);
        let gathering = self.warps.iter().position(waits);
        let any = self.warps.iter().position(|warp| warp.live != 0).unwrap_or(0);
        let index = gathering.unwrap_or(any);
        let detail = if gathering.is_some() { Detail::MissingLanes } else { Detail::Deadlock };
        let (function, place, lane) = self.somewhere(index);
        let failure = super::warp::failure_of(FaultCode::LAUNCH_FAILED, detail, lane);
        self.fail(index, *failure, function, place)
    }

    fn fail(&mut self, index: usize, failure: Failure, function: u32, place: u32) -> Progress {
        self.ended = true;
        let launch = self.launch;
        let (line, source) = launch.line(function, place);
        Progress::Fault(Box::new(Fault {
            code: failure.code,
            detail: failure.detail,
            kernel: launch.program.function(launch.kernel).name.clone(),
            line,
            source: source.map(|(file, line)| (file.to_owned(), line)),
            block: self.index,
            thread: launch.thread(index as u32, failure.lane & 31),
            address: failure.address,
            bytes: failure.bytes,
            space: if failure.address.is_some() { failure.space } else { Space::Generic },
        }))
    }

    /// Lanes of a warp come to a barrier.
    fn arrive(&mut self, index: usize, part: usize) -> Result<(), (Box<Failure>, u32, u32)> {
        let (op, function) = self.op(index, part);
        let warp = &mut self.warps[index];
        let at = warp.parts[part];
        let registers = warp.frames[at.frame as usize].registers.pointer();
        // SAFETY: lowering has made the slots of this operation within the frame: planes of 32 bits for `a` and `b`, and
        // predicates for the guard and `c`.
        let (numbers, counts, guard, predicate) = unsafe {
            let plane = |slot: crate::machine::Slot| registers.add(slot.0 as usize).cast::<[u32; 32]>().read();
            let bits = |slot: crate::machine::Slot| registers.add(slot.0 as usize).cast::<u32>().read();
            let guarded = op.guard != control::NO_GUARD;
            let reduces = op.flags & control::BARRIER_KIND >= control::REDUCE_COUNT;
            (
                plane(op.a),
                if op.flags & control::COUNTED != 0 { plane(op.b) } else { [0; 32] },
                if guarded { bits(op.guard) ^ op.guard_negate } else { !0 },
                if reduces { bits(op.c) ^ op.negate } else { 0 },
            )
        };
        let taken = at.mask & guard;
        let lane = taken.trailing_zeros() & 31;
        let number = numbers[lane as usize];
        let wrong = |code, detail| Err((super::warp::failure_of(code, detail, lane), function, at.place));
        if number as usize >= barrier::COUNT {
            return wrong(FaultCode::ILLEGAL_INSTRUCTION, Detail::BadBarrier(number));
        }
        let same = (0..32).fold(0u32, |mask, lane| mask | u32::from(numbers[lane] == number) << lane) & taken;
        if self.launch.options.checked && op.flags & control::ALIGNED != 0 && same != warp.live {
            // The others may still be on their way, such as in a loop that these have left.
            warp.parts[part].state = State::Apart;
            if same != at.mask || warp.parts.iter().all(|part| part.state == State::Apart) {
                return wrong(FaultCode::LAUNCH_FAILED, Detail::BarrierDivergence);
            }
            return Ok(());
        }
        self.waiting |= 1 << number;
        let barrier = &mut self.barriers[number as usize];
        barrier.threads += same.count_ones();
        let arrives = op.flags & control::BARRIER_KIND == control::ARRIVE;
        // A warp that waits counts when the barrier is looked at: its other lanes may come or end meanwhile.
        if arrives {
            barrier.counted += warp.arrive(number, same);
        }
        barrier.holding += (predicate & same).count_ones();
        barrier.count = (op.flags & control::COUNTED != 0).then_some(counts[lane as usize]);
        // Lanes that do not come go on; those with other numbers come again.
        let skipping = at.mask & !taken;
        if skipping != 0 {
            warp.parts.push(super::warp::Part { mask: skipping, place: at.place + 1, ..at });
        }
        if taken & !same != 0 {
            warp.parts.push(super::warp::Part { mask: taken & !same, ..at });
        }
        let here = &mut warp.parts[part];
        here.mask = same;
        if arrives {
            here.place += 1;
        } else {
            here.state = State::Barrier(number);
        }
        warp.join();
        Ok(())
    }

    /// Lets those go on who wait at barriers that all have come to.
    fn release(&mut self) {
        let mut waiting = self.waiting;
        while waiting != 0 {
            let number = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            let live = self.warps.iter().map(|warp| warp.live.count_ones()).sum();
            if self.barriers[number].count.is_some() {
                let arrivals: u32 = self.warps.iter_mut().map(|warp| warp.arrivals(number as u32)).sum();
                self.barriers[number].counted += arrivals;
            }
            let mut barrier = self.barriers[number];
            if barrier.count.is_some() {
                barrier.counted += self.warps.iter().map(|warp| warp.waiting_at(number as u32)).sum::<u32>();
            }
            if !barrier.is_complete(live) {
                continue;
            }
            self.barriers[number] = Barrier::default();
            self.waiting &= !(1 << number);
            for index in 0..self.warps.len() {
                for part in 0..self.warps[index].parts.len() {
                    if self.warps[index].parts[part].state == State::Barrier(number as u32) {
                        let (op, _) = self.op(index, part);
                        self.answer(index, part, &op, &barrier);
                    }
                }
                self.warps[index].join();
            }
        }
    }

    /// The result of a reduction, and on to the next operation.
    fn answer(&mut self, index: usize, part: usize, op: &Op, barrier: &Barrier) {
        let warp = &mut self.warps[index];
        let at = &mut warp.parts[part];
        at.state = State::Ready;
        at.place += 1;
        let place = warp.frames[at.frame as usize].registers.pointer().wrapping_add(op.d.0 as usize);
        let holds = match op.flags & control::BARRIER_KIND {
            control::REDUCE_COUNT => {
                for lane in (0..32).filter(|lane| at.mask >> lane & 1 != 0) {
                    // SAFETY: `d` is a plane of 32 bits of the frame.
                    unsafe { place.cast::<u32>().add(lane).write(barrier.holding) };
                }
                return;
            }
            control::REDUCE_AND => barrier.holding == barrier.threads,
            control::REDUCE_OR => barrier.holding != 0,
            _ => return,
        };
        // SAFETY: `d` is a predicate of the frame.
        unsafe {
            let old = place.cast::<u32>().read();
            place.cast::<u32>().write(if holds { old | at.mask } else { old & !at.mask });
        }
    }
}
