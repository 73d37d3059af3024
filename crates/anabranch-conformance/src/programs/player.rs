//! Makes the calls of programs on a device.

mod arena;
mod arena_calls;
mod captures;
mod contents;
mod ending;
mod executables;
mod front;
mod graphs;
mod harness;
mod memory;
mod modules;
mod nodes;
mod objects;
mod streams;

use super::answer::{Answer, Outcome};
use super::call::{Call, HarnessCall};
use super::slots::{ContextSlot, DEFAULT_STREAMS, StreamSlot};
use super::{HostThread, Program};
use anabranch::hal::{self, Driver, contain};
use anabranch::{Device, Result};
use front::Front;
use harness::Harness;
use objects::Objects;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Is told of every answer as soon as there is one.
type Listener = Box<dyn FnMut(&Answer) + Send>;

/// Makes the calls of programs on one device, with two host threads. What all programs need is made once.
pub struct Player {
    /// `None` once the player is lost.
    stage: Option<Box<Stage>>,
    turns: Sender<Turn>,
    returns: Receiver<Box<Stage>>,
}

/// What came of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// One answer to each call, and one to the end of the program: how its captures ended, what memory contains, and what
    /// went wrong when its objects were destroyed. Fewer if a call panicked.
    pub answers: Vec<Answer>,
    /// Whether the player cannot be used any more, because the context is lost or a call panicked.
    pub is_lost: bool,
}

/// All that calls need. It goes from thread to thread.
struct Stage {
    device: Device,
    driver: Arc<dyn Driver>,
    harness: Harness,
    objects: Objects,
    /// What programs of the safe API use, once there was one.
    front: Option<Front>,
    thread: HostThread,
    answers: Vec<Answer>,
    /// What is to be said of the end of the program.
    ending: Vec<String>,
    listener: Listener,
    is_lost: bool,
    /// Whether the program accesses memory at any address.
    has_arena: bool,
    /// Where calls are made for objects that say themselves which context they are of. `None` stands for that context.
    entered: Option<ContextSlot>,
    /// Whether each context can access the memory of the other device.
    peers: [bool; 2],
    /// Whether the program makes calls of the safe API.
    is_front: bool,
}

/// Calls for the second thread.
struct Turn {
    stage: Box<Stage>,
    program: Arc<Program>,
    /// The numbers of the first call and of the one after the last. If they are equal, the thread ends the program.
    from: usize,
    to: usize,
}

impl Player {
    /// Opens a device: makes contexts, loads kernels and allocates memory.
    ///
    /// # Errors
    ///
    /// The error of the device, if that fails.
    pub fn open(device: &Device) -> Result<Self> {
        Self::with_listener(device, None, |_| {})
    }

    /// Opens two devices of one driver, for programs of the families that need two.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_two(device: &Device, peer: &Device) -> Result<Self> {
        Self::with_listener(device, Some(peer), |_| {})
    }

    /// Opens a device like [`open`](Self::open), or two like [`open_two`](Self::open_two). The listener is told of each
    /// answer as soon as there is one.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn with_listener(
        device: &Device,
        peer: Option<&Device>,
        listener: impl FnMut(&Answer) + Send + 'static,
    ) -> Result<Self> {
        let driver = device.driver().clone();
        let harness = Harness::open(device, peer)?;
        let objects = Objects::new(&harness);
        let stage = Stage {
            device: device.clone(),
            driver,
            harness,
            objects,
            front: None,
            thread: HostThread::First,
            answers: Vec::new(),
            ending: Vec::new(),
            listener: Box::new(listener),
            is_lost: false,
            has_arena: false,
            entered: None,
            peers: [false; 2],
            is_front: false,
        };
        let (turns, wait) = channel::<Turn>();
        let (give_back, returns) = channel();
        let second = move || {
            for Turn { mut stage, program, from, to } in wait {
                stage.thread = HostThread::Second;
                if from == to {
                    stage.leave_thread()
                } else {
                    stage.calls(&program, from, to)
                }
                if give_back.send(stage).is_err() {
                    return;
                }
            }
        };
        // Without the second thread, its calls panic no one: the stage is lost at its first turn.
        let _ = std::thread::Builder::new().name("anabranch-second".to_owned()).spawn(second);
        Ok(Self { stage: Some(Box::new(stage)), turns, returns })
    }

    /// Makes the calls of a program, ends what it has left open, and destroys what it has made. A player that is lost
    /// makes none. Unless the player has as many devices as the family needs, all calls are left
    /// out.
    pub fn play(&mut self, program: &Program) -> Played {
        let lost = Played { answers: Vec::new(), is_lost: true };
        let Some(mut stage) = self.stage.take() else { return lost };
        let program = Arc::new(program.clone());
        if program.family.device_count() != stage.harness.devices().count() {
            self.stage = Some(stage);
            return Played { answers: vec![Answer::new(Outcome::Skipped); program.len() + 1], is_lost: false };
        }
        stage.begin(&program);
        let (mut from, mut used_second) = (0, false);
        while from < program.len() && !stage.is_lost {
            let thread = program.calls[from].0;
            let to = (from..program.len()).find(|&index| program.calls[index].0 != thread).unwrap_or(program.len());
            if thread == HostThread::First {
                stage.thread = HostThread::First;
                stage.calls(&program, from, to);
            } else {
                used_second = true;
                match self.second(stage, &program, from, to) {
                    Some(returned) => stage = returned,
                    None => return lost,
                }
            }
            from = to;
        }
        if used_second && !stage.is_lost {
            match self.second(stage, &program, from, from) {
                Some(returned) => stage = returned,
                None => return lost,
            }
        }
        stage.thread = HostThread::First;
        if !stage.is_lost {
            stage.end();
        }
        let played = Played { answers: std::mem::take(&mut stage.answers), is_lost: stage.is_lost };
        if !played.is_lost {
            self.stage = Some(stage);
        }
        played
    }

    fn second(&self, stage: Box<Stage>, program: &Arc<Program>, from: usize, to: usize) -> Option<Box<Stage>> {
        self.turns.send(Turn { stage, program: program.clone(), from, to }).ok()?;
        self.returns.recv().ok()
    }
}

