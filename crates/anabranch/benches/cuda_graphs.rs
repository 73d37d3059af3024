//! What graphs cost over the bare function table, on a CUDA device, interleaved in one run; and that launching one
//! allocates nothing.
//!
//! Graphs of 100 empty kernels, in one chain and in four, are captured, made ready and launched in turns by the library and
//! through function pointers taken from the driver's library directly. Each launches an executable of its own. Medians of
//! the turns are compared. Without a CUDA device it says so and ends.

mod support;

use anabranch::{
    BackendKind, Buffer, CaptureMode, Context, DevicePointer, Event, EventFlags, ExecutableGraph, Instance, Kernel,
    LaunchConfig, Module, Result, Stream,
};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::hint::black_box;
use std::ptr;
use support::compare;

const KERNELS: usize = 100;
const STREAMS: usize = 4;
/// Few, so that the device keeps up, and what is measured is not how fast it runs kernels.
const LAUNCHES: u32 = 4;

/// A way to do what is compared.
type Way<'a> = &'a dyn Fn();

type Launch = unsafe extern "C" fn(
    usize,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    usize,
    *const *const c_void,
    *const *const c_void,
) -> c_int;

/// The driver's functions, taken from its library with nothing in between.
struct Bare {
    launch: Launch,
    record: unsafe extern "C" fn(usize, usize) -> c_int,
    wait: unsafe extern "C" fn(usize, usize, c_uint) -> c_int,
    synchronize: unsafe extern "C" fn(usize) -> c_int,
    set_current: unsafe extern "C" fn(usize) -> c_int,
    begin_capture: unsafe extern "C" fn(usize, c_uint) -> c_int,
    end_capture: unsafe extern "C" fn(usize, *mut usize) -> c_int,
    instantiate: unsafe extern "C" fn(*mut usize, usize, c_ulonglong) -> c_int,
    launch_graph: unsafe extern "C" fn(usize, usize) -> c_int,
    destroy_graph: unsafe extern "C" fn(usize) -> c_int,
    destroy_executable: unsafe extern "C" fn(usize) -> c_int,
    _library: libloading::Library,
}

impl Bare {
    fn load() -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the driver's library is loaded already, and its functions have these signatures.
        unsafe {
            let library = libloading::Library::new("libcuda.so.1")?;
            Ok(Self {
                launch: *library.get(b"cuLaunchKernel")?,
                record: *library.get(b"cuEventRecord")?,
                wait: *library.get(b"cuStreamWaitEvent")?,
                synchronize: *library.get(b"cuStreamSynchronize")?,
                set_current: *library.get(b"cuCtxSetCurrent")?,
                begin_capture: *library.get(b"cuStreamBeginCapture_v2")?,
                end_capture: *library.get(b"cuStreamEndCapture")?,
                instantiate: *library.get(b"cuGraphInstantiateWithFlags")?,
                launch_graph: *library.get(b"cuGraphLaunch")?,
                destroy_graph: *library.get(b"cuGraphDestroy")?,
                destroy_executable: *library.get(b"cuGraphExecDestroy")?,
                _library: library,
            })
        }
    }

    /// Captures globally, as a plain program would, and makes the graph ready.
    fn capture(&self, stream: usize, body: impl FnOnce()) -> usize {
        let (mut graph, mut executable) = (0, 0);
        // SAFETY: the stream is live; the results are written to variables that outlive the calls; the graph is not used
        // after it is destroyed.
        unsafe {
            succeeds("cuStreamBeginCapture", (self.begin_capture)(stream, 0));
            body();
            succeeds("cuStreamEndCapture", (self.end_capture)(stream, &mut graph));
            succeeds("cuGraphInstantiateWithFlags", (self.instantiate)(&mut executable, graph, 0));
            succeeds("cuGraphDestroy", (self.destroy_graph)(graph));
        }
        executable
    }

    fn destroy(&self, executable: usize) {
        // SAFETY: this is the last use of it.
        succeeds("cuGraphExecDestroy", unsafe { (self.destroy_executable)(executable) });
    }
}

