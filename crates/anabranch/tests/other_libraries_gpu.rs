//! Memory, streams and work of other libraries on a GPU: `cudarc`, and cuBLAS by its binding. Without a GPU, or without
//! cuBLAS, the tests say so and end.

#![cfg(all(feature = "cuda", not(loom)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::{
    BorrowedStream, Buffer, CaptureMode, Context, DevicePointer, DualModule, Instance, LaunchConfig, Stream,
    StreamHandle,
};
use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, result as cublas};
use cudarc::driver::{CudaContext, CudaStream, DevicePtrMut, result as driver};
use std::sync::Arc;

anabranch::kernels! {
    /// The kernels of `twice.cu`.
    struct Kernels {
        fn twice(data: &mut [f32], count: u32);
    }
}

const COUNT: usize = 1000;

/// The primary context of the first GPU, as this library and as cudarc see it.
fn contexts() -> Option<(Context, Arc<CudaContext>)> {
    let device = match Instance::new().unwrap().device("cuda:0") {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    Some((device.context().unwrap(), CudaContext::new(0).unwrap()))
}

fn kernels(context: &Context) -> Kernels {
    Kernels::load(&DualModule::new().ptx(include_str!("data/twice.ptx")).load(context).unwrap()).unwrap()
}

fn numbers() -> Vec<f32> {
    (0..COUNT).map(|number| number as f32).collect()
}

fn doubled() -> Vec<f32> {
    numbers().iter().map(|number| 2.0 * number).collect()
}

/// A stream of this library as cudarc sees it.
fn as_theirs(context: &Arc<CudaContext>, stream: &Stream) -> Arc<CudaStream> {
    // SAFETY: the tests keep the stream for longer, and order what cudarc submits to it.
    unsafe { context.wrap_borrowed_stream(stream.as_raw().as_raw() as _) }
}

#[test]
fn a_kernel_works_on_memory_of_cudarc() {
    let Some((context, cudarc)) = contexts() else { return };
    let (kernels, stream, theirs) = (kernels(&context), context.create_stream().unwrap(), cudarc.new_stream().unwrap());
    let mut slice = theirs.clone_htod(&numbers()).unwrap();
    {
        // The stream waits for what cudarc does with the memory. When the guard is dropped, cudarc knows of this use.
        let ours = as_theirs(&cudarc, &stream);
        let (address, _guard) = slice.device_ptr_mut(&ours);
        // SAFETY: cudarc keeps the memory, which has so many numbers, and does not use it before the guard is dropped.
        let mut buffer = unsafe { Buffer::<f32>::from_raw_parts(&context, DevicePointer(address), COUNT, ()).unwrap() };
        let config = LaunchConfig::for_elements(COUNT as u32);
        // SAFETY: each of the kernel's threads doubles one of `COUNT` numbers.
        unsafe { kernels.twice(&mut buffer, COUNT as u32).launch(&stream, &config).unwrap() };
    }
    assert_eq!(theirs.clone_dtoh(&slice).unwrap(), doubled());
}

#[test]
fn cudarc_memory_is_freed_behind_the_last_use() {
    let Some((context, cudarc)) = contexts() else { return };
    let (kernels, stream, theirs) = (kernels(&context), context.create_stream().unwrap(), cudarc.new_stream().unwrap());
    for _ in 0..20 {
        let mut slice = theirs.clone_htod(&numbers()).unwrap();
        theirs.synchronize().unwrap();
        let address = slice.device_ptr_mut(&theirs).0;
        // SAFETY: the slice is the keeper, and nobody uses it any more.
        let mut buffer =
            unsafe { Buffer::<f32>::from_raw_parts(&context, DevicePointer(address), COUNT, slice).unwrap() };
        let config = LaunchConfig::for_elements(COUNT as u32);
        // SAFETY: as above.
        unsafe { kernels.twice(&mut buffer, COUNT as u32).launch(&stream, &config).unwrap() };
        assert_eq!(stream.download(&buffer).unwrap(), doubled());
    }
}

#[test]
fn cudarc_works_on_memory_and_streams_of_this_library() {
    let Some((context, cudarc)) = contexts() else { return };
    let [writer, reader] = [(); 2].map(|()| context.create_stream().unwrap());
    let theirs = cudarc.new_stream().unwrap();
    let mut buffer = writer.upload(&numbers()).unwrap();
    let (address, bytes) = (buffer.device_pointer(), size_of::<f32>() * COUNT);
    // In a stream of this library.
    let filled = writer.submit_foreign((&mut buffer,), |stream| {
        // SAFETY: the memory has so many bytes, and this use is ordered.
        unsafe { driver::memset_d8_async(address.0, 0x3f, bytes, stream.as_raw() as _) }
    });
    filled.unwrap().unwrap();
    let value = f32::from_ne_bytes([0x3f; 4]);
    assert_eq!(reader.download(&buffer).unwrap(), [value; COUNT]);
    // In one of theirs.
    // SAFETY: cudarc's stream is of the same context, and outlives this one.
    let borrowed = unsafe { BorrowedStream::from_raw(&context, StreamHandle::from_raw(theirs.cu_stream() as usize)) };
    let read = borrowed.unwrap().submit_foreign((&buffer,), |_| {
        // SAFETY: the memory has so many numbers, and cudarc is not to free it.
        let slice = unsafe { theirs.upgrade_device_ptr::<f32>(address.0, COUNT) };
        let read = theirs.clone_dtoh(&slice);
        let _ = slice.leak();
        read
    });
    assert_eq!(read.unwrap().unwrap(), [value; COUNT]);
}

#[test]
fn cublas_is_captured_into_a_graph() {
    let Some((context, cudarc)) = contexts() else { return };
    // SAFETY: loading the library runs nothing but its own initialisation.
    if !unsafe { cudarc::cublas::sys::is_culib_present() } {
        return eprintln!("skipped: there is no cuBLAS");
    }
    const SIDE: usize = 64;
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let blas = CudaBlas::new(as_theirs(&cudarc, &stream)).unwrap();
    let (left, right): (Vec<f32>, Vec<f32>) =
        (0..SIDE * SIDE).map(|index| ((index % 7) as f32, (index % 5) as f32 - 2.0)).unzip();
    // Column by column, as cuBLAS has it. All sums are whole numbers.
    let expected: Vec<f32> = (0..SIDE * SIDE)
        .map(|index| (0..SIDE).map(|k| left[k * SIDE + index % SIDE] * right[index / SIDE * SIDE + k]).sum())
        .collect();
    let (a, mut b) = (other.upload(&left).unwrap(), other.upload(&right).unwrap());
    let mut product = other.allocate_zeroed::<f32>(SIDE * SIDE).unwrap();
    let addresses = (a.device_pointer().0, b.device_pointer().0, product.device_pointer().0);
    let multiply = |_: StreamHandle| {
        let (one, zero, n) = (1.0, 0.0, SIDE as i32);
        let (a, b, c) = addresses;
        // SAFETY: the matrices have that size, and the call is ordered with their other uses.
        unsafe {
            cublas::sgemm(
                *blas.handle(),
                CUBLAS_OP_N,
                CUBLAS_OP_N,
                n,
                n,
                n,
                &one,
                a as _,
                n,
                b as _,
                n,
                &zero,
                c as _,
                n,
            )
        }
    };
    stream.submit_foreign((&a, &b, &mut product), multiply).unwrap().unwrap();
    assert_eq!(other.download(&product).unwrap(), expected);
    let graph = stream.capture(CaptureMode::ThreadLocal, |scope| {
        scope.fill(&mut product, 0.0)?;
        let captured = scope.submit_foreign((&a, &b, &mut product), multiply)?;
        captured.unwrap();
        Ok(())
    });
    let graph = graph.unwrap().instantiate().unwrap();
    for factor in [1.0, 2.0, -3.0f32] {
        let changed: Vec<f32> = right.iter().map(|number| factor * number).collect();
        other.copy_from_host(&mut b, &changed).unwrap();
        graph.launch(&stream).unwrap();
        let expected: Vec<f32> = expected.iter().map(|number| factor * number).collect();
        assert_eq!(other.download(&product).unwrap(), expected);
    }
}
