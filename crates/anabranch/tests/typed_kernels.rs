//! Kernels whose parameters are declared: loading, launching, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, DevicePointer, DualModule, ErrorKind, HostFunction, LaunchConfig, Module, Status};
use bytemuck::{Pod, Zeroable};
use common::{hold, host};

/// A plain structure, for memory and by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
struct Line {
    slope: f32,
    offset: f32,
    steps: u64,
}

anabranch::kernels! {
    /// Kernels of one thread.
    #[derive(Default, PartialEq)]
    struct Nothing {}
}

anabranch::kernels! {
    /// The kernels of these tests.
    struct Kernels {
        /// sum[0] = the sum of `terms`.
        fn sum(sum: &mut [u32], terms: &[u32]);
        /// data[i] = slope * i + offset, for all elements of `data`.
        #[name = "_Z4drawPf4Line"]
        #[must_use]
        fn draw(data: &mut [f32], line: Line);
        fn set(data: &mut [u32], value: u32,);
        fn nothing();
    }
}

/// The kernels of the declaration, in Rust.
fn program() -> DualModule {
    DualModule::new()
        .host_function(Kernels::host_function("sum", |_, arguments| {
            let terms = arguments.slice::<u32>(1);
            arguments.slice(0).set(0, (0..terms.len()).map(|index| terms.get(index)).sum::<u32>());
        }))
        .host_function(Kernels::host_function("_Z4drawPf4Line", |_, arguments| {
            let (data, line) = (arguments.slice::<f32>(0), arguments.scalar::<Line>(1));
            (0..data.len()).for_each(|index| data.set(index, line.slope * index as f32 + line.offset));
        }))
        .host_function(Kernels::host_function("set", |_, arguments| {
            let data = arguments.slice::<u32>(0);
            (0..data.len()).for_each(|index| data.set(index, arguments.scalar(1)));
        }))
        .host_function(Kernels::host_function("nothing", |_, _| {}))
}

fn kernels(context: &Context) -> Kernels {
    Kernels::load(&program().load(context).unwrap()).unwrap()
}

fn once() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

#[test]
fn arguments_reach_the_kernel_whole_and_in_part() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernels = kernels(&context);
    let terms = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    let mut pinned = context.allocate_pinned::<u32>(2).unwrap();
    let mut managed = context.allocate_managed::<u32>(4).unwrap();
    let mut drawn = stream.upload(&[9.0f32; 4]).unwrap();
    let line = Line { slope: 2.0, offset: 0.5, steps: u64::MAX };
    // SAFETY: the closures are as declared, and use what they are given.
    unsafe {
        kernels.sum(&mut pinned, terms.slice(1..3).unwrap()).launch(&stream, &once()).unwrap();
        kernels.set(&mut managed, 7).launch(&stream, &once()).unwrap();
        kernels.set(managed.slice_mut(1..2).unwrap(), 1).launch(&stream, &once()).unwrap();
        kernels.sum(pinned.slice_mut(1..).unwrap(), &managed).launch(&stream, &once()).unwrap();
        kernels.draw(drawn.slice_mut(1..).unwrap(), line).launch(&stream, &once()).unwrap();
        kernels.nothing().launch(&stream, &once()).unwrap();
    }
    assert_eq!(pinned.as_slice().unwrap(), [5, 22]);
    assert_eq!(stream.download(&drawn).unwrap(), [9.0, 0.5, 2.5, 4.5]);
}

#[test]
fn a_call_that_is_not_launched_queues_nothing() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let kernels = kernels(&context);
    let mut data = stream.upload(&[1u32]).unwrap();
    let signal = hold(&context, &other);
    let kernel = &kernels.set;
    let call = kernels.set(&mut data, 2);
    assert_eq!((call.kernel().name(), kernel.parameters().map(<[_]>::len)), ("set", Some(2)));
    assert_eq!(format!("{call:?}"), "KernelCall(`set`)");
    drop(call);
    assert_eq!(stream.download(&data).unwrap(), [1]);
    signal.set(1);
}