/// A comparison with calls that fail would mean nothing.
#[inline]
fn succeeds(call: &str, status: c_int) {
    assert_eq!(status, 0, "{call} failed");
}

fn main() -> Result<()> {
    let instance = Instance::new()?;
    let Some(device) = instance.devices().iter().find(|device| device.backend() == BackendKind::Cuda) else {
        println!("no CUDA device: nothing to compare with");
        return Ok(());
    };
    let quick = std::env::args().any(|argument| argument == "--test");
    println!("{}, driver of CUDA {}", device.properties().name, device.driver_version());
    let context = device.context()?;
    let bare = match Bare::load() {
        Ok(bare) => bare,
        Err(error) => {
            println!("the driver's library cannot be opened a second time: {error}");
            return Ok(());
        }
    };
    // SAFETY: the context is live; the bare calls are given what they need, as a plain program would.
    succeeds("cuCtxSetCurrent", unsafe { (bare.set_current)(context.as_raw().as_raw()) });
    measure(&Work::new(&context)?, &bare, if quick { 1 } else { 41 })
}

/// What the graphs are made of. The first stream is the one that captures and launches.
struct Work {
    streams: Vec<Stream>,
    /// One for each stream, for the bare calls.
    events: Vec<Event>,
    nothing: Kernel,
    three: Kernel,
    config: LaunchConfig<'static>,
    buffer: RefCell<Buffer<f32>>,
}

impl Work {
    fn new(context: &Context) -> Result<Self> {
        let module = Module::load_ptx(context, include_str!("kernels.ptx"))?;
        let streams = (0..STREAMS).map(|_| context.create_stream()).collect::<Result<Vec<_>>>()?;
        let event = |_| context.create_event_with_flags(EventFlags::DISABLE_TIMING);
        Ok(Self {
            events: (0..STREAMS).map(event).collect::<Result<_>>()?,
            nothing: module.kernel("nothing")?,
            three: module.kernel("three")?,
            config: LaunchConfig::new(1, 32),
            buffer: RefCell::new(streams[0].upload(&[0.0f32; 64])?),
            streams,
        })
    }

    fn stream(&self) -> &Stream {
        &self.streams[0]
    }

    fn raw(&self, stream: usize) -> usize {
        self.streams[stream].as_raw().as_raw()
    }

    fn nothing(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the kernel does nothing.
        unsafe { stream.launch(&self.nothing, &self.config, ()) }
    }

    fn bare_nothing(&self, bare: &Bare, stream: usize) {
        let (function, none) = (self.nothing.as_raw().as_raw(), ptr::null());
        // SAFETY: function and stream are live, and the kernel takes no arguments.
        succeeds("cuLaunchKernel", unsafe {
            (bare.launch)(function, 1, 1, 1, 32, 1, 1, 0, self.raw(stream), none, none)
        });
    }

    fn chain(&self) -> Result<ExecutableGraph> {
        self.stream()
            .capture_executable(CaptureMode::Global, |scope| (0..KERNELS).try_for_each(|_| self.nothing(scope)))
    }

    fn bare_chain(&self, bare: &Bare) -> usize {
        bare.capture(self.raw(0), || (0..KERNELS).for_each(|_| self.bare_nothing(bare, 0)))
    }

    fn four_chains(&self) -> Result<ExecutableGraph> {
        self.stream().capture_executable(CaptureMode::Global, |scope| {
            let others = &self.streams[1..];
            others.iter().try_for_each(|other| scope.fork(other))?;
            for _ in 0..KERNELS / STREAMS {
                self.streams.iter().try_for_each(|stream| self.nothing(stream))?;
            }
            others.iter().try_for_each(|other| scope.join(other))
        })
    }

