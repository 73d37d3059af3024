//! The methods that are called most often; see `fast_call.rs`.

use crate::classes::event::Event;
use crate::classes::executable::ExecutableGraph;
use crate::classes::stream::Stream;
use crate::fast_call::{self, FastCall, General};
use pyo3::prelude::*;

/// Declares a method by its object, its argument and the call that it makes of the library. `returns`: whether it returns its
/// argument.
macro_rules! frequent {
    ($(#[$about:meta])* $method:ident = $object:ident.$name:literal($argument:ident), returns $returns:literal, $call:expr) => {
        $(#[$about])*
        struct $method;

        impl FastCall for $method {
            type Object = $object;
            type Argument = $argument;
            const NAME: &'static str = $name;
            const RETURNS_ARGUMENT: bool = $returns;
            const GENERAL: &'static General = {
                static GENERAL: General = General::new();
                &GENERAL
            };

            #[inline(always)]
            fn call(object: &Bound<'_, $object>, argument: &Bound<'_, $argument>) -> Option<anabranch::Result<()>> {
                let py = object.py();
                let (object, argument) = (object.get().peek(py)?, argument.get().peek(py)?);
                fast_call::call(py, || $call(&object, &argument))
            }
        }
    };
}

frequent!(
    /// `Event.record`.
    EventRecord = Event."record"(Stream), returns false, anabranch::Event::record
);
frequent!(
    /// `Event.wait`.
    EventWait = Event."wait"(Stream), returns false, |event: &anabranch::Event, stream: &anabranch::Stream| stream.wait_event(event)
);
frequent!(
    /// `Stream.record` of an event.
    StreamRecord = Stream."record"(Event), returns true, |stream: &anabranch::Stream, event| stream.record(event).map(drop)
);
frequent!(
    /// `Stream.wait` for an event.
    StreamWait = Stream."wait"(Event), returns false, anabranch::Stream::wait_event
);
frequent!(
    /// `ExecutableGraph.launch`.
    GraphLaunch = ExecutableGraph."launch"(Stream), returns false, anabranch::ExecutableGraph::launch
);

/// Puts the methods in their classes.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    fast_call::install::<EventRecord>(py)?;
    fast_call::install::<EventWait>(py)?;
    fast_call::install::<StreamRecord>(py)?;
    fast_call::install::<StreamWait>(py)?;
    fast_call::install::<GraphLaunch>(py)
}