impl Stage {
    fn calls(&mut self, program: &Program, from: usize, to: usize) {
        for (_, call) in &program.calls[from..to] {
            let answer = contain(|| self.call(call)).unwrap_or_else(|thrown| {
                self.is_lost = true;
                Answer::with(Outcome::Crashed, format!("panicked: {}", thrown.message()))
            });
            self.answer(answer);
            if self.is_lost {
                return;
            }
        }
    }

    fn answer(&mut self, answer: Answer) {
        (self.listener)(&answer);
        self.answers.push(answer);
    }

    /// Opens the gates that streams wait for, but none that is first waited for later.
    fn open_gates(&mut self) {
        for gate in std::mem::take(&mut self.objects.gates) {
            self.harness.open_gate(gate);
        }
    }

    /// A call for an object of a context that says itself which context it is of.
    fn call_for(&self, context: ContextSlot) -> hal::Call<'static> {
        self.harness.call(self.entered.unwrap_or(context))
    }

    /// A call for a stream of a context.
    fn call_on(&self, stream: StreamSlot, context: ContextSlot) -> hal::Call<'static> {
        // Each context has default streams of its own under the same handles.
        if stream.0 < DEFAULT_STREAMS { self.harness.call(context) } else { self.call_for(context) }
    }

    fn call(&mut self, call: &Call) -> Answer {
        if call.may_wait() {
            self.open_gates();
        }
        let answer = match call {
            Call::Harness(HarnessCall::OpenGate { gate }) => {
                self.harness.open_gate(*gate);
                Some(Answer::new(Outcome::Status(0)))
            }
            Call::Harness(HarnessCall::Enter { context }) => {
                self.entered = *context;
                Some(Answer::new(Outcome::Status(0)))
            }
            Call::Harness(HarnessCall::ReadContents {}) => Some(self.read_contents()),
            Call::Stream(call) => self.stream_call(call),
            Call::Event(call) => self.event_call(call),
            Call::Capture(call) => self.capture_call(call),
            Call::Memory(call) => self.memory_call(call),
            Call::Arena(call) => self.arena_call(call),
            Call::Module(call) => self.module_call(call),
            Call::Graph(call) => self.graph_call(call),
            Call::Executable(call) => self.executable_call(call),
            Call::Front(call) => self.front.as_mut().and_then(|front| front.call(self.thread, call)),
        };
        answer.unwrap_or(Answer::new(Outcome::Skipped))
    }
}

/// The answer to a call that returns nothing.
fn plain(result: hal::Result<()>) -> Answer {
    told(result, |()| String::new())
}

/// The answer to a call of which the result is described.
fn told<T>(result: hal::Result<T>, tell: impl FnOnce(T) -> String) -> Answer {
    match result {
        Ok(value) => Answer::with(Outcome::Status(0), tell(value)),
        Err(failure) => Answer::new(Outcome::Status(failure.status.0)),
    }
}

impl fmt::Debug for Player {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Player").finish_non_exhaustive()
    }
}
