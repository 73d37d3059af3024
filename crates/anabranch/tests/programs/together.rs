//! Threads of a program that share what they work with, and each have memory of their own.

use crate::environment::{LENGTH, for_each};
use crate::operation::Step;
use crate::streams::StreamSlot;
use crate::world::{Place, Words, World};
use anabranch::{Buffer, BufferSlice, ExecutableGraph, Graph, NodeWork, PinnedBuffer};
use std::sync::{Arc, Mutex};
use std::thread::scope;

/// What threads use at the same time, and only read, and a graph whose results nobody looks at.
pub(crate) struct Shared {
    pub(crate) buffer: Buffer<u32>,
    pub(crate) pinned: PinnedBuffer<u32>,
    pub(crate) words: Words,
    pub(crate) executable: ExecutableGraph,
    pub(crate) graph: Mutex<Graph>,
}

impl Shared {
    fn new(world: &World<'_>, device: usize) -> Self {
        let place = &world.places[device];
        let stream = place.context.create_stream().unwrap();
        let words = std::array::from_fn(|index| 1000 + index as u32);
        let buffer = stream.upload(&words).unwrap();
        let mut pinned = place.context.allocate_pinned(LENGTH).unwrap();
        pinned.as_mut_slice().unwrap().copy_from_slice(&words);
        let mut scratch = stream.allocate_zeroed::<u32>(LENGTH).unwrap();
        let mut graph = place.context.create_graph().unwrap();
        let kernel = &world.kernels[device].combine;
        // SAFETY: the kernel reads its three buffers, which have the same length, and writes the first.
        let node = unsafe { graph.add_kernel((), kernel, &for_each(LENGTH), (&mut scratch, &buffer, &buffer, 5u32)) };
        graph.add(node.unwrap(), NodeWork::copy(&mut scratch, &pinned).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        Self { buffer, pinned, words, executable, graph: Mutex::new(graph) }
    }
}

impl StreamSlot {
    /// Compares memory with its expected contents.
    #[track_caller]
    pub(crate) fn assert_holds(&self, memory: BufferSlice<'_, u32>, words: &[u32]) {
        let found = loop {
            if let Some(found) = self.unless_panicked(self.stream.download(memory)) {
                break found;
            }
        };
        assert_eq!(found, words, "in memory that threads share");
    }
}

impl World<'_> {
    /// What a thread has that shares all but memory with this one.
    fn beside(&self, shared: &[Arc<Shared>]) -> Self {
        let contexts = self.places.iter().map(|place| place.context.clone()).collect();
        let mut world = Self::new(self.environment, contexts, &[], false);
        world.streams.clone_from(&self.streams);
        world.shared = shared.to_vec();
        for (Place { events, pool, .. }, place) in world.places.iter_mut().zip(&self.places) {
            events.clone_from(&place.events);
            pool.clone_from(&place.pool);
        }
        world
    }

    pub(crate) fn together(&mut self, threads: &[Vec<Step>]) {
        self.let_go();
        let shared: Vec<_> = (0..self.places.len()).map(|device| Arc::new(Shared::new(self, device))).collect();
        scope(|scope| {
            for steps in threads {
                let mut world = self.beside(&shared);
                scope.spawn(move || {
                    world.run(steps);
                    world.finish();
                });
            }
        });
    }
}
