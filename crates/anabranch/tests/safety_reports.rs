//! Which call reports a panic of work: it is lost nowhere, told once, and told where the work was. `docs/safety.md` lists the
//! classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Context, DualModule, Error, ErrorKind, HostFunction, LaunchConfig, Operation, Result, Status, Stream, StreamPolicy,
    StreamPool,
};
use common::host;
use futures::executor::block_on;
use std::panic::resume_unwind;

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
