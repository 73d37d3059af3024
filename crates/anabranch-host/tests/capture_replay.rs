//! Random programs over several streams: captured, they do what they do when they are run.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::collections::HashMap;
use std::ffi::c_void;
use support::{Fixture, live};

const STREAMS: usize = 4;
const CELLS: usize = 8;

/// Numbers that a seed makes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// An operation on cells of 64 bits.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// `cell = value`, by one fill or two.
    Fill(usize, u64),
    /// `to = from`.
    Copy(usize, usize),
    /// `to = to * 3 + from + constant`.
    Kernel(usize, usize, u64),
    /// `cell = cell * 5 + 1`, on the host.
    Host(usize),
    /// The low half is `value`.
    Write(usize, u32),
    /// The cell passes through memory that is allocated and freed.
    Through(usize),
}

impl Operation {
    fn random(random: &mut Random, memory: bool) -> Self {
        let (cell, other) = (random.below(CELLS), random.below(CELLS));
        match random.below(if memory { 7 } else { 6 }) {
            0 => Self::Fill(cell, random.next()),
            1 => Self::Fill(cell, (random.next() & 0xffff_ffff) * 0x1_0000_0001),
            2 => Self::Copy(cell, other),
            3 => Self::Kernel(cell, other, random.next()),
            4 => Self::Host(cell),
            5 => Self::Write(cell, random.next() as u32),
            _ => Self::Through(cell),
        }
    }

    fn cells(self) -> [usize; 2] {
        match self {
            Self::Copy(to, from) | Self::Kernel(to, from, _) => [to, from],
            Self::Fill(cell, _) | Self::Host(cell) | Self::Write(cell, _) | Self::Through(cell) => [cell; 2],
        }
    }

    /// What it does, done here.
    fn apply(self, cells: &mut [u64; CELLS]) {
        match self {
            Self::Fill(cell, value) => cells[cell] = value,
            Self::Copy(to, from) => cells[to] = cells[from],
            Self::Kernel(to, from, constant) => {
                cells[to] = cells[to].wrapping_mul(3).wrapping_add(cells[from]).wrapping_add(constant);
            }
            Self::Host(cell) => cells[cell] = cells[cell].wrapping_mul(5).wrapping_add(1),
            Self::Write(cell, value) => cells[cell] = cells[cell] & !0xffff_ffff | u64::from(value),
            Self::Through(_) => {}
        }
    }
}

/// Operations on streams, ordered by events wherever they share a cell.
struct Program {
    operations: Vec<(usize, Operation)>,
}

struct Setup {
    fixture: Fixture,
    cells: DevicePointer,
    kernel: Live<'static, FunctionHandle>,
    streams: Vec<Live<'static, StreamHandle>>,
}

impl Setup {
    fn new(seed: Option<u64>) -> Self {
        let fixture = Fixture::with(anabranch_host::HostOptions { seed, ..support::SMALL });
        let cells = fixture.allocate(CELLS * 8);
        let kernel = fixture.function(HostFunction::new("mix", &[8, 8, 8], |block, arguments| {
            let (to, from) = (arguments.slice::<u64>(0), arguments.slice::<u64>(1));
            let constant: u64 = arguments.scalar(2);
            block.phase(|_, _| to.set(0, to.get(0).wrapping_mul(3).wrapping_add(from.get(0)).wrapping_add(constant)));
        }));
        let streams = (0..STREAMS).map(|number| if number == 1 { fixture.blocking() } else { fixture.stream() });
        let streams = streams.collect();
        Self { fixture, cells, kernel, streams }
    }

    fn cell(&self, number: usize) -> DevicePointer {
        self.cells.byte_add(number * 8)
    }

    fn set(&self, values: &[u64; CELLS]) {
        let source = values.as_ptr() as u64;
        let (driver, context) = (&self.fixture.driver, self.fixture.context);
        unsafe { driver.copy(&context.into(), CopyKind::HostToDevice, self.cells.0, source, CELLS * 8) }.unwrap();
        self.fixture.synchronize_all().unwrap();
    }

