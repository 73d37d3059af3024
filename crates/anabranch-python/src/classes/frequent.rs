//! The methods that are called most often; see `fast_call.rs`.

use crate::classes::event::Event;
use crate::classes::executable::ExecutableGraph;
use crate::classes::stream::Stream;
use crate::fast_call::{self, FastCall, General};
use pyo3::prelude::*;

/// Puts the methods in their classes.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    fast_call::install::<EventRecord>(py)?;
    fast_call::install::<EventWait>(py)?;
    fast_call::install::<StreamRecord>(py)?;
    fast_call::install::<StreamWait>(py)?;
    fast_call::install::<GraphLaunch>(py)
}

/// `Event.record`.
struct EventRecord;

impl FastCall for EventRecord {
    type Object = Event;
    type Argument = Stream;
    const NAME: &'static str = "record";
    const GENERAL: &'static General = {
        static GENERAL: General = General::new();
        &GENERAL
    };

    #[inline(always)]
    fn call(event: &Bound<'_, Event>, stream: &Bound<'_, Stream>) -> Option<anabranch::Result<()>> {
        let py = event.py();
        let (event, stream) = (event.get().peek(py)?, stream.get().peek(py)?);
        fast_call::call(py, || event.record(&stream))
    }
}

/// `Event.wait`.
struct EventWait;

impl FastCall for EventWait {
    type Object = Event;
    type Argument = Stream;
    const NAME: &'static str = "wait";
    const GENERAL: &'static General = {
        static GENERAL: General = General::new();
        &GENERAL
    };

    #[inline(always)]
    fn call(event: &Bound<'_, Event>, stream: &Bound<'_, Stream>) -> Option<anabranch::Result<()>> {
        let py = event.py();
        let (event, stream) = (event.get().peek(py)?, stream.get().peek(py)?);
        fast_call::call(py, || stream.wait_event(&event))
    }
}

/// `Stream.record` of an event.
struct StreamRecord;

impl FastCall for StreamRecord {
    type Object = Stream;
    type Argument = Event;
    const NAME: &'static str = "record";
    const RETURNS_ARGUMENT: bool = true;
    const GENERAL: &'static General = {
        static GENERAL: General = General::new();
        &GENERAL
    };

    #[inline(always)]
    fn call(stream: &Bound<'_, Stream>, event: &Bound<'_, Event>) -> Option<anabranch::Result<()>> {
        let py = stream.py();
        let (stream, event) = (stream.get().peek(py)?, event.get().peek(py)?);
        fast_call::call(py, || stream.record(&event).map(drop))
    }
}

/// `Stream.wait` for an event.
struct StreamWait;

impl FastCall for StreamWait {
    type Object = Stream;
    type Argument = Event;
    const NAME: &'static str = "wait";
    const GENERAL: &'static General = {
        static GENERAL: General = General::new();
        &GENERAL
    };

    #[inline(always)]
    fn call(stream: &Bound<'_, Stream>, event: &Bound<'_, Event>) -> Option<anabranch::Result<()>> {
        let py = stream.py();
        let (stream, event) = (stream.get().peek(py)?, event.get().peek(py)?);
        fast_call::call(py, || stream.wait_event(&event))
    }
}

/// `ExecutableGraph.launch`.
struct GraphLaunch;

impl FastCall for GraphLaunch {
    type Object = ExecutableGraph;
    type Argument = Stream;
    const NAME: &'static str = "launch";
    const GENERAL: &'static General = {
        static GENERAL: General = General::new();
        &GENERAL
    };

    #[inline(always)]
    fn call(executable: &Bound<'_, ExecutableGraph>, stream: &Bound<'_, Stream>) -> Option<anabranch::Result<()>> {
        let py = executable.py();
        let (executable, stream) = (executable.get().peek(py)?, stream.get().peek(py)?);
        fast_call::call(py, || executable.launch(&stream))
    }
}