    fn bare_four_chains(&self, bare: &Bare) -> usize {
        let event = |stream: usize| self.events[stream].as_raw().as_raw();
        // SAFETY: events and streams are live.
        let record = |stream| succeeds("cuEventRecord", unsafe { (bare.record)(event(stream), self.raw(stream)) });
        let wait = |stream, earlier| {
            // SAFETY: as above.
            succeeds("cuStreamWaitEvent", unsafe { (bare.wait)(self.raw(stream), event(earlier), 0) });
        };
        bare.capture(self.raw(0), || {
            record(0);
            (1..STREAMS).for_each(|other| wait(other, 0));
            for _ in 0..KERNELS / STREAMS {
                (0..STREAMS).for_each(|stream| self.bare_nothing(bare, stream));
            }
            for other in 1..STREAMS {
                record(other);
                wait(0, other);
            }
        })
    }

    /// A chain of kernels that all write one buffer.
    fn with_buffer(&self) -> Result<ExecutableGraph> {
        let mut buffer = self.buffer.borrow_mut();
        self.stream().capture_executable(CaptureMode::Global, |scope| {
            (0..KERNELS).try_for_each(|_| {
                // SAFETY: the kernel does nothing with its arguments.
                unsafe { scope.launch(&self.three, &self.config, (DevicePointer(0), &mut *buffer, 64u32)) }
            })
        })
    }

    fn bare_with_buffer(&self, bare: &Bare) -> usize {
        let (function, stream) = (self.three.as_raw().as_raw(), self.raw(0));
        let (null, address, count) = (DevicePointer(0), self.buffer.borrow().device_pointer(), 64u32);
        bare.capture(stream, || {
            for _ in 0..KERNELS {
                let arguments: [*const c_void; 3] =
                    [(&raw const null).cast(), (&raw const address).cast(), (&raw const count).cast()];
                // SAFETY: function and stream are live, and the arguments are those that it declares.
                succeeds("cuLaunchKernel", unsafe {
                    (bare.launch)(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments.as_ptr(), ptr::null())
                });
            }
        })
    }

    fn settle(&self) {
        // Errors show in the calls that follow.
        self.streams.iter().for_each(|stream| _ = stream.synchronize());
    }
}

fn measure(work: &Work, bare: &Bare, turns: u32) -> Result<()> {
    println!("graphs of {KERNELS} empty kernels");
    let graphs = [
        ("chain", work.chain()?, work.bare_chain(bare)),
        ("four chains", work.four_chains()?, work.bare_four_chains(bare)),
        ("chain with a buffer", work.with_buffer()?, work.bare_with_buffer(bare)),
    ];
    let stream = work.stream();
    let raw = work.raw(0);
    for (name, executable, bare_executable) in &graphs {
        // SAFETY: both are live.
        let launch_bare = || succeeds("cuGraphLaunch", unsafe { (bare.launch_graph)(*bare_executable, raw) });
        compare(
            &format!("launch, {name}"),
            LAUNCHES,
            turns * 10,
            || work.settle(),
            launch_bare,
            || assert!(black_box(executable.launch(stream)).is_ok()),
        );
        compare(
            &format!("launch and wait, {name}"),
            LAUNCHES,
            turns * 5,
            || work.settle(),
            || {
                launch_bare();
                // SAFETY: the stream is live.
                succeeds("cuStreamSynchronize", unsafe { (bare.synchronize)(raw) });
            },
            || assert!(black_box(executable.launch(stream).and(stream.synchronize())).is_ok()),
        );
    }
    // With the end of both, the graph and the executable.
    let captures: [(&str, Way<'_>, Way<'_>); 3] = [
        ("chain", &|| bare.destroy(work.bare_chain(bare)), &|| assert!(work.chain().is_ok())),
        ("four chains", &|| bare.destroy(work.bare_four_chains(bare)), &|| assert!(work.four_chains().is_ok())),
        ("chain with a buffer", &|| bare.destroy(work.bare_with_buffer(bare)), &|| assert!(work.with_buffer().is_ok())),
    ];
    for (name, capture_bare, capture) in captures {
        compare(&format!("capture, {name}"), LAUNCHES, turns * 2, || work.settle(), capture_bare, capture);
    }
    work.settle();
    graphs.iter().for_each(|&(_, _, executable)| bare.destroy(executable));
    Ok(())
}
