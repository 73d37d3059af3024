//! Operations that are composed at random, beside a model: what is called, in which order and in which stream, what is dropped,
//! and what comes behind what.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, Error, Operation, Result, RunTarget, Status, Stream, StreamPolicy, StreamPool};
use common::checked_host;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

/// How a closure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Value,
    Error,
    Unwinds,
}

/// A closure, or a value that is there from the beginning.
#[derive(Clone, Debug)]
struct Step {
    number: usize,
    end: End,
    /// The drop of the closure unwinds if it was not called, and that of its value if nobody has got it.
    drop_unwinds: bool,
}

/// An operation.
#[derive(Clone, Debug)]
enum Tree {
    Value(Step),
    New(Step),
    Then(Box<Tree>, Step),
    AndThen(Box<Tree>, Step, Box<Tree>),
    Zip(Box<Tree>, Box<Tree>, Step),
    All(Vec<Tree>, Step),
}

impl Tree {
    /// Numbers the steps from `next` on. The number behind the last.
    fn number(&mut self, next: usize) -> usize {
        let (step, next, later) = match self {
            Self::Value(step) | Self::New(step) => (step, next, None),
            Self::Then(tree, step) => (step, tree.number(next), None),
            Self::AndThen(tree, step, later) => (step, tree.number(next), Some(later)),
            Self::Zip(left, right, step) => {
                let next = left.number(next);
                (step, right.number(next), None)
            }
            Self::All(trees, step) => (step, trees.iter_mut().fold(next, |next, tree| tree.number(next)), None),
        };
        step.number = next;
        later.map_or(next + 1, |later| later.number(next + 1))
    }

    /// The steps that work has to follow which comes behind this operation, if this follows `before`.
    fn behind(&self, before: &BTreeSet<usize>) -> BTreeSet<usize> {
        match self {
            Self::Value(_) => before.clone(),
            Self::AndThen(tree, _, later) => later.behind(&tree.behind(before)),
            Self::New(step) | Self::Then(_, step) | Self::Zip(.., step) | Self::All(_, step) => [step.number].into(),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let end = || prop_oneof![30 => Just(End::Value), 1 => Just(End::Error), 1 => Just(End::Unwinds)];
    let step = move || {
        (end(), prop::bool::weighted(0.05)).prop_map(|(end, drop_unwinds)| Step { number: 0, end, drop_unwinds })
    };
    let leaf = prop_oneof![1 => step().prop_map(Tree::Value), 3 => step().prop_map(Tree::New)];
    let tree = leaf.prop_recursive(6, 40, 4, move |tree| {
        let boxed = || tree.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), step()).prop_map(|(tree, step)| Tree::Then(tree, step)),
            (boxed(), step(), boxed()).prop_map(|(tree, step, later)| Tree::AndThen(tree, step, later)),
            (boxed(), boxed(), step()).prop_map(|(left, right, step)| Tree::Zip(left, right, step)),
            (prop::collection::vec(tree, 0..4), step()).prop_map(|(trees, step)| Tree::All(trees, step)),
        ]
    });
    tree.prop_map(|mut tree| {
        tree.number(0);
        tree
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The closure of the step was called, with the stream of that number if it gets one.
    Called(usize, Option<usize>),
    ClosureDropped(usize),
    ValueDropped(usize),
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Value(usize),
    Failed,
    Unwound,
}

/// What is expected.
struct Model {
    /// How many streams the pool has. `None`: all is in one stream.
    pool: Option<usize>,
    /// Where the pool begins its next choice.
    next: usize,
    events: Vec<Event>,
    /// No step is made any more.
    given_up: Option<Outcome>,
}

impl Model {
    fn new(pool: Option<usize>) -> Self {
        Self { pool, next: 0, events: Vec::new(), given_up: None }
    }

    fn choose(&mut self, taken: &[usize]) -> Option<usize> {
        let Some(count) = self.pool else { return taken.is_empty().then_some(0) };
        let first = self.next;
        self.next += 1;
        (first..first + count).map(|number| number % count).find(|number| !taken.contains(number))
    }

    fn give_up(&mut self, outcome: Outcome) {
        if self.given_up != Some(Outcome::Unwound) {
            self.given_up = Some(outcome);
        }
    }

    fn drop_thing(&mut self, event: Event, unwinds: bool) {
        self.events.push(event);
        if unwinds {
            self.give_up(Outcome::Unwound);
        }
    }

    fn step<'t>(&mut self, step: &'t Step, stream: Option<usize>, values: &[&'t Step]) -> Option<&'t Step> {
        if self.given_up.is_some() {
            self.drop_thing(Event::ClosureDropped(step.number), step.drop_unwinds);
            return None;
        }
        self.events.push(Event::Called(step.number, stream));
        self.events.extend(values.iter().map(|value| Event::ValueDropped(value.number)));
        self.events.push(Event::ClosureDropped(step.number));
        match step.end {
            End::Value => return Some(step),
            End::Error => self.give_up(Outcome::Failed),
            End::Unwinds => self.give_up(Outcome::Unwound),
        }
        None
    }

    /// Parts, whose values are dropped when the last is given up.
    fn parts<'t>(&mut self, trees: &[&'t Tree], stream: usize) -> Vec<&'t Step> {
        let mut streams = vec![stream];
        while self.given_up.is_none() && streams.len() < trees.len() {
            let Some(other) = self.choose(&streams) else { break };
            streams.push(other);
        }
        let streams = streams.into_iter().cycle();
        let made: Vec<_> = trees.iter().zip(streams).filter_map(|(tree, stream)| self.tree(tree, stream)).collect();
        if self.given_up.is_some() {
            made.iter().for_each(|value| self.drop_thing(Event::ValueDropped(value.number), value.drop_unwinds));
        }
        made
    }

    /// The step that has made the value, if there is one.
    fn tree<'t>(&mut self, tree: &'t Tree, stream: usize) -> Option<&'t Step> {
        match tree {
            Tree::Value(step) if self.given_up.is_some() => {
                self.drop_thing(Event::ValueDropped(step.number), step.drop_unwinds);
                None
            }
            Tree::Value(step) => Some(step),
            Tree::New(step) => self.step(step, Some(stream), &[]),
            Tree::Then(tree, step) => {
                let value = self.tree(tree, stream);
                self.step(step, Some(stream), &Vec::from_iter(value))
            }
            Tree::AndThen(tree, step, later) => {
                let value = self.tree(tree, stream);
                // Without a choice there is nothing to drop of what would have followed.
                self.step(step, None, &Vec::from_iter(value))?;
                self.tree(later, stream)
            }
            Tree::Zip(left, right, step) => {
                let values = self.parts(&[left, right], stream);
                self.step(step, Some(stream), &values)
            }
            Tree::All(trees, step) => {
                let values = self.parts(&Vec::from_iter(trees), stream);
                self.step(step, Some(stream), &values)
            }
        }
    }
}

