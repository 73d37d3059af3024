//! Tensors as arguments of kernels.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    ArgumentList, Buffer, CaptureMode, Context, DualModule, HostFunction, Kernel, LaunchConfig, Scalar, Status, Stream,
    TensorFill, TensorLayout, TensorMap, TensorMapMut, TensorSwizzle,
};
use common::{checked_host, hold};

/// A kernel that stores the box at (x, y) of the tensor behind the results so far, which are counted in the first of them.
fn load(context: &Context) -> Kernel {
    let function = HostFunction::new("load", &[128, 8, 8, 8], |_, arguments| {
        let (tensor, results) = (arguments.tensor::<f32>(0), arguments.slice::<f32>(1));
        let origin = [arguments.scalar::<i64>(2), arguments.scalar::<i64>(3)];
        assert_eq!((tensor.rank(), tensor.box_len()), (2, results.len()));
        tensor.load(&origin, |place, element| results.set(place, element));
    });
    kernel(context, "load", function)
}

fn kernel(context: &Context, name: &str, function: HostFunction) -> Kernel {
    DualModule::new().host_function(function).load(context).unwrap().kernel(name).unwrap()
}

fn numbers(count: u16) -> Vec<f32> {
    (0..count).map(f32::from).collect()
}

fn once() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

struct Bench {
    context: Context,
    stream: Stream,
    load: Kernel,
    /// 8 columns and 6 rows.
    picture: Buffer<f32>,
}

impl Bench {
    fn new() -> Self {
        let context = checked_host();
        let stream = context.create_stream().unwrap();
        let picture = stream.upload(&numbers(48)).unwrap();
        Self { load: load(&context), context, stream, picture }
    }

    fn load(&self, layout: &TensorLayout, count: usize, [x, y]: [i64; 2]) -> Vec<f32> {
        let mut results = self.stream.upload(&vec![99.0f32; count]).unwrap();
        let tensor = TensorMap::new(&self.picture, layout).unwrap();
        self.stream.launch_checked(&self.load, &once(), (tensor, &mut results, x, y)).unwrap();
        self.stream.download(&results).unwrap()
    }
}

