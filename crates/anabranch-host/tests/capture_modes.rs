//! What captures prohibit, to which threads.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::{Fixture, live, status};

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// What unsafe calls are tried on.
struct Objects {
    stream: Live<'static, StreamHandle>,
    recorded: Live<'static, EventHandle>,
    fresh: Live<'static, EventHandle>,
    memory: DevicePointer,
    pinned: *mut u8,
    module: Live<'static, ModuleHandle>,
}

impl Objects {
    fn new(fixture: &Fixture) -> Self {
        let (stream, recorded) = (fixture.stream(), fixture.event());
        fixture.record(recorded, stream);
        let pinned = fixture.driver.allocate_pinned(&fixture.context.into(), 64, PinnedFlags::empty()).unwrap();
        let module = fixture.load([HostFunction::new("nothing", &[], |_, _| ())]);
        Self { stream, recorded, fresh: fixture.event(), memory: fixture.allocate(64), pinned, module }
    }
}

type Call = fn(&Fixture, &Objects) -> i32;

/// All potentially unsafe calls, with what they name. They succeed where they are allowed; the last ones use the objects up.
const UNSAFE_CALLS: &[(&str, Call)] = &[
    ("allocate", |f, _| status(f.driver.allocate(&f.context.into(), 16))),
    ("allocate managed", |f, _| status(f.driver.allocate_managed(&f.context.into(), 16))),
    ("allocate pinned", |f, _| status(f.driver.allocate_pinned(&f.context.into(), 16, PinnedFlags::empty()))),
    ("stream query", |f, o| f.query(o.stream)),
    ("stream synchronize", |f, o| status(f.synchronize(o.stream))),
    ("legacy query", |f, _| f.query(Live::LEGACY)),
    ("event query", |f, o| f.query_event(o.recorded)),
    ("event query, never recorded", |f, o| f.query_event(o.fresh)),
    ("event synchronize", |f, o| f.synchronize_event(o.recorded)),
    ("allocate elsewhere", |f, o| status(f.driver.allocate_async(&f.context.into(), 64, None, o.stream))),
    ("pool create", |f, _| status(f.driver.memory_pool_create(DeviceOrdinal(0), &MemoryPoolOptions::default()))),
    ("module unload", |f, o| status(unsafe { f.driver.module_unload(&f.context.into(), o.module.handle()) })),
    ("free", |f, o| status(unsafe { f.driver.free(&f.context.into(), o.memory) })),
    ("free pinned", |f, o| status(unsafe { f.driver.free_pinned(&f.context.into(), o.pinned) })),
];

/// The same call on this thread and on another one while a stream captures in a mode.
fn answers(fixture: &Fixture, call: Call, mode: CaptureMode, own: CaptureMode, elsewhere: bool) -> (i32, i32, i32) {
    let objects = Objects::new(fixture);
    let stream = fixture.stream();
    fixture.begin(stream, mode);
    let try_it = || {
        assert_eq!(fixture.driver.thread_exchange_capture_mode(own).unwrap(), CaptureMode::Global);
        let answer = call(fixture, &objects);
        assert_eq!(fixture.driver.thread_exchange_capture_mode(CaptureMode::Global).unwrap(), own);
        answer
    };
    // The handles and addresses are plain numbers to another thread.
    struct Anywhere<T>(T);
    unsafe impl<T> Sync for Anywhere<T> {}
    unsafe impl<T> Send for Anywhere<T> {}
    let answer = if elsewhere {
        let try_it = Anywhere(try_it);
        std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    let try_it = try_it;
                    (try_it.0)()
                })
                .join()
                .unwrap()
        })
    } else {
        try_it()
    };
    let status = fixture.capture_status(stream);
    let end = fixture.end(stream);
    fixture.assert_usable(stream);
    (answer, status, end)
}

#[test]
fn unsafe_calls_by_the_mode_of_the_capture_and_of_the_thread() {
    use CaptureMode::{Global, Relaxed, ThreadLocal};
    let fixture = Fixture::new();
    for (name, call) in UNSAFE_CALLS {
        for mode in MODES {
            for own in MODES {
                for elsewhere in [false, true] {
                    let prohibited = match (own, elsewhere) {
                        (Relaxed, _) => false,
                        (_, false) => mode != Relaxed,
                        (Global, true) => mode == Global,
                        (ThreadLocal, true) => false,
                    };
                    let expected = if prohibited { (900, 2, 901) } else { (0, 1, 0) };
                    let found = answers(&fixture, *call, mode, own, elsewhere);
                    assert_eq!(found, expected, "{name}: capture {mode:?}, thread {own:?}, elsewhere {elsewhere}");
                }
            }
        }
    }
}

#[test]
fn synchronizing_the_context_is_prohibited_to_any_thread_in_any_mode() {
    let fixture = Fixture::new();
    for mode in MODES {
        for own in MODES {
            for elsewhere in [false, true] {
                let found = answers(&fixture, |f, _| status(f.synchronize_all()), mode, own, elsewhere);
                assert_eq!(found, (900, 2, 901), "capture {mode:?}, thread {own:?}, elsewhere {elsewhere}");
            }
        }
    }
    fixture.synchronize_all().unwrap();
}

