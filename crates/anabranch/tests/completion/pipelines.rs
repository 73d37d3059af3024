//! Chunks of work in flight.

use super::*;
use anabranch::{Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt};

#[test]
fn results_come_in_order_and_no_more_are_in_flight_than_the_depth() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = context.create_signal().unwrap();
    let queued = AtomicUsize::new(0);
    let mut chunks = stream.pipeline(3, 1..=10u64, |stream, value| {
        queued.fetch_add(1, Ordering::SeqCst);
        stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, value)?;
        Ok(value)
    });
    assert_eq!(queued.load(Ordering::SeqCst), 0, "nothing is queued before it is polled");
    assert!(poll(&mut chunks.next(), Waker::noop()).is_pending());
    for value in 1..=10 {
        assert_eq!(queued.load(Ordering::SeqCst), 10.min(value as usize + 2));
        signal.set(value);
        assert_eq!(block_on(chunks.next()).unwrap().unwrap(), value);
        let _ = poll(&mut chunks.next(), Waker::noop());
    }
    assert!(block_on(chunks.next()).is_none() && block_on(chunks.next()).is_none());
}

#[test]
fn it_ends_after_the_first_error() {
    let stream = host().create_stream().unwrap();
    let chunks = |failing: u32| {
        let chunks = stream.pipeline(2, 0..6u32, move |stream, value| -> Result<u32> {
            stream.launch_host_func(move || {
                if value == failing {
                    std::panic::resume_unwind(Box::new("a chunk"));
                }
            })?;
            if value == 4 { stream.allocate_zeroed::<u64>(usize::MAX / 16).map(|_| 0) } else { Ok(value) }
        });
        block_on(chunks.collect::<Vec<Result<u32>>>())
    };
    let results = chunks(7);
    assert_eq!(results.iter().flatten().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(results[4].as_ref().map_err(Error::status), Err(Status::OUT_OF_MEMORY));
    assert_eq!(results.len(), 5);
    stream.synchronize().unwrap();
    let results = chunks(2);
    assert!(results.len() < 5, "{results:?}");
    assert!(results.last().unwrap().as_ref().unwrap_err().to_string().contains("a chunk"));
}

#[test]
fn it_moves_data() {
    let stream = Arc::new(host().create_stream().unwrap());
    let chunks = Pipeline::new(stream.clone(), 4, 0..32u32, |stream, chunk| {
        let mut buffer = stream.allocate_zeroed::<u32>(64)?;
        stream.fill(&mut buffer, chunk)?;
        Ok(buffer)
    });
    let buffers: Vec<_> = std::thread::spawn(move || block_on(chunks.try_collect()).unwrap()).join().unwrap();
    for (chunk, buffer) in (0..).zip(&buffers) {
        assert_eq!(stream.download(buffer).unwrap(), [chunk; 64]);
    }
    assert_eq!(buffers.len(), 32);
}

#[test]
fn a_depth_of_nothing_is_one() {
    let stream = host().create_stream().unwrap();
    let sum: Vec<u8> = block_on(stream.pipeline(0, 0..4, |_, value| Ok(value)).try_collect()).unwrap();
    assert_eq!(sum, [0, 1, 2, 3]);
}

#[test]
fn dropping_it_leaves_the_work() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let count = Arc::new(AtomicUsize::new(0));
    let inside = count.clone();
    let mut chunks = stream.pipeline(3, 0.., move |stream, _: u64| {
        let inside = inside.clone();
        stream.launch_host_func(move || _ = inside.fetch_add(1, Ordering::SeqCst))
    });
    assert!(poll(&mut chunks.next(), Waker::noop()).is_pending());
    drop(chunks);
    signal.set(1);
    stream.synchronize().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn safety_54_no_chunk_is_missing_silently_after_a_closure_of_a_pipeline_panics() {
    use futures::stream::FusedStream;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    let stream = host().create_stream().unwrap();
    let panicking = |value: u32| {
        if value == 2 {
            resume_unwind(Box::new("on purpose"));
        }
        value
    };
    // In the closure, and in the iterator.
    for in_closure in [true, false] {
        let inputs = (0..6u32).map(|value| if in_closure { value } else { panicking(value) });
        let mut chunks = stream.pipeline(4, inputs, |_, value| Ok(if in_closure { panicking(value) } else { value }));
        assert!(catch_unwind(AssertUnwindSafe(|| block_on(chunks.next()))).is_err());
        assert!(!chunks.is_terminated());
        assert_eq!(block_on(chunks.next()).unwrap().unwrap(), 0);
        assert_eq!(block_on(chunks.next()).unwrap().unwrap(), 1);
        let error: Error = block_on(chunks.next()).expect("the missing chunk is reported").unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Panicked, Status::ILLEGAL_STATE), "{error}");
        assert!(block_on(chunks.next()).is_none() && chunks.is_terminated());
    }
    // In the drop of a later result.
    struct Unwinds(u32);
    impl Drop for Unwinds {
        fn drop(&mut self) {
            if self.0 > 1 {
                resume_unwind(Box::new("on purpose"));
            }
        }
    }
    let mut chunks = stream.pipeline(4, 0..6u32, |stream, value| {
        if value == 1 {
            stream.launch_host_func(|| resume_unwind(Box::new("a chunk")))?;
        }
        Ok(Unwinds(value))
    });
    let results = catch_unwind(AssertUnwindSafe(|| {
        let mut results = Vec::new();
        while let Some(result) = block_on(chunks.next()) {
            results.push(result.map(|value| value.0));
        }
        results
    }));
    let results = results.unwrap_or_else(|_| panic!("the error is lost"));
    assert!(results.last().unwrap().as_ref().unwrap_err().to_string().contains("a chunk"), "{results:?}");
}
