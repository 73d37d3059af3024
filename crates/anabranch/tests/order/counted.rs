//! How many orders the library inserts.

use super::{is_held, streams};
use crate::common::{hold, host};
use anabranch::{BorrowedStream, Buffer, Context, DualModule, HostFunction, Instance, Kernel, LaunchConfig};

/// A kernel that adds the first argument's number to those of the two others.
fn add_to_both(context: &Context) -> Kernel {
    let function = HostFunction::new("add_to_both", &[8, 8, 8], |_, arguments| {
        let [from, left, right] = [0, 1, 2].map(|argument| arguments.slice::<u32>(argument));
        left.set(0, left.get(0) + from.get(0));
        right.set(0, right.get(0) + from.get(0));
    });
    DualModule::new().host_function(function).load(context).unwrap().kernel("add_to_both").unwrap()
}

#[test]
fn one_stream_needs_no_order() {
    let context = host();
    let [stream] = streams(&context);
    let mut memory = stream.upload(&[1u32]).unwrap();
    let mut copy = stream.allocate_zeroed::<u32>(1).unwrap();
    for value in 0..5 {
        stream.fill(&mut memory, value).unwrap();
        stream.copy(&mut copy, &memory).unwrap();
        stream.record_event().unwrap();
    }
    assert_eq!(stream.download(&copy).unwrap(), [4]);
    assert_eq!((stream.orders_inserted(), context.orders_inserted()), (0, 0));
}

#[test]
fn two_handles_of_one_stream_need_no_order_and_count_together() {
    let context = host();
    let [stream, other] = streams(&context);
    let mut memory = stream.upload(&[1u32]).unwrap();
    let signal = hold(&context, &stream);
    // SAFETY: the stream lives as long as the handle.
    let again = unsafe { BorrowedStream::from_raw(&context, stream.as_raw()) }.unwrap();
    again.fill(&mut memory, 2).unwrap();
    stream.fill(&mut memory, 3).unwrap();
    let borrowed = stream.to_borrowed();
    borrowed.fill(&mut memory, 4).unwrap();
    assert_eq!(stream.orders_inserted(), 0);
    // Uses through handles that were dropped are followed too.
    drop((again, borrowed));
    let mut copy = other.allocate_zeroed::<u32>(1).unwrap();
    other.copy(&mut copy, &memory).unwrap();
    assert!(is_held(&other));
    stream.to_borrowed().fill(&mut copy, 5).unwrap();
    assert_eq!((other.orders_inserted(), stream.orders_inserted()), (1, 1));
    signal.set(1);
    assert_eq!(other.download(&memory).unwrap(), [4]);
    assert_eq!(other.download(&copy).unwrap(), [5]);
}

#[test]
fn a_consumer_waits_for_its_producer_once() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let mut memory = producer.allocate_zeroed::<u32>(1).unwrap();
    let mut copy = consumer.allocate_zeroed::<u32>(1).unwrap();
    for round in 1..4 {
        let signal = hold(&context, &producer);
        producer.fill(&mut memory, 7).unwrap();
        consumer.copy(&mut copy, &memory).unwrap();
        consumer.copy(&mut copy, &memory).unwrap();
        assert!(is_held(&consumer));
        assert_eq!(consumer.orders_inserted(), round);
        signal.set(1);
        assert_eq!(consumer.download(&copy).unwrap(), [7]);
    }
    // The producer comes after what the consumer was known to have done on the host.
    assert_eq!(producer.orders_inserted(), 0);
    assert_eq!(context.orders_inserted(), 3);
}

#[test]
fn a_writer_waits_for_each_reader_and_not_for_the_writer_before_them() {
    let context = host();
    let [first, second, third, writer, last] = streams(&context);
    let mut memory = first.allocate_zeroed::<u32>(1).unwrap();
    let signal = hold(&context, &first);
    first.fill(&mut memory, 3).unwrap();
    let mut copies: Vec<Buffer<u32>> = Vec::new();
    for reader in [&second, &third, &last] {
        let mut copy = reader.allocate_zeroed(1).unwrap();
        reader.copy(&mut copy, &memory).unwrap();
        copies.push(copy);
    }
    writer.fill(&mut memory, 4).unwrap();
    assert_eq!([&second, &third, &last, &writer].map(|stream| stream.orders_inserted()), [1, 1, 1, 3]);
    // One that reads and then writes has come after the writer, and waits for the other readers.
    let signals = [&second, &third].map(|reader| hold(&context, reader));
    for (reader, copy) in [&second, &third].into_iter().zip(&mut copies) {
        reader.copy(copy, &memory).unwrap();
    }
    last.copy(&mut copies[2], &memory).unwrap();
    last.fill(&mut memory, 5).unwrap();
    assert_eq!([&second, &third, &last].map(|stream| stream.orders_inserted()), [2, 2, 4]);
    signal.set(1);
    for signal in signals {
        assert!(is_held(&last));
        signal.set(1);
    }
    assert_eq!(last.download(&memory).unwrap(), [5]);
    for (stream, copy) in [&second, &third, &last].into_iter().zip(&copies) {
        assert_eq!(stream.download(copy).unwrap(), [4]);
    }
}

