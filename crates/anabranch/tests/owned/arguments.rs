//! Kernels that are given what they use.

use super::*;

/// A kernel that adds the elements of its first argument to those of its second, of as many threads as there are.
fn add(context: &Context) -> anabranch::Kernel {
    let function = HostFunction::new("add", &[8, 8], |block, arguments| {
        let (from, to) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
        block.phase(|thread, _| {
            let index = thread.global_x();
            to.set(index, to.get(index) + from.get(index));
        });
    });
    DualModule::new().host_function(function).load(context).unwrap().kernel("add").unwrap()
}

fn config() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 64)
}

#[test]
fn arguments_come_back_when_the_kernel_has_run() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = add(&context);
    let from = stream.upload(&[3u32; 64]).unwrap();
    let mut to = context.allocate_pinned::<u32>(64).unwrap();
    to.as_mut_slice().unwrap().fill(4);
    let signal = hold(&context, &stream);
    // SAFETY: the kernel has one thread an element, and uses its arguments as they are given.
    let mut launched = unsafe { stream.launch_async(&kernel, &config(), (Reads(from), to)) };
    assert!(poll(&mut launched).is_pending());
    signal.set(1);
    let (Reads(from), to) = block_on(launched).unwrap();
    assert_eq!(to.as_slice().unwrap(), [7; 64]);
    let mut managed = context.allocate_managed::<u32>(64).unwrap();
    managed.as_mut_slice().unwrap().fill(1);
    // SAFETY: as above.
    let launched = unsafe { stream.launch_async(&kernel, &config(), (&from, managed)) };
    assert_eq!(block_on(launched).unwrap().1.as_slice().unwrap(), [4; 64]);
}

#[test]
fn a_kernel_waits_for_readers_of_what_it_writes_and_not_of_what_it_reads() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let kernel = add(&context);
    let shared = stream.upload(&[3u32; 64]).unwrap();
    let mut copy = other.allocate_zeroed::<u32>(64).unwrap();
    let (to, from) = (stream.upload(&[1u32; 64]).unwrap(), stream.upload(&[10u32; 64]).unwrap());
    let signal = hold(&context, &other);
    other.copy(&mut copy, &shared).unwrap();
    // SAFETY: the kernel has one thread an element, and uses its arguments as they are given.
    let reading = unsafe { stream.launch_async(&kernel, &config(), (Reads(shared), to)) };
    let (Reads(shared), to) = block_on(reading).unwrap();
    assert_eq!(stream.download(&to).unwrap(), [4; 64]);
    // SAFETY: as above.
    let mut writing = unsafe { stream.launch_async(&kernel, &config(), (Reads(from), shared)) };
    assert!(poll(&mut writing).is_pending());
    signal.set(1);
    let (_, shared) = block_on(writing).unwrap();
    assert_eq!(other.download(&copy).unwrap(), [3; 64]);
    assert_eq!(stream.download(&shared).unwrap(), [13; 64]);
}

#[test]
fn safety_19_arguments_of_a_cancelled_launch_are_freed_behind_it() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let kernel = add(&context);
    let mut sum = stream.upload(&[1u32; 64]).unwrap();
    for polled in [false, true] {
        for by_launch in [false, true] {
            let before = stream.download(&sum).unwrap()[0];
            let from = stream.upload(&[3u32; 64]).unwrap();
            let signal = hold(&context, &stream);
            if by_launch {
                // SAFETY: the kernel has one thread an element, and uses its arguments as they are given.
                unsafe { stream.launch(&kernel, &config(), (Reads(from), &mut sum)) }.unwrap();
            } else {
                // SAFETY: as above.
                let mut launched = unsafe { stream.launch_async(&kernel, &config(), (Reads(from), &mut sum)) };
                assert!(!polled || poll(&mut launched).is_pending());
                drop(launched);
            }
            // Were the memory free already, this would be in its place.
            let reused = stream.allocate_zeroed::<u32>(64).unwrap();
            let elsewhere = other.allocate_zeroed::<u32>(64).unwrap();
            other.synchronize().unwrap();
            signal.set(1);
            assert_eq!(stream.download(&sum).unwrap(), [before + 3; 64]);
            assert!(
                stream.download(&reused).unwrap().iter().chain(&other.download(&elsewhere).unwrap()).all(|&n| n == 0)
            );
        }
    }
}

#[test]
fn a_launch_that_is_refused_says_why() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = add(&context);
    let buffer = stream.upload(&[3u32; 64]).unwrap();
    // SAFETY: nothing is launched, because an argument is missing.
    let refused = unsafe { stream.launch_async(&kernel, &config(), (buffer,)) };
    assert_eq!(block_on(refused).unwrap_err().status(), Status::INVALID_VALUE);
    let (from, to) = (stream.upload(&[3u32; 64]).unwrap(), stream.upload(&[0u32; 64]).unwrap());
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            // SAFETY: nothing is launched while the stream captures.
            let refused = unsafe { scope.launch_async(&kernel, &config(), (Reads(from), to)) };
            assert_eq!(block_on(refused).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        })
        .unwrap();
    assert!(graph.nodes().unwrap().is_empty());
}

#[test]
fn safety_7_a_graph_keeps_arguments_that_were_given_to_it() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = add(&context);
    let mut sum = stream.upload(&[0u32; 64]).unwrap();
    let from = stream.upload(&[2u32; 64]).unwrap();
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            // SAFETY: the kernel has one thread an element, and uses its arguments as they are given.
            unsafe { scope.launch(&kernel, &config(), (Reads(from), &mut sum)) }
        })
        .unwrap();
    let other = stream.upload(&[100u32; 64]).unwrap();
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
    }
    assert_eq!(stream.download(&sum).unwrap(), [6; 64]);
    drop(other);
}
