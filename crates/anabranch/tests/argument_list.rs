//! Arguments whose number and types are known only at run time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{ArgumentList, Context, DualModule, HostFunction, Kernel, LaunchConfig, Scalar, Status};
use common::{hold, host};

fn one() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

/// A kernel that writes the sum of so many numbers of 16 bits and one of 16 bytes to its first argument.
fn sum(context: &Context, count: usize) -> Kernel {
    let mut sizes = vec![2; count + 2];
    (sizes[0], sizes[1]) = (8, 16);
    let function = HostFunction::new("sum", &sizes, move |_, arguments| {
        let numbers: u64 = (0..count).map(|index| u64::from(arguments.scalar::<u16>(index + 2))).sum();
        let [low, high] = arguments.scalar::<[u64; 2]>(1);
        arguments.slice::<u64>(0).set(0, numbers + low * high);
    });
    DualModule::new().host_function(function).load(context).unwrap().kernel("sum").unwrap()
}

#[test]
fn there_can_be_more_than_a_tuple_has() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for count in [0u16, 1, 14, 15, 100] {
        let mut result = stream.allocate_zeroed::<u64>(1).unwrap();
        // Loading waits for the context, so that it comes before what holds a stream up.
        let kernel = sum(&context, count.into());
        let signal = hold(&context, &stream);
        let mut arguments = ArgumentList::new();
        arguments.push(&mut result);
        arguments.push(Scalar([3u64, 7]));
        for number in 0..count {
            // By type and by bytes in turns.
            match number % 2 {
                0 => arguments.push(number),
                _ => arguments.push_bytes(&number.to_ne_bytes()),
            }
        }
        assert_eq!(arguments.len(), usize::from(count) + 2);
        // In another stream, behind the memory's earlier use.
        other.launch_checked(&kernel, &one(), &arguments).unwrap();
        other.launch_checked(&kernel, &one(), arguments).unwrap();
        assert!(!other.is_complete().unwrap());
        signal.set(1);
        let expected = 21 + (0..u64::from(count)).sum::<u64>();
        assert_eq!(stream.download(&result).unwrap(), [expected], "{count}");
    }
}

#[test]
fn a_list_owns_what_it_was_given() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut arguments = ArgumentList::new();
    let buffer = stream.allocate_zeroed::<u64>(1).unwrap();
    let address = buffer.device_pointer();
    arguments.push(buffer);
    arguments.push_bytes(bytemuck::bytes_of(&[1u64, 2]));
    stream.launch_checked(&sum(&context, 0), &one(), arguments).unwrap();
    let again = stream.allocate_zeroed::<u64>(1).unwrap();
    assert_eq!(again.device_pointer(), address, "it was freed behind the launch");
}

#[test]
fn a_list_is_compared_with_the_kernel() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (kernel, mut result) = (sum(&context, 1), stream.allocate_zeroed::<u64>(1).unwrap());
    let mut list = |values: &[&[u8]]| {
        let mut arguments = ArgumentList::new();
        arguments.push(&mut result);
        values.iter().for_each(|value| arguments.push_bytes(value));
        stream.launch_checked(&kernel, &one(), arguments).map_err(|error| error.status())
    };
    assert_eq!(list(&[&[0; 16], &[0; 2]]), Ok(()));
    assert_eq!(list(&[&[0; 16]]), Err(Status::INVALID_VALUE));
    assert_eq!(list(&[&[0; 16], &[0; 2], &[]]), Err(Status::INVALID_VALUE));
    assert_eq!(list(&[&[0; 16], &[0; 4]]), Err(Status::INVALID_VALUE));
    assert_eq!(list(&[&[0; 8], &[0; 2]]), Err(Status::INVALID_VALUE));
    assert_eq!(
        stream.launch_checked(&kernel, &one(), ArgumentList::new()).unwrap_err().status(),
        Status::INVALID_VALUE
    );
}

#[test]
fn a_value_of_more_bytes_than_kernels_take_is_refused() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut arguments = ArgumentList::new();
    arguments.push_bytes(&vec![0; 1 << 20]);
    arguments.push_bytes(&[0; 16]);
    let refused = stream.launch_checked(&sum(&context, 0), &one(), arguments).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
}

#[test]
fn the_bytes_of_an_address_are_a_number() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.allocate_zeroed::<u64>(1).unwrap();
    let mut arguments = ArgumentList::new();
    arguments.push_bytes(&buffer.device_pointer().0.to_ne_bytes());
    arguments.push_bytes(&[0; 16]);
    // SAFETY: the kernel is a closure that cannot reach memory by a number.
    unsafe { stream.launch(&sum(&context, 0), &one(), arguments) }.unwrap();
    assert_eq!(stream.synchronize().unwrap_err().status(), Status::ILLEGAL_ADDRESS);
}
