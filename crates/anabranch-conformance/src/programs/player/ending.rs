//! The beginning and the end of a program.

use super::super::answer::{Answer, Outcome};
use super::super::slots::{ContextSlot, DEFAULT_STREAMS, StreamSlot};
use super::super::{Family, HostThread};
use super::Stage;
use super::objects::{GraphOwner, MemoryKind, Objects};
use anabranch::hal::{self, CaptureMode, Live, StreamAttribute, StreamHandle, SynchronizationPolicy};

impl Stage {
    pub(super) fn begin(&mut self, family: Family) {
        self.answers.clear();
        self.has_arena = family.has_arena();
        let mut reset = self.harness.reset();
        if self.has_arena {
            reset = reset.and_then(|()| self.fill_arena());
        }
        self.is_lost = reset.is_err();
    }

    /// Ends what this thread has begun: its captures, and its capture mode.
    pub(super) fn leave_thread(&mut self) {
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
        self.thread = HostThread::First;
        self.leave_thread();
        let contents = self.read_contents();
        let mut outcome = contents.outcome;
        self.reset_policies();
        self.destroy();
        for context in [ContextSlot(0), ContextSlot(1)] {
            if let Err(failure) = self.driver.context_synchronize(&self.harness.call(context)) {
                (outcome, self.is_lost) = (Outcome::Status(failure.status.0), true);
            }
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

    /// Destroys all objects. What fails is noted.
    fn destroy(&mut self) {
        let objects = std::mem::replace(&mut self.objects, Objects::new(&self.harness));
        let driver = self.driver.clone();
        let call = |context| self.harness.call(context);
        let mut failed = Vec::new();
        let mut note = |what: &str, result: hal::Result<()>| {
            if let Err(failure) = result {
                failed.push(format!("{what}: {}", failure.status.0));
            }
        };
        // SAFETY: all objects have left their slots, so that nobody uses them afterwards, and all work is complete. Memory
        // of graphs is freed, where it is allocated, before the graphs are destroyed; where it is not, the driver refuses.
        unsafe {
            for memory in objects.memory.values().filter(|memory| memory.kind == MemoryKind::Graph) {
                let _ = driver.free(&call(memory.context), memory.address);
            }
            for executable in objects.executables.values() {
                note("executable_destroy", driver.executable_destroy(&call(executable.context), executable.handle));
            }
            for graph in objects.graphs.values().filter(|graph| graph.owner == GraphOwner::Program) {
                note("graph_destroy", driver.graph_destroy(&call(graph.context), graph.handle));
            }
            for event in objects.events.values() {
                note("event_destroy", driver.event_destroy(&call(event.context), event.handle));
            }
            for (slot, stream) in &objects.streams {
                if *slot >= StreamSlot(DEFAULT_STREAMS) {
                    note("stream_destroy", driver.stream_destroy(&call(stream.context), stream.handle));
                }
            }
            for memory in objects.memory.values() {
                let (call, address) = (call(memory.context), memory.address);
                match memory.kind {
                    MemoryKind::Plain => note("free", driver.free(&call, address)),
                    MemoryKind::Pinned => note("free_pinned", driver.free_pinned(&call, address.0 as *mut u8)),
                    MemoryKind::Async => {
                        note("free_async", driver.free_async(&call, address, Live::<StreamHandle>::LEGACY));
                    }
                    MemoryKind::Graph => {}
                }
            }
            for (module, context) in objects.loaded.iter().chain(objects.modules.values()) {
                note("module_unload", driver.module_unload(&call(*context), *module));
            }
            if !objects.pools.is_empty() {
                // A pool is destroyed when all frees of its memory are complete.
                note("context_synchronize", driver.context_synchronize(&call(ContextSlot(0))));
                note("context_synchronize", driver.context_synchronize(&call(ContextSlot(1))));
            }
            for pool in objects.pools.values() {
                note("memory_pool_destroy", driver.memory_pool_destroy(pool.handle));
            }
        }
        if objects.uses_graph_memory() {
            note("graph_memory_trim", driver.graph_memory_trim(self.harness.ordinal));
        }
        drop(objects);
        self.ending.append(&mut failed);
    }
}
