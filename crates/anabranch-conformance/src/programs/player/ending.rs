//! The beginning and the end of a program.

use super::super::answer::{Answer, Outcome};
use super::super::slots::{ContextSlot, DEFAULT_STREAMS};
use super::super::{Family, HostThread, Program};
use super::Stage;
use super::front::Front;
use super::objects::{GraphOwner, MemoryKind, MemoryObject, Objects};
use anabranch::hal::{self, CaptureMode, Live, StreamAttribute, StreamHandle, SynchronizationPolicy};

impl Stage {
    pub(super) fn begin(&mut self, program: &Program) {
        self.answers.clear();
        (self.has_arena, self.is_front) = (program.has_arena(), program.family() == Family::Front);
        if self.is_front {
            if self.front.is_none() {
                self.front = Front::open(&self.device).ok();
            }
            self.is_lost = self.front.is_none();
            return;
        }
        let mut reset = self.harness.reset();
        if self.has_arena {
            reset = reset.and_then(|()| self.fill_arena());
        }
        self.is_lost = reset.is_err();
    }

    /// Ends what this thread has begun: its captures, and its capture mode.
    pub(super) fn leave_thread(&mut self) {
        self.entered = None;
        if let (true, Some(front)) = (self.is_front, &mut self.front) {
            return front.leave_thread(self.thread);
        }
        while let Some(capture) = self.objects.captures.iter().find(|capture| capture.thread == self.thread).copied() {
            let outcome = self.end_capture(capture.stream).map_or(Outcome::Skipped, |answer| answer.outcome);
            self.ending.push(format!("{} ends with {outcome}", capture.stream));
            // Whatever the answer, nothing is asked twice.
            self.capture_failed(capture.stream);
        }
        match self.driver.thread_exchange_capture_mode(CaptureMode::Global) {
            Ok(CaptureMode::Global) => {}
            Ok(mode) => self.ending.push(format!("t{} was {mode:?}", self.thread as u8)),
            Err(failure) => self.ending.push(format!("capture mode {}", failure.status.0)),
        }
    }

    /// Ends the program: opens gates, ends captures, waits, reads the contents, and destroys objects.
    pub(super) fn end(&mut self) {
        self.open_gates();
        self.entered = None;
        self.thread = HostThread::First;
        self.leave_thread();
        if let (true, Some(front)) = (self.is_front, &mut self.front) {
            let answer = front.end();
            // What it has left behind would change the answers to the next program.
            self.is_lost = answer.outcome != Outcome::Status(0);
            return self.answer(answer);
        }
        let contents = self.read_contents();
        self.reset_policies();
        let objects = std::mem::replace(&mut self.objects, Objects::new(&self.harness));
        self.destroy(&objects);
        // A capture that could not be ended has ended with its streams. If work is not complete even now, the context is lost,
        // and its memory may be gone already.
        let mut outcome = contents.outcome;
        match self.harness.synchronize() {
            Ok(()) => {
                self.free(&objects);
                self.disable_peers();
            }
            Err(failure) => (outcome, self.is_lost) = (Outcome::Status(failure.status.0), true),
        }
        let mut detail = std::mem::take(&mut self.ending);
        detail.insert(0, contents.detail);
        detail.retain(|part| !part.is_empty());
        self.answer(Answer::with(outcome, detail.join("; ")));
    }

    /// Gives default streams, which later programs use too, the policy that they had.
    fn reset_policies(&mut self) {
        let policy = StreamAttribute::SynchronizationPolicy(SynchronizationPolicy::Auto);
        for slot in std::mem::take(&mut self.objects.policies) {
            if let Some((stream, context)) = self.objects.stream(slot) {
                let _ = self.driver.stream_set_attribute(&self.harness.call(context), stream, &policy);
            }
        }
    }

    /// Notes that a call of the end of the program has failed.
    fn note(&mut self, what: &str, result: hal::Result<()>) {
        if let Err(failure) = result {
            self.ending.push(format!("{what}: {}", failure.status.0));
        }
    }

