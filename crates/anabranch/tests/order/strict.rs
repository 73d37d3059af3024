//! Strict order: what the library would order is refused.

use super::streams;
use crate::common::{hold, host};
use anabranch::{
    BatchCopy, BatchRegion, Buffer, CaptureMode, Context, CopyHints, DualModule, ErrorKind, HostFunction, Kernel,
    LaunchConfig, Region, Result, Status, Stream, Volume, VolumeMut, WaitCondition,
};

/// Expects that an operation on `stream` was refused because of `earlier`, and did nothing.
#[track_caller]
fn expect_refusal(result: Result<()>, operation: &str, stream: &Stream, earlier: &Stream) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Argument, Status::ILLEGAL_STATE), "{error}");
    assert_eq!(error.operation(), operation);
    let text = error.to_string();
    for stream in [stream, earlier] {
        assert!(text.contains(&format!("stream {}", stream.id())), "{text}");
    }
    for remedy in ["record an event", "wait for it", "set_strict_order"] {
        assert!(text.contains(remedy), "{text}");
    }
    assert_eq!(stream.context().orders_inserted(), 0);
}

/// A producer, which is held up with work on two buffers, and a consumer.
struct Case {
    context: Context,
    producer: Stream,
    consumer: Stream,
    used: Buffer<u32>,
    fresh: Buffer<u32>,
    /// `first = second`.
    kernel: Kernel,
    signal: anabranch::Signal,
}

impl Case {
    fn new() -> Self {
        let context = host();
        let [producer, consumer] = streams(&context);
        let mut used = producer.allocate_zeroed::<u32>(4).unwrap();
        let fresh = consumer.allocate_zeroed::<u32>(4).unwrap();
        context.synchronize().unwrap();
        let function = HostFunction::new("copy", &[8, 8], |_, arguments| {
            arguments.slice::<u32>(0).set(0, arguments.slice::<u32>(1).get(0));
        });
        // Loading waits for all work.
        let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("copy").unwrap();
        let signal = hold(&context, &producer);
        producer.fill(&mut used, 7).unwrap();
        assert!(!context.strict_order());
        context.set_strict_order(true);
        assert!(context.strict_order() && producer.context().strict_order());
        Self { context, producer, consumer, used, fresh, kernel, signal }
    }

    /// Expects that `operate` is refused, and not once the order is made by hand. Nothing that was refused is queued.
    #[track_caller]
    fn expect(
        mut self,
        operation: &str,
        mut operate: impl FnMut(&Stream, &mut Buffer<u32>, &mut Buffer<u32>) -> Result<()>,
    ) {
        for _ in 0..2 {
            let refused = operate(&self.consumer, &mut self.used, &mut self.fresh);
            expect_refusal(refused, operation, &self.consumer, &self.producer);
        }
        // Nothing is queued, so that the stream is not held up; and the other buffer is used by nobody else.
        self.consumer.synchronize().unwrap();
        let [bystander] = streams(&self.context);
        bystander.fill(&mut self.fresh, 1).unwrap();
        bystander.synchronize().unwrap();
        self.consumer.wait(&self.producer.record_event().unwrap()).unwrap();
        self.signal.set(1);
        operate(&self.consumer, &mut self.used, &mut self.fresh).unwrap();
        assert_eq!(self.context.orders_inserted(), 0);
    }
}

#[test]
fn copies_are_refused() {
    Case::new().expect("copying", |stream, used, fresh| stream.copy(fresh, &*used));
    Case::new().expect("copying", |stream, used, fresh| stream.copy(used, &*fresh));
    Case::new().expect("copying between contexts", |stream, used, fresh| stream.copy_peer(fresh, &*used));
    let region = Region { extent: [2, 2, 1], ..Region::default() };
    Case::new().expect("copying a region between contexts", |stream, used, fresh| {
        stream.copy_region_peer(VolumeMut::new(fresh, 2, 2), Volume::new(&*used, 2, 2), &region)
    });
    Case::new().expect("copying", |stream, used, _| stream.copy_from_host(used, &[1; 4]));
    Case::new().expect("copying", |stream, used, _| stream.download(&*used).map(drop));
}

#[test]
fn copies_of_regions_are_refused() {
    let region = Region { extent: [2, 2, 1], ..Region::default() };
    Case::new().expect("copying a region", |stream, used, fresh| {
        stream.copy_region(VolumeMut::new(fresh, 2, 2), Volume::new(&*used, 2, 2), &region)
    });
    Case::new().expect("copying a region", |stream, used, _| {
        stream.copy_region_from_host(VolumeMut::new(used, 2, 2), &[1; 4], 2, 2, &region)
    });
    Case::new().expect("copying a region", |stream, used, _| {
        stream.copy_region_to_host(&mut [0; 4], 2, 2, Volume::new(&*used, 2, 2), &region)
    });
}

#[test]
fn batches_of_copies_are_refused() {
    let region = Region { extent: [2, 2, 1], ..Region::default() };
    Case::new()
        .expect("copying a batch", |stream, used, fresh| stream.copy_batch([BatchCopy::new(&mut *fresh, &*used)?]));
    Case::new()
        .expect("copying a batch", |stream, used, fresh| stream.copy_batch([BatchCopy::new(&mut *used, &*fresh)?]));
    Case::new()
        .expect("copying a batch", |stream, used, _| stream.copy_batch([BatchCopy::from_host(&mut *used, &[1; 4])?]));
    Case::new().expect("copying", |stream, used, fresh| stream.copy_with_hints(fresh, &*used, CopyHints::default()));
    Case::new().expect("copying a batch of regions", |stream, used, fresh| {
        let (to, from) = (VolumeMut::new(&mut *fresh, 2, 2), Volume::new(&*used, 2, 2));
        stream.copy_region_batch([BatchRegion::new(to, from, &region)?])
    });
}