#[test]
fn a_launch_that_meets_a_stream_thrice_waits_for_it_once() {
    let context = host();
    let kernel = add_to_both(&context);
    let [producer, consumer] = streams(&context);
    let (mut from, mut left, mut right) = (
        producer.allocate_zeroed::<u32>(1).unwrap(),
        producer.allocate_zeroed::<u32>(1).unwrap(),
        producer.allocate_zeroed::<u32>(1).unwrap(),
    );
    let signal = hold(&context, &producer);
    producer.fill(&mut from, 1).unwrap();
    producer.fill(&mut left, 2).unwrap();
    // A record between the uses does not make them two.
    producer.record_event().unwrap();
    producer.fill(&mut right, 3).unwrap();
    // SAFETY: the kernel reads one number of the first argument, and adds to one of each of the others.
    unsafe { consumer.launch(&kernel, &LaunchConfig::new(1, 1), (&from, &mut left, &mut right)) }.unwrap();
    assert_eq!(consumer.orders_inserted(), 1);
    assert!(is_held(&consumer));
    producer.copy(&mut left, &right).unwrap();
    assert_eq!(producer.orders_inserted(), 1);
    signal.set(1);
    assert_eq!(producer.download(&left).unwrap(), [4]);
    assert_eq!(consumer.download(&right).unwrap(), [4]);
}

#[test]
fn freeing_waits_for_what_it_does_not_come_after() {
    let context = host();
    let [home, reader, other] = streams(&context);
    let memory = home.upload(&[3u32; 64]).unwrap();
    let mut copies = [&reader, &other].map(|stream| stream.allocate_zeroed::<u32>(64).unwrap());
    let signal = hold(&context, &reader);
    reader.copy(&mut copies[0], &memory).unwrap();
    reader.copy(&mut copies[0], &memory).unwrap();
    home.wait(&reader.record_event().unwrap()).unwrap();
    drop(memory);
    assert_eq!(home.orders_inserted(), 0, "the home stream came after the reader");
    let memory = home.upload_later(&[4u32; 64]);
    reader.copy(&mut copies[0], &memory).unwrap();
    other.copy(&mut copies[1], &memory).unwrap();
    reader.wait(&other).unwrap();
    drop(memory);
    let inserted = home.orders_inserted();
    assert_eq!(inserted, 1, "behind the reader, which came after the other one");
    signal.set(1);
    assert_eq!(reader.download(&copies[0]).unwrap(), [4; 64]);
}

/// What uploads without waiting.
trait UploadLater {
    fn upload_later(&self, values: &[u32]) -> Buffer<u32>;
}

impl UploadLater for anabranch::Stream {
    fn upload_later(&self, values: &[u32]) -> Buffer<u32> {
        let mut buffer = self.allocate_zeroed::<u32>(values.len()).unwrap();
        self.fill(&mut buffer, values[0]).unwrap();
        buffer
    }
}

#[test]
fn memory_whose_home_has_ended_is_freed_behind_its_end_and_its_other_uses() {
    let context = host();
    let [home, reader] = streams(&context);
    let memory = home.upload_later(&[4u32; 64]);
    let mut copy = reader.allocate_zeroed::<u32>(64).unwrap();
    let signal = hold(&context, &reader);
    reader.copy(&mut copy, &memory).unwrap();
    drop(home);
    let before = context.orders_inserted();
    drop(memory);
    assert_eq!(context.orders_inserted() - before, 2);
    signal.set(1);
    assert_eq!(reader.download(&copy).unwrap(), [4; 64]);
}

