//! One launch of a graph, while it runs.
//!
//! Each node counts its direct predecessors that are not complete. The thread that completes the last of them makes the
//! node ready, and continues with one of the nodes that it has made ready; the others are queued. The scheduler has at
//! most one *token* for them at a time: a thread that takes the token hands out another while nodes are left. A node
//! that has to wait for an event or a value blocks no thread: it is queued again when the wait is over.
//!
//! A launch into a stream of a green context is run by that part of the workers: they take a token of the part, and leave the
//! nodes of a launch into another stream to others. A token of an earlier launch may be left over, and does nothing then.
//!
//! The launching stream is parked until the last node is done. An executable graph has one launch running at a time, so
//! one of these serves all its launches.

use super::exclusion::{Exclusion, MemoryUses};
use super::plan::{Plan, Shape};
use crate::engine::{ContextCore, Engine, JointWork, Pace, Partition, Position, Resume, Role, StreamState, Task};
use crate::memory::HostMemory;
use crate::ranks;
use anabranch_hal::KernelFault;
use anabranch_sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What nodes that wait for events wait for in one launch: where the last records before the launch are. `None`: nothing.
pub(super) type Awaited = Option<Arc<[(u32, Position)]>>;

/// A launch that runs.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub(super) plan: Arc<Plan>,
    pub(super) awaited: Awaited,
    /// The stream that it was launched into.
    pub(super) stream: Arc<StreamState>,
    /// Its place there.
    pub(super) sequence: u64,
}

/// A ready node, and where in it to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) node: u32,
    pub(super) part: u32,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// Counts launches.
    generation: u64,
    ready: VecDeque<Due>,
    exclusion: Exclusion,
    /// What the scheduler has of the launch.
    token: Token,
    /// Whether the launching stream is parked.
    parked: bool,
}

/// What the scheduler has, so that workers come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Token {
    #[default]
    None,
    /// For any worker.
    All,
    /// For a part of the workers, the one at that address.
    Part(usize),
}

impl Token {
    /// The token of a part of the workers, or of all. While the scheduler has it, it keeps the part, so that no other one is at its
    /// address.
    fn of(partition: Option<&Arc<Partition>>) -> Self {
        partition.map_or(Self::All, |partition| Self::Part(Arc::as_ptr(partition).addr()))
    }
}

/// A token for a part of the workers.
#[derive(Debug)]
struct PartToken {
    run: Arc<Run>,
    partition: Arc<Partition>,
    level: usize,
}

impl Task for PartToken {
    fn run(self: Arc<Self>, engine: &Engine, _: Pace) -> bool {
        self.run.take_token(Token::of(Some(&self.partition)));
        self.run.run_nodes(engine, Runner::Worker(Some(&self.partition)))
    }

    fn partition(&self) -> Option<(&Arc<Partition>, usize)> {
        Some((&self.partition, self.level))
    }
}

/// Who runs nodes.
#[derive(Clone, Copy)]
enum Runner<'a> {
    /// A worker, of a part of the workers or of all of them.
    Worker(Option<&'a Arc<Partition>>),
    /// A thread that waits for a place of a stream, which is no worker.
    Waiting { stream: &'a Arc<StreamState>, sequence: u64 },
}

impl Runner<'_> {
    /// Whether it runs nodes of a launch.
    fn runs(self, launch: &Current) -> bool {
        match self {
            Runner::Worker(part) => is_same_part(part, launch.stream.partition.as_ref()),
            Runner::Waiting { stream, sequence } => Arc::ptr_eq(stream, &launch.stream) && launch.sequence <= sequence,
        }
    }
}

/// Whether two launches are run by the same workers.
fn is_same_part(one: Option<&Arc<Partition>>, other: Option<&Arc<Partition>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// A node that records an event: a stream of its own, with one entry for each launch, which is not enqueued.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) node: u32,
    pub(super) stream: Arc<StreamState>,
    pub(super) time: Arc<AtomicU64>,
    launches: AtomicU64,
}

/// What launches of an executable graph run with.
#[derive(Debug)]
pub(crate) struct Run {
    core: Arc<ContextCore>,
    pub(super) memory: Arc<HostMemory>,
    pub(super) shape: Arc<Shape>,
    /// How many nodes right before each are not done. Only joins are counted.
    pending: Box<[AtomicU32]>,
    /// How many nodes are not done.
    remaining: AtomicUsize,
    pub(super) recorders: Vec<Recorder>,
    state: Mutex<State>,
}

