//! Graphs that are launched in streams of other contexts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the layer forwards what it is given")]

mod common;

use anabranch::hal::*;
use anabranch::{Context, ContextFlags, Instance, NodeWork};
use common::hold;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A driver that launches a graph with disabled nodes at once in a stream of another context, as NVIDIA's does.
#[derive(Debug)]
struct Early {
    inner: Arc<dyn Driver>,
    /// The contexts of executable graphs with disabled nodes.
    disabled: Mutex<HashMap<ExecutableGraphHandle, ContextHandle>>,
}

// SAFETY: all calls go to the one driver, with what they were given, but for launches that come early, which is what the test is
// about: they use memory that lives longer.
unsafe impl Forward for Early {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        enabled: bool,
    ) -> Result<()> {
        if enabled {
            self.disabled.lock().unwrap().remove(&executable.handle());
        } else {
            self.disabled.lock().unwrap().insert(executable.handle(), call.context.handle());
        }
        unsafe { self.inner.executable_set_node_enabled(call, executable, node, enabled) }
    }

    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let context = self.disabled.lock().unwrap().get(&executable.handle()).copied();
        let Some(context) = context.filter(|&context| context != call.context.handle()) else {
            return unsafe { self.inner.executable_launch(call, executable, stream) };
        };
        let own = Call::new(unsafe { Live::new(context) }, "launching early");
        let at_once = self.inner.stream_create(&own, StreamFlags::NON_BLOCKING, 0)?;
        unsafe {
            self.inner.executable_launch(&own, executable, Live::new(at_once))?;
            self.inner.stream_destroy(&own, at_once)
        }
    }
}

fn context() -> Context {
    let wrap = |inner| Arc::new(Layered(Early { inner, disabled: Mutex::default() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

#[test]
fn safety_139_a_graph_with_a_disabled_node_comes_in_its_turn_in_a_stream_of_another_context() {
    let context = context();
    let elsewhere = context.device().create_context(ContextFlags::empty()).unwrap();
    let (stream, other) = (context.create_stream().unwrap(), elsewhere.create_stream().unwrap());
    let mut buffers = [(); 2].map(|()| stream.upload(&[1u32; 4]).unwrap());
    let mut graph = context.create_graph().unwrap();
    let [first, second] = &mut buffers;
    let disabled = graph.add((), NodeWork::fill(first, 2u32).unwrap()).unwrap();
    graph.add(disabled, NodeWork::fill(second, 2u32).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.set_node_enabled(disabled, false).unwrap();
    let nines = other.upload(&[9u32; 4]).unwrap();
    let signal = hold(&elsewhere, &other);
    // The graph overwrites this.
    other.copy_peer(&mut buffers[1], &nines).unwrap();
    executable.launch(&other).unwrap();
    let event = other.record_event().unwrap();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| buffers.each_ref().map(|buffer| stream.download(buffer).unwrap()));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!event.query().unwrap() && !read.is_finished());
        signal.set(1);
        assert_eq!(read.join().unwrap(), [vec![1; 4], vec![2; 4]]);
    });
    other.synchronize().unwrap();
    // It has its own streams back.
    executable.set_node_enabled(disabled, true).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffers[0]).unwrap(), [2; 4]);
}