    fn get(&self) -> [u64; CELLS] {
        let mut values = [0; CELLS];
        let to = values.as_mut_ptr() as u64;
        let (driver, context) = (&self.fixture.driver, self.fixture.context);
        unsafe { driver.copy(&context.into(), CopyKind::DeviceToHost, to, self.cells.0, CELLS * 8) }.unwrap();
        values
    }

    fn put(&self, stream: Live<'_, StreamHandle>, operation: Operation) {
        let (driver, context) = (&self.fixture.driver, self.fixture.context);
        let copy = |to: DevicePointer, from: DevicePointer| {
            unsafe { driver.copy_async(&context.into(), CopyKind::DeviceToDevice, to.0, from.0, 8, stream) }.unwrap();
        };
        match operation {
            Operation::Fill(cell, value) => {
                let pattern = FillPattern::U64(value);
                unsafe { driver.fill_async(&context.into(), self.cell(cell), pattern, 1, stream) }.unwrap();
            }
            Operation::Copy(to, from) => copy(self.cell(to), self.cell(from)),
            Operation::Kernel(to, from, constant) => {
                let (to, from) = (self.cell(to), self.cell(from));
                let arguments: [*const c_void; 3] =
                    [(&raw const to).cast(), (&raw const from).cast(), (&raw const constant).cast()];
                let range = |argument, address: DevicePointer, access| DeclaredRange {
                    argument,
                    address: address.0,
                    bytes: 8,
                    access,
                };
                let launch = Launch {
                    grid: [1; 3],
                    block: [1; 3],
                    cluster: None,
                    dynamic_shared_bytes: 0,
                    cooperative: false,
                    priority: None,
                    attributes: None,
                    overlap: None,
                    arguments: &arguments,
                    ranges: &[range(0, to, Access::Write), range(1, from, Access::Read)],
                };
                unsafe { driver.launch(&context.into(), stream, self.kernel, &launch) }.unwrap();
            }
            Operation::Host(cell) => {
                let address = self.cell(cell).0;
                assert_eq!(self.fixture.repeatable(stream, move || on_host(address)), 0);
            }
            Operation::Write(cell, value) => {
                let (value, flags) = (Value::U32(value), WriteValueFlags::empty());
                unsafe { driver.stream_write_value(&context.into(), stream, self.cell(cell), value, flags) }.unwrap();
            }
            Operation::Through(cell) => {
                let passing = driver.allocate_async(&context.into(), 8, None, stream).unwrap();
                copy(passing, self.cell(cell));
                unsafe { driver.fill_async(&context.into(), self.cell(cell), FillPattern::U8(0xff), 8, stream) }
                    .unwrap();
                copy(self.cell(cell), passing);
                unsafe { driver.free_async(&context.into(), passing, stream) }.unwrap();
            }
        }
    }

    /// Submits all operations to their streams, which work for the first one when it is a capture's origin.
    fn run(&self, program: &Program) {
        for stream in &self.streams[1..] {
            self.fixture.fork(self.streams[0], *stream);
        }
        let mut used = [0; CELLS];
        for &(number, operation) in &program.operations {
            for cell in operation.cells() {
                if used[cell] != number {
                    self.fixture.fork(self.streams[used[cell]], self.streams[number]);
                }
                used[cell] = number;
            }
            self.put(self.streams[number], operation);
        }
        for stream in &self.streams[1..] {
            self.fixture.fork(*stream, self.streams[0]);
        }
    }