/// What steps have done, and what they use.
struct World {
    events: Mutex<Vec<Event>>,
    /// The streams by their ids.
    streams: Vec<u64>,
    /// What each step writes, and those behind it read.
    buffers: Mutex<Vec<Buffer<u32>>>,
}

impl World {
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    /// In strict order, a use is refused which does not come behind those that it has to follow.
    fn use_buffers(&self, stream: &Stream, number: usize, before: &BTreeSet<usize>) {
        let mut buffers = self.buffers.lock().unwrap();
        let (read, written) = buffers.split_at_mut(number);
        for &earlier in before {
            stream.copy(&mut written[0], &read[earlier]).unwrap();
        }
        stream.fill(&mut written[0], 1).unwrap();
    }
}

/// A closure, or a value. Its drop is noted, and unwinds unless somebody has made use of it.
struct Thing {
    world: Arc<World>,
    dropped: Event,
    drop_unwinds: bool,
}

impl Thing {
    fn used(mut self) -> Self {
        self.drop_unwinds = false;
        self
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.world.note(self.dropped);
        if self.drop_unwinds {
            resume_unwind(Box::new("dropped"));
        }
    }
}

/// Builds operations.
#[derive(Clone)]
struct Builder(Arc<World>);

impl Builder {
    fn thing(&self, step: &Step, dropped: fn(usize) -> Event) -> Thing {
        Thing { world: self.0.clone(), dropped: dropped(step.number), drop_unwinds: step.drop_unwinds }
    }

    /// A closure for one of the methods of operations, which gets a stream if that does.
    fn closure(
        &self,
        step: &Step,
        before: BTreeSet<usize>,
    ) -> impl FnOnce(Option<&Stream>, Vec<Thing>) -> Result<Builder> + Send + use<> {
        let (builder, step, closure) = (self.clone(), step.clone(), self.thing(step, Event::ClosureDropped));
        move |stream, values| {
            let _closure = closure.used();
            let world = &builder.0;
            let number = stream.map(|stream| world.streams.iter().position(|&id| id == stream.id()).unwrap());
            world.note(Event::Called(step.number, number));
            values.into_iter().for_each(|value| drop(value.used()));
            if let Some(stream) = stream {
                world.use_buffers(stream, step.number, &before);
            }
            match step.end {
                End::Value => Ok(builder),
                End::Error => Err(Error::argument(Status::INVALID_VALUE, "testing", "on purpose")),
                End::Unwinds => resume_unwind(Box::new("called")),
            }
        }
    }

    /// The same for the methods whose closures make values.
    fn making(
        &self,
        step: &Step,
        before: BTreeSet<usize>,
    ) -> impl FnOnce(&Stream, Vec<Thing>) -> Result<Thing> + Send + use<> {
        let (closure, step) = (self.closure(step, before), step.clone());
        move |stream, values| Ok(closure(Some(stream), values)?.thing(&step, Event::ValueDropped))
    }