#[test]
fn synchronizing_another_context() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let synchronize = || status(driver.context_synchronize(&other.into()));
    let stream = fixture.stream();
    for mode in MODES {
        fixture.begin(stream, mode);
        assert_eq!((synchronize(), fixture.capture_status(stream)), (0, 1), "{mode:?}");
        assert_eq!(fixture.end(stream), 0);
    }
    fixture.begin(stream, CaptureMode::Relaxed);
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::NON_BLOCKING, 0).unwrap());
    fixture.fork(stream, foreign);
    assert_eq!((synchronize(), fixture.capture_status(stream)), (900, 2));
    assert_eq!(fixture.end(stream), 901);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
}

#[test]
fn safe_calls_do_no_harm() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (memory, kernel) = (fixture.allocate(64), fixture.function(HostFunction::new("nothing", &[], |_, _| ())));
    let other = fixture.stream();
    for mode in MODES {
        let stream = fixture.stream();
        fixture.begin(stream, mode);
        let (event, made) = (fixture.event(), fixture.stream());
        unsafe { driver.event_destroy(&context.into(), event.handle()) }.unwrap();
        unsafe { driver.stream_destroy(&context.into(), made.handle()) }.unwrap();
        fixture.read(memory, 16);
        driver.memory_info(&context.into()).unwrap();
        driver.stream_id(&context.into(), other).unwrap();
        driver.stream_flags(&context.into(), other).unwrap();
        let module: HostModule = [HostFunction::new("nothing", &[], |_, _| ())].into_iter().collect();
        unsafe { driver.module_load(&context.into(), ModuleImage::Host(&module)) }.unwrap();
        driver.stream_priority(&context.into(), stream).unwrap();
        driver.function_info(&context.into(), kernel).unwrap();
        fixture.launch(other, kernel, 1, 1, &[]).unwrap();
        fixture.fill(other, memory, 7, 16);
        // Refused for its argument, and not for the capture.
        let odd = memory.byte_add(1);
        let unaligned = unsafe { driver.fill_async(&context.into(), odd, FillPattern::U32(0), 1, stream) };
        assert_eq!((status(unaligned), fixture.capture_status(stream)), (1, 1));
        assert_eq!(fixture.end(stream), 0, "{mode:?}");
        // A launch that cannot be does harm, and so does asking the stream that captures for what it is.
        fixture.begin(stream, mode);
        assert_eq!((status(fixture.launch(stream, kernel, 0, 1, &[])), fixture.capture_status(stream)), (1, 2));
        assert_eq!(fixture.end(stream), 901, "{mode:?}");
        fixture.begin(stream, mode);
        assert_eq!((status(driver.stream_flags(&context.into(), stream)), fixture.end(stream)), (900, 901));
        fixture.begin(stream, mode);
        assert_eq!((status(driver.stream_id(&context.into(), stream)), fixture.end(stream)), (900, 901));
    }
    fixture.free(memory);
}

#[test]
fn a_thread_begins_with_the_global_mode_and_has_a_mode_of_its_own() {
    let fixture = Fixture::new();
    let exchange = |mode| fixture.driver.thread_exchange_capture_mode(mode).unwrap();
    assert_eq!(exchange(CaptureMode::Relaxed), CaptureMode::Global);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(exchange(CaptureMode::ThreadLocal), CaptureMode::Global));
    });
    assert_eq!(exchange(CaptureMode::ThreadLocal), CaptureMode::Relaxed);
    assert_eq!(exchange(CaptureMode::Global), CaptureMode::ThreadLocal);
}

#[test]
fn a_prohibited_call_invalidates_what_prohibits_it_and_no_more() {
    let fixture = Fixture::new();
    let [global, local, relaxed] = [(); 3].map(|()| fixture.stream());
    let (elsewhere_global, elsewhere_local) = (fixture.stream(), fixture.stream());
    fixture.begin(global, CaptureMode::Global);
    fixture.begin(local, CaptureMode::ThreadLocal);
    fixture.begin(relaxed, CaptureMode::Relaxed);
    let (begun, wait_begun) = std::sync::mpsc::channel();
    let (tried, wait_tried) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            fixture.begin(elsewhere_global, CaptureMode::Global);
            fixture.begin(elsewhere_local, CaptureMode::ThreadLocal);
            begun.send(()).unwrap();
            wait_tried.recv().unwrap();
            assert_eq!((fixture.end(elsewhere_global), fixture.end(elsewhere_local)), (901, 0));
        });
        wait_begun.recv().unwrap();
        assert_eq!(status(fixture.driver.allocate(&fixture.context.into(), 16)), 900);
        tried.send(()).unwrap();
    });
    assert_eq!((fixture.end(global), fixture.end(local), fixture.end(relaxed)), (901, 901, 0));
}

#[test]
fn an_invalidated_capture_prohibits_until_it_is_ended() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    fixture.begin(stream, CaptureMode::Global);
    for _ in 0..2 {
        assert_eq!(status(fixture.driver.allocate(&fixture.context.into(), 16)), 900);
        assert_eq!(fixture.query(fixture.stream()), 900);
    }
    assert_eq!(fixture.end(stream), 901);
    let memory = fixture.allocate(16);
    fixture.free(memory);
}