    fn capture(&self, program: &Program) -> Live<'static, GraphHandle> {
        self.fixture.begin(self.streams[0], CaptureMode::Global);
        self.run(program);
        live(self.fixture.end_with_graph(self.streams[0]).unwrap())
    }

    /// Does what a graph says, one node after the other, in an order that its edges allow.
    fn interpret(&self, graph: Live<'_, GraphHandle>, random: &mut Random) {
        let (driver, context) = (&self.fixture.driver, self.fixture.context);
        let edges = driver.graph_edges(&context.into(), graph).unwrap();
        let nodes = driver.graph_nodes(&context.into(), graph).unwrap();
        let mut waits: HashMap<_, usize> = nodes.iter().map(|node| (*node, 0)).collect();
        for edge in &edges {
            *waits.get_mut(&edge.to).unwrap() += 1;
        }
        let mut ready: Vec<_> = nodes.iter().copied().filter(|node| waits[node] == 0).collect();
        let mut done = 0;
        while !ready.is_empty() {
            let node = ready.swap_remove(random.below(ready.len()));
            interpret_node(&driver.graph_node_parameters(&context.into(), live(node)).unwrap());
            done += 1;
            for edge in edges.iter().filter(|edge| edge.from == node) {
                let left = waits.get_mut(&edge.to).unwrap();
                *left -= 1;
                if *left == 0 {
                    ready.push(edge.to);
                }
            }
        }
        assert_eq!(done, nodes.len());
    }
}

fn on_host(address: u64) {
    let cell = address as usize as *mut u64;
    unsafe { cell.write(cell.read().wrapping_mul(5).wrapping_add(1)) };
}

fn interpret_node(parameters: &NodeParameters) {
    let read = |address: u64| unsafe { (address as usize as *const u64).read() };
    match parameters {
        NodeParameters::Kernel(kernel) => {
            let [to, from, constant] =
                [0, 1, 2].map(|number| u64::from_ne_bytes(kernel.arguments[number][..].try_into().unwrap()));
            let value = read(to).wrapping_mul(3).wrapping_add(read(from)).wrapping_add(constant);
            unsafe { (to as usize as *mut u64).write(value) };
        }
        NodeParameters::Copy(copy) => {
            assert_eq!(copy.extent, [8, 1, 1]);
            unsafe { (copy.destination.address as usize as *mut u64).write(read(copy.source.address)) };
        }
        NodeParameters::Fill(fill) => match fill.pattern {
            FillPattern::U32(value) => {
                for row in 0..fill.height {
                    let begin = (fill.address.0 as usize + row * fill.pitch) as *mut u32;
                    (0..fill.width).for_each(|index| unsafe { begin.add(index).write(value) });
                }
            }
            FillPattern::U8(value) => unsafe {
                (fill.address.0 as usize as *mut u8).write_bytes(value, fill.width);
            },
            other => panic!("{other:?}"),
        },
        NodeParameters::Host(work) => work.run(),
        NodeParameters::ValueOperations(operations) => match operations[..] {
            [ValueOperation::Write { address, value: Value::U32(value), .. }] => unsafe {
                (address.0 as usize as *mut u32).write(value);
            },
            _ => panic!("{operations:?}"),
        },
        NodeParameters::Allocate(_) | NodeParameters::Free(_) => {}
        other => panic!("{other:?}"),
    }
}

fn random_program(random: &mut Random, memory: bool) -> Program {
    let length = 1 + random.below(40);
    let one = |random: &mut Random| (random.below(STREAMS), Operation::random(random, memory));
    Program { operations: (0..length).map(|_| one(random)).collect() }
}

fn expected(program: &Program, mut cells: [u64; CELLS], times: usize) -> [u64; CELLS] {
    for _ in 0..times {
        program.operations.iter().for_each(|(_, operation)| operation.apply(&mut cells));
    }
    cells
}