    /// The operation, which follows the steps of `before`.
    fn build(&self, tree: &Tree, before: &BTreeSet<usize>) -> Operation<'static, Thing> {
        match tree {
            Tree::Value(step) => Operation::value(self.thing(step, Event::ValueDropped)),
            Tree::New(step) => {
                let closure = self.making(step, before.clone());
                Operation::new(move |stream| closure(stream, Vec::new()))
            }
            Tree::Then(tree, step) => {
                let closure = self.making(step, tree.behind(before));
                self.build(tree, before).then(move |stream, value| closure(stream, vec![value]))
            }
            Tree::AndThen(tree, step, later) => {
                let (closure, behind) = (self.closure(step, BTreeSet::new()), tree.behind(before));
                let later = later.clone();
                self.build(tree, before).and_then(move |value| match closure(None, vec![value]) {
                    Ok(builder) => builder.build(&later, &behind),
                    Err(error) => Operation::new(|_| Err(error)),
                })
            }
            Tree::Zip(left, right, step) => {
                let behind = &left.behind(before) | &right.behind(before);
                let closure = self.making(step, behind);
                let both = self.build(left, before).zip(self.build(right, before));
                both.then(move |stream, (left, right)| closure(stream, vec![left, right]))
            }
            Tree::All(trees, step) => {
                let behind = trees.iter().flat_map(|tree| tree.behind(before));
                let behind = if trees.is_empty() { before.clone() } else { behind.collect() };
                let closure = self.making(step, behind);
                let all = Operation::all(trees.iter().map(|tree| self.build(tree, before)));
                all.then(move |stream, values| closure(stream, values))
            }
        }
    }
}

/// What comes of an operation that is run, or dropped.
fn outcome(end: impl FnOnce() -> Result<Thing>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(end)) {
        Ok(Ok(value)) => {
            let Event::ValueDropped(number) = value.used().dropped else { unreachable!() };
            Outcome::Value(number)
        }
        Ok(Err(_)) => Outcome::Failed,
        Err(_) => Outcome::Unwound,
    }
}

/// Runs the operation, and drops it without running it.
fn compare(tree: &Tree, target: &impl RunTarget, streams: &[&Stream], pool: Option<usize>) {
    let context = streams[0].context();
    let steps = tree.clone().number(0);
    let other = context.create_stream().unwrap();
    let buffers = (0..=steps).map(|_| other.allocate_zeroed::<u32>(1).unwrap()).collect();
    other.synchronize().unwrap();
    let world = World {
        events: Mutex::default(),
        streams: streams.iter().map(|stream| stream.id()).collect(),
        buffers: Mutex::new(buffers),
    };
    let builder = Builder(Arc::new(world));
    let world = &builder.0;

    let mut model = Model::new(pool);
    let origin = model.choose(&[]).unwrap();
    let made = model.tree(tree, origin);
    model.events.extend(made.map(|value| Event::ValueDropped(value.number)));
    let expected = made.map_or(model.given_up, |value| Some(Outcome::Value(value.number))).unwrap();
    context.set_strict_order(true);
    assert_eq!(outcome(|| builder.build(tree, &BTreeSet::new()).queue(target)), expected);
    let events = std::mem::take(&mut *world.events.lock().unwrap());
    assert_eq!(events, model.events);
    // All streams have joined that of the whole, also if it was given up.
    let done =
        events.iter().filter_map(|event| if let Event::Called(done, Some(_)) = event { Some(*done) } else { None });
    world.use_buffers(streams[origin], steps, &done.collect());
    assert!(streams.iter().all(|stream| stream.orders_inserted() == 0));
    streams[origin].synchronize().unwrap();
    context.set_strict_order(false);

    let mut model = Model { given_up: Some(Outcome::Failed), ..Model::new(pool) };
    assert!(model.tree(tree, origin).is_none());
    let whole = builder.build(tree, &BTreeSet::new());
    let dropped = outcome(|| {
        drop(whole);
        Err(Error::argument(Status::INVALID_VALUE, "testing", "dropped"))
    });
    assert_eq!(Some(dropped), model.given_up);
    assert_eq!(*world.events.lock().unwrap(), model.events);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_are_run_and_dropped_as_the_model_says(tree in tree(), pool in prop::option::of(1..5usize)) {
        let context = checked_host();
        match pool {
            None => {
                let stream = context.create_stream().unwrap();
                compare(&tree, &stream, &[&stream], None);
            }
            Some(count) => {
                let pool = StreamPool::new(&context, count, StreamPolicy::RoundRobin).unwrap();
                compare(&tree, &pool, &pool.streams().collect::<Vec<_>>(), Some(count));
            }
        }
        let report = context.device().memory_report().unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
}