#[test]
fn fills_are_refused() {
    Case::new().expect("filling", |stream, used, _| stream.fill(used, 3));
    Case::new().expect("filling", |stream, used, _| stream.fill_zero(used));
}

#[test]
fn launches_are_refused_before_any_argument_is_looked_after() {
    let case = Case::new();
    let kernel = case.kernel.clone();
    case.expect("launching a kernel", |stream, used, fresh| {
        // SAFETY: the kernel writes one number of the first argument, and reads one of the second.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (fresh, &*used)) }
    });
}

#[test]
fn launches_of_graphs_are_refused() {
    let mut case = Case::new();
    let [other] = streams(&case.context);
    let executable = {
        let Case { used, fresh, .. } = &mut case;
        other.capture_executable(CaptureMode::Relaxed, |scope| scope.copy(fresh, &*used)).unwrap()
    };
    case.expect("launching a graph", |stream, _, _| executable.launch(stream));
}

#[test]
fn prefetches_are_refused() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let mut memory = context.allocate_managed::<u32>(4).unwrap();
    let source = producer.upload(&[1u32; 4]).unwrap();
    producer.copy(&mut memory, &source).unwrap();
    context.set_strict_order(true);
    expect_refusal(consumer.prefetch(&memory, false), "prefetching managed memory", &consumer, &producer);
    consumer.wait(&producer).unwrap();
    consumer.prefetch(&memory, false).unwrap();
}

#[test]
fn what_has_no_order_is_not_refused() {
    let Case { context, producer, consumer, fresh, signal, .. } = Case::new();
    // Readers among each other, signals, and what the host has waited for.
    let mut copies = [&producer, &consumer].map(|stream| stream.allocate_zeroed::<u32>(4).unwrap());
    for (stream, copy) in [&producer, &consumer].into_iter().zip(&mut copies) {
        stream.copy(copy, &fresh).unwrap();
    }
    let shared = context.create_signal().unwrap();
    consumer.write_signal(&shared, 1).unwrap();
    producer.wait_signal(&shared, WaitCondition::GreaterOrEqual, 1).unwrap();
    signal.set(1);
    producer.synchronize().unwrap();
    consumer.copy(&mut copies[0], &fresh).unwrap();
    assert_eq!(context.orders_inserted(), 0);
}

#[test]
fn dropping_memory_still_orders() {
    let Case { context, producer, consumer, used, fresh, signal, .. } = Case::new();
    consumer.wait(&producer).unwrap();
    let mut fresh = fresh;
    consumer.copy(&mut fresh, &used).unwrap();
    drop(used);
    assert_eq!((producer.orders_inserted(), context.orders_inserted()), (1, 1));
    signal.set(1);
    assert_eq!(consumer.download(&fresh).unwrap(), [7; 4]);
}

#[test]
fn it_can_be_turned_off_again() {
    let Case { context, producer, consumer, mut used, signal, .. } = Case::new();
    expect_refusal(consumer.fill(&mut used, 8), "filling", &consumer, &producer);
    context.set_strict_order(false);
    consumer.fill(&mut used, 8).unwrap();
    assert_eq!(consumer.orders_inserted(), 1);
    signal.set(1);
    assert_eq!(consumer.download(&used).unwrap(), [8; 4]);
}

#[test]
fn uses_within_a_capture_are_refused() {
    let context = host();
    let [stream, other, third] = streams(&context);
    let source = stream.upload(&[5u32]).unwrap();
    let mut middle = stream.allocate_zeroed::<u32>(1).unwrap();
    let mut result = stream.allocate_zeroed::<u32>(1).unwrap();
    context.synchronize().unwrap();
    context.set_strict_order(true);
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            other.copy(&mut middle, &source)?;
            expect_refusal(scope.copy(&mut result, &middle), "copying", scope, &other);
            // A stream that is not a member of the capture yet does not join it.
            expect_refusal(third.fill(&mut middle, 1), "filling", &third, &other);
            assert!(!third.is_capturing()?);
            scope.join(&other)?;
            scope.copy(&mut result, &middle)
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 2);
    assert_eq!(context.orders_inserted(), 0);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&result).unwrap(), [5]);
}

#[test]
fn conditions_that_come_after_less_than_the_capture_are_refused() {
    let context = host();
    let [stream, other] = streams(&context);
    let condition = stream.upload(&[1u32]).unwrap();
    let mut result = stream.allocate_zeroed::<u32>(1).unwrap();
    let mut inside = stream.allocate_zeroed::<u32>(1).unwrap();
    context.synchronize().unwrap();
    context.set_strict_order(true);
    let executable = stream
        .capture_executable(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            other.fill(&mut result, 3u32)?;
            let mut ran = false;
            let refused = scope.capture_if(&condition, |_| {
                ran = true;
                Ok(())
            });
            expect_refusal(refused, "capturing a condition", scope, &other);
            assert!(!ran, "nothing is captured before");
            scope.join(&other)?;
            scope.capture_if(&condition, |part| part.fill(&mut inside, 4u32))
        })
        .unwrap();
    assert_eq!(context.orders_inserted(), 0);
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&inside).unwrap(), [4]);
}