#[test]
fn readers_share_a_buffer_and_writers_take_turns() {
    let context = host();
    let (first, second) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let kernels = kernels(&context);
    let mut terms = first.upload(&[1u32, 2]).unwrap();
    let (mut left, mut right) = (first.upload(&[0u32]).unwrap(), second.upload(&[0u32]).unwrap());
    assert_eq!(second.download(&terms).unwrap(), [1, 2]); // the second stream is behind the write from here on

    let signal = hold(&context, &first);
    // SAFETY: the closures are as declared, and use what they are given.
    unsafe {
        kernels.sum(&mut left, &terms).launch(&first, &once()).unwrap();
        kernels.sum(&mut right, &terms).launch(&second, &once()).unwrap();
    }
    second.synchronize().unwrap(); // readers do not wait for each other
    // SAFETY: as above.
    unsafe { kernels.set(&mut terms, 5).launch(&second, &once()).unwrap() };
    assert!(!second.query().unwrap(), "a writer waits for the reader on the other stream");
    signal.set(1);
    assert_eq!((second.download(&left).unwrap(), second.download(&terms).unwrap()), (vec![3], vec![5, 5]));

    let signal = hold(&context, &first);
    // SAFETY: as above.
    unsafe {
        kernels.set(&mut terms, 6).launch(&first, &once()).unwrap();
        kernels.sum(&mut right, &terms).launch(&second, &once()).unwrap();
    }
    assert!(!second.query().unwrap(), "a reader waits for the writer on the other stream");
    signal.set(1);
    assert_eq!(second.download(&right).unwrap(), [12]);
}

#[test]
fn a_launch_can_be_awaited_also_when_nothing_of_it_is_kept() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernels = kernels(&context);
    let mut data = stream.upload(&[0u32]).unwrap();
    let signal = hold(&context, &stream);
    // SAFETY: the closures are as declared, and use what they are given.
    let (first, second) = unsafe {
        let first = kernels.set(&mut data, 1).launch_async(&stream, &once());
        (first, kernels.set(&mut data, 2).launch_async(&stream, &once()))
    };
    drop((first, kernels));
    signal.set(1);
    futures::executor::block_on(second).unwrap();
    assert_eq!(stream.download(&data).unwrap(), [2]);
}

#[test]
fn an_awaited_launch_tells_its_error() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernels = kernels(&context);
    let mut data = stream.upload(&[0u32]).unwrap();
    // SAFETY: nothing is launched, because a grid has blocks.
    let refused = unsafe { kernels.set(&mut data, 1).launch_async(&stream, &LaunchConfig::new(0, 1)) };
    let error = futures::executor::block_on(refused).unwrap_err();
    assert_eq!((error.status(), error.operation()), (Status::INVALID_VALUE, "launching a kernel"));
    assert!(error.to_string().contains("no blocks"), "{error}");
    assert_eq!(stream.download(&data).unwrap(), [0]);
}

#[test]
fn a_call_is_the_work_of_a_node_which_keeps_what_it_uses() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernels = kernels(&context);
    let terms = stream.upload(&[1u32, 2, 3]).unwrap();
    let (mut between, mut result) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    let mut graph = context.create_graph().unwrap();
    // SAFETY: the closures are as declared, and use what they are given, at every launch.
    let (first, second) = unsafe {
        let first = kernels.sum(&mut between, &terms).into_node(&once()).unwrap();
        (first, kernels.sum(&mut result, &between).into_node(&once()).unwrap())
    };
    let first = graph.add((), first).unwrap();
    graph.add(first, second).unwrap();
    drop((kernels, terms, between));
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&result).unwrap(), [6]);
}