#[test]
fn a_box_is_read_row_by_row() {
    let bench = Bench::new();
    let layout = TensorLayout::new([8, 6], [4, 2]);
    assert_eq!(bench.load(&layout, 8, [0, 0]), [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(bench.load(&layout, 8, [3, 4]), [35.0, 36.0, 37.0, 38.0, 43.0, 44.0, 45.0, 46.0]);
    // The swizzle is about banks.
    let swizzled = layout.with_swizzle(TensorSwizzle::Bytes32);
    assert_eq!(bench.load(&swizzled, 8, [0, 1])[..4], [8.0, 9.0, 10.0, 11.0]);
}

/// In 32 bits, the greatest extent would be 0.
#[test]
fn the_greatest_extent_is_that_of_all_32_bits() {
    let bench = Bench::new();
    // Each row is the first one of the picture.
    for rows in [(1 << 32) - 1, 1 << 32] {
        let layout = TensorLayout::new([8, rows], [4, 1]).with_strides([0]);
        let last = rows.cast_signed() - 1;
        assert_eq!(bench.load(&layout, 4, [0, 0]), [0.0, 1.0, 2.0, 3.0], "{rows}");
        assert_eq!(bench.load(&layout, 4, [4, last]), [4.0, 5.0, 6.0, 7.0], "{rows}");
        assert_eq!(bench.load(&layout, 4, [4, last + 1]), [0.0; 4], "{rows}");
    }
}

#[test]
fn what_is_outside_of_the_tensor_is_filled() {
    let bench = Bench::new();
    let layout = TensorLayout::new([8, 6], [4, 2]);
    assert_eq!(bench.load(&layout, 8, [-2, -1]), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(bench.load(&layout, 8, [6, 5]), [46.0, 47.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(bench.load(&layout, 8, [i64::MAX, i64::MIN]), [0.0; 8]);
    let undefined = bench.load(&layout.with_fill(TensorFill::NotANumber), 8, [6, 4]);
    assert_eq!(undefined[..2], [38.0, 39.0]);
    assert!(undefined[2].is_nan() && undefined[3].is_nan() && undefined[6].is_nan());
}

#[test]
fn rows_may_have_gaps_and_boxes_may_skip_elements() {
    let bench = Bench::new();
    // Every second row of the picture, and of these every second.
    let layout = TensorLayout::new([5, 3], [4, 3]).with_strides([64]).with_element_strides([1, 2]);
    assert_eq!(bench.load(&layout, 8, [2, 0]), [2.0, 3.0, 4.0, 0.0, 34.0, 35.0, 36.0, 0.0]);
}

#[test]
fn a_tensor_is_written_where_it_is() {
    let bench = Bench::new();
    let function = HostFunction::new("store", &[128], |_, arguments| {
        let tensor = arguments.tensor::<u64>(0);
        assert_eq!((tensor.extents(), tensor.box_extents()), (&[3, 2, 2][..], [2, 2, 1, 1, 1]));
        tensor.store(&[2, -1, 1], |place| 10 + place as u64);
        tensor.set(&[0, 0, 0], tensor.get(&[0, 0, 0]) + 5);
        tensor.set(&[3, 0, 0], 77);
    });
    let store = kernel(&bench.context, "store", function);
    let mut memory = bench.stream.upload(&[1u64; 16]).unwrap();
    let layout = TensorLayout::new([3, 2, 2], [2, 2, 1]).with_strides([32, 64]);
    let mut tensor = TensorMapMut::new(&mut memory, &layout).unwrap();
    bench.stream.launch_checked(&store, &once(), (&mut tensor,)).unwrap();
    let mut arguments = ArgumentList::new();
    arguments.push(tensor);
    bench.stream.launch_checked(&store, &once(), arguments).unwrap();
    let mut expected = [1; 16];
    (expected[0], expected[10]) = (11, 12);
    assert_eq!(bench.stream.download(&memory).unwrap(), expected);
}

#[test]
fn a_launch_uses_the_memory_of_its_tensors() {
    let bench = Bench::new();
    let (stream, other) = (&bench.stream, bench.context.create_stream().unwrap());
    let mut picture = stream.upload(&numbers(48)).unwrap();
    let mut results = other.upload(&[0.0f32; 8]).unwrap();
    let layout = TensorLayout::new([8, 6], [4, 2]);
    let signal = hold(&bench.context, stream);
    stream.fill(&mut picture, 7.0).unwrap();
    let tensor = TensorMap::new(&picture, &layout).unwrap();
    other.launch_checked(&bench.load, &once(), (tensor, &mut results, 0i64, 0i64)).unwrap();
    assert!(!other.query().unwrap(), "the launch comes after the write of another stream");
    // Freed behind the launch.
    drop(picture);
    signal.set(1);
    assert_eq!(other.download(&results).unwrap(), [7.0; 8]);

    let mut picture = stream.upload(&numbers(48)).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            let tensor = TensorMap::new(&picture, &layout)?;
            scope.launch_checked(&bench.load, &once(), (tensor, &mut results, 4i64, 1i64))
        })
        .unwrap();
    stream.fill(&mut picture, 8.0).unwrap();
    drop(picture);
    let executable = graph.instantiate().unwrap();
    executable.launch(stream).unwrap();
    assert_eq!(stream.download(&results).unwrap(), [8.0; 8]);
    assert_eq!(bench.context.device().memory_report().unwrap().findings, []);
}

fn refused(slice: &Buffer<f32>, layout: &TensorLayout) -> String {
    let refused = TensorMap::new(slice, layout).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    let mut copy = slice.context().create_stream().unwrap().clone_buffer(slice).unwrap();
    assert_eq!(TensorMapMut::new(&mut copy, layout).unwrap_err().status(), Status::INVALID_VALUE);
    refused.to_string()
}

#[test]
fn what_the_memory_does_not_have_is_refused() {
    let bench = Bench::new();
    let picture = &bench.picture;
    assert!(refused(picture, &TensorLayout::new([8, 7], [4, 1])).contains("192 bytes"));
    assert!(refused(picture, &TensorLayout::new([8, 6], [4, 1]).with_strides([48])).contains("192 bytes"));
    assert!(refused(picture, &TensorLayout::new([1 << 31, 1 << 31, 1 << 31], [4, 1, 1])).contains("2^40"));
    assert!(refused(picture, &TensorLayout::new([6, 6], [4, 1])).contains("stride"));
    assert!(refused(picture, &TensorLayout::new([8, 6], [3, 1])).contains("12 bytes"));
    assert!(refused(picture, &TensorLayout::new([], [])).contains("dimensions"));
    assert!(refused(picture, &TensorLayout::new([8, 6], [4])).contains("for each"));
    let shifted = TensorMap::new(picture.slice(1..).unwrap(), &TensorLayout::new([4], [4])).unwrap_err();
    assert!(shifted.to_string().contains("aligned to 16 bytes"), "{shifted}");
    let words = bench.stream.upload(&[0u32; 4]).unwrap();
    let layout = TensorLayout::new([4], [4]).with_fill(TensorFill::NotANumber);
    assert_eq!(TensorMap::new(&words, &layout).unwrap_err().status(), Status::INVALID_VALUE);
}

/// Safe code can pass any bytes for a tensor map.
#[test]
fn what_is_no_tensor_map_of_the_launch_is_a_fault() {
    type Faulty = fn(&Bench) -> anabranch::Result<()>;
    fn launch(bench: &Bench, sizes: &[usize], body: fn(&anabranch::HostArguments<'_>)) -> Kernel {
        kernel(&bench.context, "use", HostFunction::new("use", sizes, move |_, arguments| body(arguments)))
    }
    let faulty: [(Faulty, Status); 5] = [
        (
            |bench| {
                let kernel = launch(bench, &[128], |arguments| _ = arguments.tensor::<f32>(0));
                bench.stream.launch_checked(&kernel, &once(), (Scalar([0u64; 16]),))
            },
            Status::ILLEGAL_ADDRESS,
        ),
        (
            |bench| {
                let kernel = launch(bench, &[128], |arguments| _ = arguments.tensor::<u32>(0));
                let tensor = TensorMap::new(&bench.picture, &TensorLayout::new([8, 6], [4, 2]))?;
                bench.stream.launch_checked(&kernel, &once(), (tensor,))
            },
            Status::LAUNCH_FAILED,
        ),
        (
            |bench| {
                let kernel = launch(bench, &[128], |arguments| _ = arguments.tensor::<f32>(0).get(&[0]));
                let tensor = TensorMap::new(&bench.picture, &TensorLayout::new([8, 6], [4, 2]))?;
                bench.stream.launch_checked(&kernel, &once(), (tensor,))
            },
            Status::LAUNCH_FAILED,
        ),
        (
            |bench| {
                let kernel = launch(bench, &[128], |arguments| arguments.tensor::<f32>(0).set(&[0, 0], 1.0));
                let tensor = TensorMap::new(&bench.picture, &TensorLayout::new([8, 6], [4, 2]))?;
                bench.stream.launch_checked(&kernel, &once(), (tensor,))
            },
            Status::ILLEGAL_ADDRESS,
        ),
        (
            |bench| {
                let kernel = launch(bench, &[8], |arguments| _ = arguments.tensor::<f32>(0));
                bench.stream.launch_checked(&kernel, &once(), (&bench.picture,))
            },
            Status::LAUNCH_FAILED,
        ),
    ];
    for (number, (launch, expected)) in faulty.into_iter().enumerate() {
        let bench = Bench::new();
        launch(&bench).unwrap();
        assert_eq!(bench.stream.synchronize().unwrap_err().status(), expected, "{number}");
    }
}
