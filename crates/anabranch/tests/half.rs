//! Numbers of 16 bits in buffers, fills and kernels.

#![cfg(feature = "half")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::half::{bf16, f16};
use anabranch::{ArgumentList, Buffer, DualModule, FillElement, HostFunction, LaunchConfig, NodeWork, Scalar, Status};
use common::host;

#[test]
fn buffers_and_fills() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let source: Vec<f16> = (0..100u8).map(f16::from).collect();
    let mut buffer = stream.upload(&source).unwrap();
    stream.fill(buffer.slice_mut(1..3).unwrap(), f16::from_f32(-0.5)).unwrap();
    let found = stream.download(&buffer).unwrap();
    assert_eq!(found[..4], [0.0, -0.5, -0.5, 3.0].map(f16::from_f32));
    assert_eq!(found[4..], source[4..]);

    let mut brain = context.allocate_pinned::<bf16>(3).unwrap();
    stream.fill(&mut brain, bf16::from_f32(1.5)).unwrap();
    assert_eq!(brain.as_slice().unwrap(), [bf16::from_f32(1.5); 3]);
    // The bits, and not a number that was converted.
    assert_eq!(brain.as_slice().unwrap()[0].to_bits(), 0x3FC0);
    assert_eq!(FillElement::pattern(bf16::from_f32(1.5)).width(), 2);
    let words = stream.upload(brain.as_slice().unwrap()).unwrap();
    assert_eq!(stream.download(words.slice(..).unwrap().cast::<u16>().unwrap()).unwrap(), [0x3FC0; 3]);
}

#[test]
fn a_fill_is_a_node_of_a_graph() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[f16::ZERO; 5]).unwrap();
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(&mut buffer, f16::ONE).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [f16::ONE; 5]);
}

anabranch::kernels! {
    struct Halves {
        fn scale(to: &mut [f16], from: &[bf16], factor: f16, count: u32);
    }
}

fn scale() -> HostFunction {
    Halves::host_function("scale", |block, arguments| {
        let (to, from) = (arguments.slice::<f16>(0), arguments.slice::<bf16>(1));
        let (factor, count) = (arguments.scalar::<f16>(2), arguments.scalar::<u32>(3) as usize);
        block.phase(|thread, _| {
            let index = thread.global_x();
            if index < count {
                to.set(index, factor * f16::from_f32(from.get(index).to_f32()));
            }
        });
    })
}

#[test]
fn kernels_take_them_by_value_and_in_memory() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().host_function(scale()).load(&context).unwrap();
    let kernels = Halves::load(&module).unwrap();
    let from = stream.upload_elements((0..10u8).map(bf16::from)).unwrap();
    let mut to = stream.allocate_zeroed::<f16>(10).unwrap();
    let config = LaunchConfig::for_elements(10);
    kernels.scale(&mut to, &from, f16::from_f32(0.5), 10).launch_checked(&stream, &config).unwrap();
    let expected: Vec<f16> = (0..10u8).map(|index| f16::from_f32(f32::from(index) / 2.0)).collect();
    assert_eq!(stream.download(&to).unwrap(), expected);

    // The same by a tuple, by a list and as a structure.
    let kernel = module.kernel("scale").unwrap();
    stream.launch_checked(&kernel, &config, (&mut to, &from, f16::ZERO, 10u32)).unwrap();
    assert_eq!(stream.download(&to).unwrap(), [f16::ZERO; 10]);
    let mut list = ArgumentList::new();
    list.push(&mut to);
    list.push(&from);
    list.push(f16::from_f32(0.5));
    list.push(10u32);
    stream.launch_checked(&kernel, &config, list).unwrap();
    assert_eq!(stream.download(&to).unwrap(), expected);
    stream.launch_checked(&kernel, &config, (&mut to, &from, Scalar(f16::ZERO), 10u32)).unwrap();
    assert_eq!(stream.download(&to).unwrap(), [f16::ZERO; 10]);
    let refused = stream.launch_checked(&kernel, &config, (&mut to, &from, 0.5f32, 10u32));
    assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
}

#[test]
fn threads_exchange_them_atomically() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let count = HostFunction::new("count", &[8], |block, arguments| {
        let sum = arguments.slice::<bf16>(0);
        block.phase(|_, _| {
            sum.fetch_update(0, |sum| sum + bf16::ONE);
        });
    });
    let kernel = DualModule::new().host_function(count).load(&context).unwrap().kernel("count").unwrap();
    let mut sum = stream.upload(&[bf16::ZERO]).unwrap();
    stream.launch_checked(&kernel, &LaunchConfig::new(8, 16), (&mut sum,)).unwrap();
    assert_eq!(stream.download(&sum).unwrap(), [bf16::from_f32(128.0)]);
}

#[test]
fn elements_of_iterators_and_closures() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let _entered = stream.enter();
    let buffer = Buffer::from_elements((0..4u8).map(f16::from)).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0, 1, 2, 3].map(|index: u8| f16::from(index)));
    let mut managed = context.allocate_managed::<bf16>(3).unwrap();
    managed.fill_with(|index| bf16::from_f32(index as f32 * 0.25)).unwrap();
    assert_eq!(managed.as_slice().unwrap(), [0.0, 0.25, 0.5].map(bf16::from_f32));
}