#[test]
fn one_declaration_serves_several_modules() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let other = program().host_function(Kernels::host_function("set", |_, arguments| {
        arguments.slice::<u32>(0).set(0, arguments.scalar::<u32>(1) + 100);
    }));
    let (plain, other) = (kernels(&context), Kernels::load(&other.load(&context).unwrap()).unwrap());
    let (mut first, mut second) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    // SAFETY: the closures are as declared, and use what they are given.
    unsafe {
        plain.clone().set(&mut first, 1).launch(&stream, &once()).unwrap();
        other.set(&mut second, 1).launch(&stream, &once()).unwrap();
    }
    assert_eq!((stream.download(&first).unwrap(), stream.download(&second).unwrap()), (vec![1], vec![101]));
}

#[test]
fn a_launch_elsewhere_is_refused() {
    let context = host();
    let kernels = kernels(&context);
    let elsewhere = host();
    let stream = elsewhere.create_stream().unwrap();
    let mut data = stream.upload(&[0u32]).unwrap();
    // SAFETY: nothing is launched, because the kernel is of another context.
    let error = unsafe { kernels.set(&mut data, 1).launch(&stream, &once()) }.unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
}

/// The error of loading [`Kernels`] from the program with this kernel in addition.
fn refused(function: HostFunction) -> (Status, String) {
    let error = Kernels::load(&program().host_function(function).load(&host()).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Argument, "loading declared kernels"));
    (error.status(), error.message().unwrap().to_owned())
}

#[test]
fn safety_1_a_declaration_that_does_not_fit_the_module_is_refused() {
    for (sizes, listed) in [(&[8, 4, 4][..], "[8, 4, 4]"), (&[8], "[8]"), (&[8, 8], "[8, 8]"), (&[], "[]")] {
        let (status, message) = refused(HostFunction::new("set", sizes, |_, _| {}));
        assert_eq!(status, Status::INVALID_VALUE);
        for part in ["kernel `set`", "set(data: &mut [u32], value: u32,)", "[8, 4] bytes", listed] {
            assert!(message.contains(part), "{message}");
        }
    }
    // The structure by value is of another size.
    let (status, message) = refused(HostFunction::new("_Z4drawPf4Line", &[8, 8], |_, _| {}));
    assert_eq!(status, Status::INVALID_VALUE);
    assert!(message.contains("draw(") && message.contains("[8, 16]") && message.contains("[8, 8]"), "{message}");
}