/// A node that waits for an event or a value.
#[derive(Debug)]
pub(crate) struct NodeWait {
    pub(super) run: Arc<Run>,
    pub(super) due: Due,
}

impl Resume for NodeWait {
    fn resume(self: Box<Self>) {
        let mut state = self.run.state.lock();
        if state.current.is_some() {
            state.ready.push_back(self.due);
            self.run.hand_out_token(state);
        }
    }

    fn is_lost(&self) -> bool {
        self.run.state.lock().current.as_ref().is_none_or(|current| current.stream.core.is_lost())
    }
}

impl Recorder {
    /// The place where the next launch's record will be done.
    pub(super) fn next(&self) -> Position {
        let sequence = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        Position { stream: Arc::clone(&self.stream), sequence }
    }

    fn record(&self, engine: &Engine, fault: Option<&KernelFault>) {
        if let Some(fault) = fault {
            self.stream.note_undone(self.stream.completion.completed() + 1, fault);
        }
        self.time.store(engine.now(), Ordering::Release);
        self.stream.completion.advance();
    }
}

impl Task for Run {
    fn run(self: Arc<Self>, engine: &Engine, _: Pace) -> bool {
        self.take_token(Token::All);
        self.run_nodes(engine, Runner::Worker(None))
    }
}

impl JointWork for Run {
    fn park(&self) -> bool {
        let mut state = self.state.lock();
        state.parked = state.current.is_some();
        state.parked
    }

    fn help(self: Arc<Self>, engine: &Engine, stream: &Arc<StreamState>, sequence: u64) -> bool {
        self.run_nodes(engine, Runner::Waiting { stream, sequence })
    }
}

impl Run {
    pub(super) fn new(core: &Arc<ContextCore>, memory: &Arc<HostMemory>, shape: &Arc<Shape>) -> Arc<Self> {
        let recorder = |&node: &u32| Recorder {
            node,
            stream: StreamState::new(core, Role::NonBlocking, 0),
            time: Arc::new(AtomicU64::new(0)),
            launches: AtomicU64::new(0),
        };
        Arc::new(Self {
            core: Arc::clone(core),
            memory: Arc::clone(memory),
            pending: shape.before.iter().map(|_| AtomicU32::new(0)).collect(),
            remaining: AtomicUsize::new(0),
            recorders: shape.records.iter().map(recorder).collect(),
            state: Mutex::new(ranks::RUN, State::default()),
            shape: Arc::clone(shape),
        })
    }

    pub(super) fn record(&self, engine: &Engine, node: u32, fault: Option<&KernelFault>) {
        if let Some(recorder) = self.recorders.iter().find(|recorder| recorder.node == node) {
            recorder.record(engine, fault);
        }
    }

    /// Begins a launch, when the one before is done. `true`: there is nothing to do.
    pub(super) fn begin(&self, current: Current) -> bool {
        if self.shape.scheduled == 0 {
            return true;
        }
        for &node in &self.shape.joins {
            if let (Some(pending), Some(&before)) =
                (self.pending.get(node as usize), self.shape.before.get(node as usize))
            {
                pending.store(before, Ordering::Relaxed);
            }
        }
        self.remaining.store(self.shape.scheduled, Ordering::Relaxed);
        if let Some(conditionals) = &current.plan.conditionals {
            conditionals.reset();
        }
        let mut state = self.state.lock();
        state.generation += 1;
        state.current = Some(current);
        state.ready.extend(self.shape.roots.iter().map(|&node| Due { node, part: 0 }));
        false
    }

    /// Whether no launch runs.
    pub(super) fn is_done(&self) -> bool {
        self.state.lock().current.is_none()
    }