#[test]
fn any_order_that_the_edges_allow_does_the_same() {
    let mut random = Random(11);
    let setup = Setup::new(None);
    for _ in 0..60 {
        let program = random_program(&mut random, true);
        let start: [u64; CELLS] = std::array::from_fn(|_| random.next());
        let end = expected(&program, start, 1);
        setup.set(&start);
        setup.run(&program);
        setup.fixture.synchronize_all().unwrap();
        assert_eq!(setup.get(), end, "run: {:?}", program.operations);
        let graph = setup.capture(&program);
        for _ in 0..4 {
            setup.set(&start);
            setup.interpret(graph, &mut random);
            assert_eq!(setup.get(), end, "captured: {:?}", program.operations);
        }
        unsafe { setup.fixture.driver.graph_destroy(&setup.fixture.context.into(), graph.handle()) }.unwrap();
    }
    setup.fixture.free(setup.cells);
}

#[test]
fn what_is_captured_is_replayed() {
    let mut random = Random(12);
    for seed in [None, Some(1), Some(2)] {
        let setup = Setup::new(seed);
        let (driver, context) = (&setup.fixture.driver, setup.fixture.context);
        for _ in 0..40 {
            let program = random_program(&mut random, true);
            let start: [u64; CELLS] = std::array::from_fn(|_| random.next());
            let graph = setup.capture(&program);
            let executable = setup.fixture.instantiate(graph);
            unsafe { driver.graph_destroy(&context.into(), graph.handle()) }.unwrap();
            setup.set(&start);
            for _ in 0..3 {
                setup.fixture.launch_graph(executable, setup.streams[0]).unwrap();
            }
            setup.fixture.synchronize_all().unwrap();
            assert_eq!(setup.get(), expected(&program, start, 3), "{:?}", program.operations);
            setup.fixture.destroy_executable(executable);
        }
        setup.fixture.free(setup.cells);
    }
}

#[test]
fn launches_are_not_captured() {
    let setup = Setup::new(None);
    let (driver, context) = (&setup.fixture.driver, setup.fixture.context);
    let graph = setup.capture(&random_program(&mut Random(13), false));
    let executable = setup.fixture.instantiate(graph);
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let origin = setup.streams[0];
        setup.fixture.begin(origin, mode);
        let refused = setup.fixture.launch_graph(executable, origin).unwrap_err();
        assert_eq!(refused.status, Status::STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(setup.fixture.end(origin), 901);
        setup.fixture.launch_graph(executable, origin).unwrap();
    }
    setup.fixture.synchronize_all().unwrap();
    setup.fixture.destroy_executable(executable);
    unsafe { driver.graph_destroy(&context.into(), graph.handle()) }.unwrap();
    setup.fixture.free(setup.cells);
}

#[test]
fn pageable_memory_is_read_at_each_launch() {
    let setup = Setup::new(None);
    let (driver, context) = (&setup.fixture.driver, setup.fixture.context);
    let stream = setup.streams[0];
    let mut values = Box::new([1u64; CELLS]);
    let source = values.as_mut_ptr();
    setup.fixture.begin(stream, CaptureMode::Global);
    let copied = unsafe {
        driver.copy_async(&context.into(), CopyKind::HostToDevice, setup.cells.0, source as u64, CELLS * 8, stream)
    };
    copied.unwrap();
    let graph = setup.fixture.end_with_graph(stream).unwrap();
    let executable = setup.fixture.instantiate(live(graph));
    for round in 0..3u64 {
        unsafe { source.cast::<[u64; CELLS]>().write([round; CELLS]) };
        setup.fixture.run_graph(executable, stream);
        assert_eq!(setup.get(), [round; CELLS]);
    }
    setup.fixture.destroy_executable(executable);
    setup.fixture.destroy_graph(live(graph));
}

