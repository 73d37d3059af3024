//! Streams whose work waits for a thread that goes on to use the library.

use super::*;
use anabranch::{DualModule, HostFunction, Module};
use std::thread;

/// What is dropped while work is held up: memory of all kinds, an event, a stream.
fn things(context: &Context) -> impl Send + use<> {
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u8; 100]).unwrap();
    let plain = context.allocate_zeroed::<u8>(&stream, 100).unwrap();
    let pinned = context.allocate_pinned::<u8>(100).unwrap();
    let managed = context.allocate_managed::<u8>(100).unwrap();
    let event = stream.record_event().unwrap();
    (buffer, plain, pinned, managed, event, stream)
}

/// A module. Loading one waits for the work of the context, as the hardware does.
pub(crate) fn module(context: &Context) -> Module {
    DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ())).load(context).unwrap()
}

/// Has `launch` start a host function that waits for this thread, and drops things meanwhile. None of the calls that this
/// thread makes next waits for the host function. Afterwards all is freed.
fn goes_on<R>(launch: impl FnOnce(&Context) -> (Waiting, R)) {
    let layer = Layer::default();
    let context = layer.context();
    let dropped = (things(&context), module(&context));
    let (waiting, left) = launch(&context);
    drop(dropped);
    for _ in 0..3 {
        drop(things(&context));
        flush_deferred_drops();
    }
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u8>(100).unwrap();
    stream.fill(&mut pinned, 7).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [7; 100]);
    waiting.release();
    drop((left, stream, pinned, context));
    until("the end of all that was made", || layer.all_is_freed());
}

#[test]
fn nobody_waits_for_a_host_function_of_a_stream_that_is_open() {
    goes_on(|context| {
        let stream = context.create_stream().unwrap();
        (Waiting::launch(&stream), Some(stream))
    });
}

#[test]
fn nobody_waits_for_a_host_function_of_a_stream_that_was_dropped() {
    goes_on(|context| (Waiting::launch(&context.create_stream().unwrap()), ()));
}

/// Calls `launch` on another thread, which ends when what is returned is dropped.
fn on_another_thread<R: Send + 'static>(launch: impl FnOnce() -> R + Send + 'static) -> (R, impl Drop) {
    struct Ends(Option<Sender<()>>, Option<thread::JoinHandle<()>>);
    impl Drop for Ends {
        fn drop(&mut self) {
            drop(self.0.take());
            self.1.take().unwrap().join().unwrap();
        }
    }
    let (give, take) = channel();
    let (end, wait) = channel::<()>();
    let thread = thread::spawn(move || {
        give.send(launch()).unwrap();
        let _ = wait.recv();
    });
    (take.recv().unwrap(), Ends(Some(end), Some(thread)))
}

fn per_thread_stream_of_another_thread(keep_stream: bool, end_thread: bool) {
    goes_on(|context| {
        let context = context.clone();
        let ((waiting, stream), thread) = on_another_thread(move || {
            let stream = context.per_thread_stream().unwrap();
            let waiting = Waiting::launch(&stream);
            (waiting, keep_stream.then_some(stream))
        });
        let thread = (!end_thread).then_some(thread);
        (waiting, (stream, thread))
    });
}

#[test]
fn nobody_waits_for_a_host_function_of_the_default_stream_of_a_thread_that_goes_on() {
    for keep_stream in [true, false] {
        per_thread_stream_of_another_thread(keep_stream, false);
    }
}

#[test]
fn nobody_waits_for_a_host_function_of_the_default_stream_of_a_thread_that_has_ended() {
    for keep_stream in [true, false] {
        per_thread_stream_of_another_thread(keep_stream, true);
    }
}

/// Makes a context and has it held up, drops it and another one, and then a third. One thread frees for all.
fn close_beside_a_held_up_context(with_things: bool) {
    let (layer, held_layer) = (Layer::default(), Layer::default());
    let (context, held) = (layer.context(), held_layer.context());
    let stream = held.create_stream().unwrap();
    let dropped = (with_things.then(|| (things(&held), module(&held))), things(&context), module(&context));
    let waiting = Waiting::launch(&stream);
    drop(dropped);
    drop(context);
    until("the end of the other context", || layer.all_is_freed());
    assert!(!held_layer.all_is_freed());
    // What is left of a context that is gone does not keep another from freeing either.
    drop((stream, held));
    let third = layer.context();
    drop((things(&third), module(&third), third));
    until("the end of a third context", || layer.all_is_freed());
    assert!(!held_layer.all_is_freed());
    waiting.release();
    until("the end of the context that was held up", || held_layer.all_is_freed());
}

#[test]
fn a_context_is_closed_while_another_is_held_up_that_has_something_to_free() {
    close_beside_a_held_up_context(true);
}

#[test]
fn a_context_is_closed_while_another_is_held_up_that_has_only_to_be_closed() {
    close_beside_a_held_up_context(false);
}