    /// Forgets a launch, when no thread runs it any more.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.ready.clear();
        state.exclusion.clear();
        let current = state.current.take();
        drop(state);
        drop(current);
    }

    /// Hands a token to the scheduler, if a node is ready.
    fn hand_out_token(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Some(current) = state.current.as_ref().filter(|_| !state.ready.is_empty()) else { return };
        let (level, partition) = (current.stream.level(), current.stream.partition.clone());
        let token = Token::of(partition.as_ref());
        if state.token == token {
            return;
        }
        state.token = token;
        drop(state);
        let task: Arc<dyn Task> = match partition {
            None => Arc::clone(self) as _,
            Some(partition) => Arc::new(PartToken { run: Arc::clone(self), partition, level }),
        };
        self.core.engine.push(level, task);
    }

    /// Notes that the scheduler has given a token out, unless it has another one by now.
    fn take_token(&self, token: Token) {
        let mut state = self.state.lock();
        if state.token == token {
            state.token = Token::None;
        }
    }

    /// Runs nodes of a launch on the thread that runs its stream.
    pub(super) fn run_in_stream(self: &Arc<Self>, engine: &Engine, stream: &StreamState) {
        self.run_nodes(engine, Runner::Worker(stream.partition.as_ref()));
    }

    /// Lets other threads run the launch, where this one must not.
    pub(super) fn offer(self: &Arc<Self>) {
        self.hand_out_token(self.state.lock());
    }

    /// Runs nodes until none is ready; only one, chosen by the seed, where the engine is deterministic. `true`: it ran
    /// some.
    fn run_nodes(self: &Arc<Self>, engine: &Engine, runner: Runner<'_>) -> bool {
        let mut ran = false;
        let mut generation = 0;
        let mut current: Option<Current> = None;
        let mut next: Option<Due> = None;
        // Nodes that this thread has completed and not yet subtracted from `remaining`.
        let mut done = 0;
        loop {
            let due = match next.take() {
                Some(due) => due,
                None => {
                    self.subtract(std::mem::take(&mut done));
                    let mut state = self.state.lock();
                    // A launch that began meanwhile may be one of others, or come behind what this thread waits for.
                    if !state.current.as_ref().is_some_and(|current| runner.runs(current)) {
                        break;
                    }
                    let due = if engine.is_deterministic() && !state.ready.is_empty() {
                        let index = engine.choose(state.ready.len());
                        state.ready.remove(index)
                    } else {
                        state.ready.pop_front()
                    };
                    let Some(due) = due else { break };
                    let before = if generation == state.generation {
                        None
                    } else {
                        generation = state.generation;
                        std::mem::replace(&mut current, state.current.clone())
                    };
                    self.hand_out_token(state);
                    // An earlier launch's plan is dropped without the lock.
                    drop(before);
                    due
                }
            };
            let Some(current) = &current else { break };
            ran = true;
            if self.execute(engine, current, due) {
                next = self.complete(engine, due.node);
                done += 1;
            }
            if engine.is_deterministic() {
                break;
            }
        }
        self.subtract(done);
        drop(current);
        ran
    }

    /// Whether a node can use its memory now. `false`: it waits for another node, and is queued again.
    pub(super) fn enter(&self, due: Due, uses: MemoryUses) -> bool {
        self.state.lock().exclusion.enter(due, uses)
    }

    /// Notes that a node does not use its memory any more.
    pub(super) fn leave(self: &Arc<Self>, node: u32) {
        let mut state = self.state.lock();
        let State { exclusion, ready, .. } = &mut *state;
        exclusion.leave(node, ready);
        self.hand_out_token(state);
    }

    /// Notes that a node is done. Returns one of those that can run now.
    fn complete(self: &Arc<Self>, engine: &Engine, node: u32) -> Option<Due> {
        let mut ready = self.shape.after(node).iter().copied().filter(|&after| {
            let after = after as usize;
            // The last predecessor sees what all of them did. A single one is the last.
            self.shape.before.get(after) == Some(&1)
                || self.pending.get(after).is_some_and(|pending| pending.fetch_sub(1, Ordering::AcqRel) == 1)
        });
        let due = |node| Due { node, part: 0 };
        let next = if engine.is_deterministic() { None } else { ready.next().map(due) };
        if let Some(second) = ready.next() {
            let mut state = self.state.lock();
            state.ready.push_back(due(second));
            state.ready.extend(ready.map(due));
            self.hand_out_token(state);
        }
        next
    }

    /// Subtracts the nodes that a thread has completed. The thread that subtracts the last ones finishes the launch.
    fn subtract(&self, done: usize) {
        if done > 0 && self.remaining.fetch_sub(done, Ordering::AcqRel) == done {
            self.finish();
        }
    }

    fn finish(&self) {
        let (current, parked) = {
            let mut state = self.state.lock();
            (state.current.take(), std::mem::take(&mut state.parked))
        };
        let Some(Current { plan, stream, .. }) = current else { return };
        // The launching stream's entry holds the plan too, so this drops nothing.
        drop(plan);
        if parked {
            stream.unpark(false);
        }
    }
}