    /// Destroys graphs, events and streams.
    fn destroy(&mut self, objects: &Objects) {
        let driver = self.driver.clone();
        for executable in objects.executables.values() {
            let call = self.harness.call(executable.context);
            // SAFETY: it has left its slot, so that nobody uses it afterwards.
            let destroyed = unsafe { driver.executable_destroy(&call, executable.handle) };
            self.note("executable_destroy", destroyed);
        }
        for graph in objects.graphs.values().filter(|graph| graph.owner == GraphOwner::Program) {
            let call = self.harness.call(graph.context);
            // SAFETY: the same. It belongs to no node and to no capture.
            let destroyed = unsafe { driver.graph_destroy(&call, graph.handle) };
            self.note("graph_destroy", destroyed);
        }
        for event in objects.events.values() {
            let call = self.harness.call(event.context);
            // SAFETY: the same. The graphs that refer to it are destroyed.
            let destroyed = unsafe { driver.event_destroy(&call, event.handle) };
            self.note("event_destroy", destroyed);
        }
        for (_, stream) in objects.streams.iter().filter(|(slot, _)| slot.0 >= DEFAULT_STREAMS) {
            let call = self.harness.call(stream.context);
            // SAFETY: the same.
            let destroyed = unsafe { driver.stream_destroy(&call, stream.handle) };
            self.note("stream_destroy", destroyed);
        }
    }

    /// Frees memory and unloads modules. All work is complete.
    fn free(&mut self, objects: &Objects) {
        let driver = self.driver.clone();
        // That of graphs last: an address that no graph has any more may be that of other memory by now.
        let of_graph = |memory: &&MemoryObject| matches!(memory.kind, MemoryKind::Graph);
        let (graphs, others): (Vec<&MemoryObject>, Vec<&MemoryObject>) = objects.memory.values().partition(of_graph);
        for memory in others.into_iter().chain(graphs) {
            let (call, address) = (self.harness.call(memory.context), memory.address);
            // SAFETY: the memory has left its slot, so that nobody uses it afterwards. That of a graph is allocated only if
            // the graph was launched; if not, the driver refuses the address.
            unsafe {
                match memory.kind {
                    MemoryKind::Plain => self.note("free", driver.free(&call, address)),
                    MemoryKind::Pinned => {
                        self.note("free_pinned", driver.free_pinned(&call, address.0 as *mut u8));
                    }
                    MemoryKind::Async => {
                        self.note("free_async", driver.free_async(&call, address, Live::<StreamHandle>::LEGACY));
                    }
                    MemoryKind::Graph => drop(driver.free(&call, address)),
                }
            }
        }
        for (module, context) in objects.loaded.iter().chain(objects.modules.values()) {
            // SAFETY: the same. No graph has a kernel of the module.
            let unloaded = unsafe { driver.module_unload(&self.harness.call(*context), *module) };
            self.note("module_unload", unloaded);
        }
        if !objects.pools.is_empty() {
            // A pool is destroyed when all frees of its memory are complete.
            let synchronized = self.harness.synchronize();
            self.note("context_synchronize", synchronized);
        }
        for pool in objects.pools.values() {
            // SAFETY: the same.
            let destroyed = unsafe { driver.memory_pool_destroy(pool.handle) };
            self.note("memory_pool_destroy", destroyed);
        }
        if objects.uses_graph_memory() {
            for device in self.harness.devices() {
                self.note("graph_memory_trim", driver.graph_memory_trim(device));
            }
        }
    }

    /// Takes back the access to each other's memory that the program has given the devices. Nothing uses it any more.
    fn disable_peers(&mut self) {
        for context in [0, 1].map(ContextSlot) {
            if std::mem::take(&mut self.peers[usize::from(context.0)]) {
                let peer = self.harness.call(ContextSlot(1 - context.0)).context;
                // SAFETY: all work is complete.
                let disabled = unsafe { self.driver.context_disable_peer_access(&self.harness.call(context), peer) };
                self.note("context_disable_peer_access", disabled);
            }
        }
    }
}