#[test]
fn a_kernel_that_is_missing_is_named_with_those_that_there_are() {
    anabranch::kernels! {
        struct Missing {
            fn set(data: &mut [u32], value: u32);
            fn draw(data: &mut [f32]);
        }
    }
    let error = Missing::load(&program().load(&host()).unwrap()).unwrap_err();
    assert_eq!((error.status(), error.operation()), (Status::NOT_FOUND, "loading declared kernels"));
    let message = error.message().unwrap();
    for part in ["kernel `draw`", "draw(data: &mut [f32])", "nothing", "#[name = \"_Z4drawPf4Line\"]"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(error.place().is_some_and(|place| place.contains("host")), "{error}");
}

#[test]
fn a_closure_of_a_name_that_is_not_declared_is_noticed_at_loading() {
    anabranch::kernels! {
        struct Misspelt { fn increment(data: &mut [u32]); }
    }
    let module = DualModule::new().host_function(Misspelt::host_function("incremnt", |_, _| {}));
    let message = Misspelt::load(&module.load(&host()).unwrap()).unwrap_err().to_string();
    assert!(message.contains("`increment`") && message.contains("`incremnt`"), "{message}");
}

mod elsewhere {
    //! Nothing is imported here, and names that the macro must not mean are other things.

    #![allow(dead_code, reason = "they are there to be mistaken")]

    struct Kernel;
    struct Module;
    struct Scalar;
    struct Result;
    fn size_of() {}

    anabranch::kernels! {
        #[derive(Default)]
        struct Empty {}
    }

    anabranch::kernels! {
        /// Seen by the tests.
        pub(super) struct Shared {
            /// Seen by the tests.
            pub(super) fn move_to(module: &mut [u32], kernel: DevicePointer, name: u32);
            /// Sixteen parameters.
            pub(super) fn sixteen(
                a: &mut [u64], b: u8, c: i8, d: u16, e: i16, f: u32, g: i32, h: u64, i: i64, j: usize, k: f32, l: f64,
                m: bool, n: ::anabranch::DevicePointer, o: [u16; 3], p: &[u8],
            );
        }
    }

    use anabranch::DevicePointer;
}

#[test]
fn a_declaration_is_used_from_where_it_is_visible() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new()
        .host_function(elsewhere::Shared::host_function("move_to", |_, arguments| {
            assert_eq!(arguments.pointer(1), DevicePointer(0x1234));
            arguments.slice::<u32>(0).set(0, arguments.scalar(2));
        }))
        .host_function(elsewhere::Shared::host_function("sixteen", |_, arguments| {
            assert_eq!(arguments.len(), 16);
            assert_eq!((arguments.scalar::<f64>(11), arguments.scalar::<[u16; 3]>(14)), (11.5, [1, 2, 3]));
            arguments.slice::<u64>(0).set(0, u64::from(arguments.slice::<u8>(15).get(1)));
        }))
        .load(&context)
        .unwrap();
    let kernels = elsewhere::Shared::load(&module).unwrap();
    let mut data = stream.upload(&[0u32]).unwrap();
    let (mut wide, bytes) = (stream.upload(&[0u64]).unwrap(), stream.upload(&[1u8, 2, 3]).unwrap());
    let address = DevicePointer(0x1234);
    // SAFETY: the closures are as declared, and use what they are given, of the address nothing but its value.
    unsafe {
        kernels.move_to(&mut data, address, 42).launch(&stream, &once()).unwrap();
        kernels
            .sixteen(&mut wide, 1, -1, 2, -2, 3, -3, 4, -4, 5, 10.5, 11.5, true, address, [1, 2, 3], &bytes)
            .launch(&stream, &once())
            .unwrap();
    }
    assert_eq!((stream.download(&data).unwrap(), stream.download(&wide).unwrap()), (vec![42], vec![2]));
}

#[test]
fn a_structure_without_kernels_is_loaded_from_anything() {
    let module: Module = program().load(&host()).unwrap();
    assert!(Nothing::load(&module).is_ok_and(|nothing| nothing == Nothing::default()));
}

#[test]
fn memory_declared_as_read_is_not_written() {
    anabranch::kernels! {
        struct Lies { fn set(data: &[u32]); }
    }
    let context = host();
    let stream = context.create_stream().unwrap();
    let module =
        DualModule::new().host_function(Lies::host_function("set", |_, arguments| arguments.slice::<u32>(0).set(0, 1)));
    let kernels = Lies::load(&module.load(&context).unwrap()).unwrap();
    let data = stream.upload(&[0u32]).unwrap();
    // SAFETY: the host device refuses what the closure does against its declaration.
    unsafe { kernels.set(&data).launch(&stream, &once()).unwrap() };
    assert_eq!(stream.synchronize().unwrap_err().status(), Status::ILLEGAL_ADDRESS);
}

anabranch::kernels! {
    /// A kernel whose name is a keyword in Rust.
    struct Keywords {
        fn r#type(r#mut: &mut [u32], r#fn: u32);
    }
}

#[test]
fn names_that_are_keywords_are_found() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let module = DualModule::new().host_function(Keywords::host_function("type", |_, arguments| {
        arguments.slice(0).set(0, arguments.scalar::<u32>(1));
    }));
    let kernels = Keywords::load(&module.load(&context).unwrap()).unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(1).unwrap();
    // SAFETY: the kernel has these parameters, and writes one element.
    unsafe { kernels.r#type(&mut buffer, 7).launch(&stream, &LaunchConfig::new(1, 1)) }.unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7]);
}

#[test]
fn a_kernel_has_a_name() {
    let module = program().load(&host()).unwrap();
    let error = module.kernel("").unwrap_err();
    assert_eq!(error.status(), Status::INVALID_VALUE);
    assert!(error.to_string().contains("name"), "{error}");
}