#[test]
fn external_events_connect_launches_with_streams() {
    let setup = Setup::new(None);
    let fixture = &setup.fixture;
    let [stream, before, after] = [setup.streams[0], setup.streams[2], setup.streams[3]];
    let (start, end) = (fixture.event(), fixture.event());
    fixture.begin(stream, CaptureMode::Global);
    assert_eq!(fixture.try_wait_flagged(stream, start, EventWaitFlags::EXTERNAL), 0);
    setup.put(stream, Operation::Host(0));
    assert_eq!(fixture.try_record(end, stream, EventRecordFlags::EXTERNAL), 0);
    let graph = fixture.end_with_graph(stream).unwrap();
    let executable = fixture.instantiate(live(graph));
    for round in 0..4u64 {
        setup.set(&[round; CELLS]);
        let gate = fixture.gate(before);
        setup.put(before, Operation::Fill(0, 10 * round));
        fixture.record(start, before);
        fixture.launch_graph(executable, stream).unwrap();
        assert_eq!(fixture.query(stream), 600);
        gate.open();
        fixture.synchronize(stream).unwrap();
        assert_eq!(fixture.query_event(end), 0);
        fixture.wait(after, end);
        setup.put(after, Operation::Copy(1, 0));
        fixture.synchronize(after).unwrap();
        assert_eq!(setup.get()[..3], [50 * round + 1, 50 * round + 1, round]);
    }
    fixture.destroy_executable(executable);
    fixture.destroy_graph(live(graph));
}

#[test]
fn memory_that_was_captured() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    fixture.begin(stream, CaptureMode::Global);
    let address = driver.allocate_async(&context.into(), 64, None, stream).unwrap();
    fixture.fill(stream, address, 7, 16);
    let graph = fixture.end_with_graph(stream).unwrap();
    let executable = fixture.instantiate(live(graph));
    assert_eq!(support::status(fixture.try_instantiate(live(graph), InstantiateFlags::empty())), 801);
    assert_eq!(support::status(driver.graph_clone(&context.into(), live(graph))), 801);
    fixture.launch_graph(executable, stream).unwrap();
    assert_eq!(support::status(fixture.launch_graph(executable, stream)), 1);
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(address, 16), [7; 16]);
    unsafe { driver.free_async(&context.into(), address, stream) }.unwrap();
    fixture.launch_graph(executable, stream).unwrap();
    // Another graph may free it.
    fixture.begin(stream, CaptureMode::Global);
    unsafe { driver.free_async(&context.into(), address, stream) }.unwrap();
    let freeing = fixture.end_with_graph(stream).unwrap();
    let free = fixture.instantiate(live(freeing));
    fixture.launch_graph(free, stream).unwrap();
    fixture.launch_graph(executable, stream).unwrap();
    unsafe { driver.free_async(&context.into(), address, stream) }.unwrap();
    fixture.synchronize(stream).unwrap();
    for executable in [executable, free] {
        fixture.destroy_executable(executable);
    }
    for graph in [graph, freeing] {
        fixture.destroy_graph(live(graph));
    }
}

#[test]
fn launches_and_uploads_that_cannot_be_captured() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, blocking) = (fixture.stream(), fixture.blocking());
    let graph = fixture.graph();
    let executable = fixture.instantiate(graph);
    fixture.begin(stream, CaptureMode::Relaxed);
    fixture.launch_graph(executable, fixture.stream()).unwrap();
    fixture.launch_graph(executable, Live::LEGACY).unwrap();
    let upload = |stream| support::status(driver.executable_upload(&context.into(), executable, stream));
    assert_eq!((upload(fixture.stream()), fixture.capture_status(stream)), (0, 1));
    assert_eq!((upload(stream), fixture.capture_status(stream)), (900, 2));
    assert_eq!(support::status(fixture.launch_graph(executable, stream)), 900);
    assert_eq!(fixture.end(stream), 901);
    fixture.begin(blocking, CaptureMode::Relaxed);
    assert_eq!(support::status(fixture.launch_graph(executable, Live::LEGACY)), 906);
    assert_eq!(fixture.end(blocking), 901);
    fixture.synchronize_all().unwrap();
    fixture.destroy_executable(executable);
    fixture.destroy_graph(graph);
}
