//! Which call reports a panic of work: it is lost nowhere, told once, and told where the work was. `docs/safety.md` lists the
//! classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Context, ContextFlags, DualModule, Error, ErrorKind, HostFunction, LaunchConfig, Operation, Result, Status, Stream,
    StreamPolicy, StreamPool,
};
use common::host;
use futures::executor::block_on;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Panics without a message on standard error.
fn panic() {
    resume_unwind(Box::new("on purpose"));
}

fn error() -> Error {
    Error::argument(Status::INVALID_VALUE, "testing", "of the body")
}

/// Puts work into a stream that panics.
type Panicking = fn(&Stream) -> Result<()>;

fn host_function(stream: &Stream) -> Result<()> {
    stream.launch_host_func(panic)
}

fn kernel(stream: &Stream) -> Result<()> {
    let function = HostFunction::new("kernel", &[], |_, _| panic());
    let kernel = DualModule::new().host_function(function).load(&stream.context())?.kernel("kernel")?;
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ())
}

const KINDS: [Panicking; 2] = [host_function, kernel];

#[track_caller]
fn assert_reported<T>(result: Result<T>) {
    assert_eq!(result.map(drop).unwrap_err().kind(), ErrorKind::Panicked);
}

/// A panic is told by this call, and then nobody else is told it.
#[track_caller]
fn assert_told_once(stream: &Stream) {
    assert_reported(stream.synchronize());
    stream.synchronize().unwrap();
    stream.context().synchronize().unwrap();
}

fn parts(panics: Panicking, which: usize) -> Operation<'static, Vec<()>> {
    let part = move |number| Operation::new(move |stream| if number == which { panics(stream) } else { Ok(()) });
    Operation::all((0..3).map(part))
}

fn pools(context: &Context) -> [StreamPool; 2] {
    [StreamPolicy::RoundRobin, StreamPolicy::LeastLoaded].map(|policy| StreamPool::new(context, 3, policy).unwrap())
}

#[test]
fn safety_106_an_operation_reports_a_panic_of_any_of_its_parts() {
    let context = host();
    for pool in pools(&context) {
        for panics in KINDS {
            for which in 0..3 {
                assert_reported(parts(panics, which).run(&pool));
                pool.streams().for_each(|stream| stream.synchronize().unwrap());
                assert_reported(block_on(parts(panics, which).run_async(&pool)));
                pool.streams().for_each(|stream| stream.synchronize().unwrap());
                let inside = parts(panics, which).zip(parts(panics, 3)).zip(Operation::value(()));
                assert_reported(inside.run(&pool));
                context.synchronize().unwrap();
            }
        }
        Operation::new(|stream| stream.launch_host_func(|| ())).run(&pool).unwrap();
    }
}

#[test]
fn safety_106_what_an_operation_cannot_report_remains() {
    let context = host();
    for pool in pools(&context) {
        let all = || Operation::all((0..3).map(|_| Operation::new(host_function)));
        assert_reported(all().run(&pool));
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 2);
        assert_reported(block_on(all().run_async(&pool)));
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 2);
        let failed = all().then(|_, _| Err::<(), _>(error())).run(&pool);
        assert_eq!(failed.unwrap_err().status(), Status::INVALID_VALUE);
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 3);
    }
}

#[test]
fn safety_106_a_scope_that_fails_leaves_panics_to_be_reported() {
    let context = host();
    let [own, entered] = [(); 2].map(|()| context.create_stream().unwrap());
    for panics in KINDS {
        panics(&own).unwrap();
        panics(&entered).unwrap();
        let failed = own.sync_scope(|scope| scope.on(&entered).and(Err::<(), _>(error())));
        assert_eq!(failed.unwrap_err().status(), Status::INVALID_VALUE);
        assert_reported(own.synchronize());
        assert_told_once(&entered);

        panics(&own).unwrap();
        panics(&entered).unwrap();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            own.sync_scope(|scope| {
                scope.on(&entered)?;
                panic();
                Ok(())
            })
        }));
        assert!(unwound.is_err());
        assert_reported(own.synchronize());
        assert_told_once(&entered);
    }
    // A copy that is refused is a scope that fails.
    host_function(&own).unwrap();
    let far = context.device().create_context(ContextFlags::empty()).unwrap();
    let far = far.create_stream().unwrap().upload(&[1u32]).unwrap();
    assert_eq!(own.copy_to_host(&mut [0], &far).unwrap_err().status(), Status::INVALID_HANDLE);
    assert_told_once(&own);
}

#[test]
fn safety_106_a_scope_reports_one_of_several_panics_and_leaves_the_others() {
    let context = host();
    let streams = [(); 3].map(|()| context.create_stream().unwrap());
    let [own, entered, last] = &streams;
    for panics in KINDS {
        streams.iter().for_each(|stream| panics(stream).unwrap());
        assert_reported(own.sync_scope(|scope| scope.on(entered).and(scope.on(last)).map(drop)));
        own.synchronize().unwrap();
        assert_reported(entered.synchronize());
        assert_told_once(last);
        panics(entered).unwrap();
        assert_reported(own.sync_scope(|scope| scope.on(entered).map(drop)));
        context.synchronize().unwrap();
    }
}