#[test]
fn a_context_counts_streams_that_have_ended() {
    let context = host();
    let [producer] = streams(&context);
    let mut memory = producer.allocate_zeroed::<u32>(1).unwrap();
    for round in 1..=3 {
        let [consumer] = streams(&context);
        consumer.fill(&mut memory, 1).unwrap();
        assert_eq!((consumer.orders_inserted(), context.orders_inserted()), (1, round));
    }
    assert_eq!(producer.orders_inserted(), 0);
}

#[test]
fn a_stream_that_followed_very_many_forgets_and_never_errs() {
    let context = host();
    let [main] = streams(&context);
    let mut memory = main.allocate_zeroed::<u32>(1).unwrap();
    let mut expected = 0;
    for value in 0..200 {
        let [task] = streams(&context);
        let signal = hold(&context, &task);
        task.fill(&mut memory, value).unwrap();
        main.wait(&task.record_event().unwrap()).unwrap();
        main.fill(&mut memory, value + 1).unwrap();
        assert!(is_held(&main));
        expected += 1;
        signal.set(1);
    }
    assert_eq!((main.orders_inserted(), context.orders_inserted()), (0, expected - 1 + 1));
    assert_eq!(main.download(&memory).unwrap(), [200]);
}

#[test]
fn streams_of_two_devices_are_ordered_and_counted_where_they_wait() {
    let instance = Instance::builder().cuda(false).host_devices(2).build().unwrap();
    let [first, second] = ["host:0", "host:1"].map(|name| instance.device(name).unwrap().context().unwrap());
    let ([producer], [consumer]) = (streams(&first), streams(&second));
    let mut source = producer.upload(&[1u32; 4]).unwrap();
    let mut copy = consumer.allocate_zeroed::<u32>(4).unwrap();
    let signal = hold(&first, &producer);
    producer.fill(&mut source, 7).unwrap();
    consumer.copy_peer(&mut copy, &source).unwrap();
    assert!(is_held(&consumer));
    assert_eq!((first.orders_inserted(), second.orders_inserted()), (0, 1));
    producer.fill(&mut source, 8).unwrap();
    assert_eq!((first.orders_inserted(), second.orders_inserted()), (1, 1));
    // By hand across devices.
    let event = producer.record_event().unwrap();
    consumer.wait(&event).unwrap();
    consumer.copy_peer(&mut copy, &source).unwrap();
    assert_eq!((first.orders_inserted(), second.orders_inserted()), (1, 1));
    assert!(is_held(&consumer));
    signal.set(1);
    assert_eq!(consumer.download(&copy).unwrap(), [8; 4]);
}

#[test]
fn default_streams_are_ordered_once() {
    let context = host();
    let (legacy, own) = (context.legacy_stream().unwrap(), context.per_thread_stream().unwrap());
    let [stream] = streams(&context);
    let mut memory = legacy.allocate_zeroed::<u32>(1).unwrap();
    let signal = hold(&context, &legacy);
    legacy.fill(&mut memory, 1).unwrap();
    context.legacy_stream().unwrap().fill(&mut memory, 2).unwrap();
    own.fill(&mut memory, 3).unwrap();
    context.per_thread_stream().unwrap().fill(&mut memory, 4).unwrap();
    stream.wait(&own.record_event().unwrap()).unwrap();
    stream.fill(&mut memory, 5).unwrap();
    assert_eq!([&legacy, &own, &stream].map(|stream| stream.orders_inserted()), [0, 1, 0]);
    assert!(is_held(&stream));
    signal.set(1);
    assert_eq!(stream.download(&memory).unwrap(), [5]);
}

#[test]
fn the_default_stream_of_another_thread_is_followed_up_to_its_last_use() {
    let context = host();
    let [stream] = streams(&context);
    let mut memory = stream.allocate_zeroed::<u32>(1).unwrap();
    stream.synchronize().unwrap();
    let (signal, memory_of_thread) = std::thread::scope(|scope| {
        let context = &context;
        let thread = scope.spawn(move || {
            let own = context.per_thread_stream().unwrap();
            let signal = hold(context, &own);
            own.fill(&mut memory, 7).unwrap();
            assert_eq!(own.orders_inserted(), 0, "the host had waited for the other");
            (signal, memory)
        });
        thread.join().unwrap()
    });
    super::copy_waits(&stream, &memory_of_thread, 1, &signal);
}
