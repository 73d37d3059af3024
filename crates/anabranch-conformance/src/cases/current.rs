//! The current stream of a thread.

use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use anabranch::Stream;

pub(super) const CASES: &[Case] = &[
    Case::new("current.guards_nest", "S5", guards_nest),
    Case::new("current.guards_may_go_out_of_order", "S5", guards_may_go_out_of_order),
    Case::new("current.is_the_threads_own", "S5", is_the_threads_own),
    Case::new("current.can_be_used", "S5", can_be_used),
];

fn current() -> Option<u64> {
    Stream::with_current(|stream| stream.map(Stream::id))
}

fn guards_nest(environment: &Environment) -> Verdict {
    let (outer, inner) = (environment.stream()?, environment.stream()?);
    equal("before", current(), None)?;
    {
        let _outer = outer.enter();
        equal("inside of the outer guard", current(), Some(outer.id()))?;
        {
            let _inner = inner.enter();
            equal("inside of the inner guard", current(), Some(inner.id()))?;
        }
        equal("after the inner guard", current(), Some(outer.id()))?;
    }
    equal("after both", current(), None)
}

fn guards_may_go_out_of_order(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let (outer, inner) = (first.enter(), second.enter());
    drop(outer);
    equal("after the outer guard", current(), Some(second.id()))?;
    drop(inner);
    equal("after both", current(), None)
}

fn is_the_threads_own(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let _guard = stream.enter();
    let elsewhere = std::thread::scope(|scope| scope.spawn(current).join());
    equal("on another thread", elsewhere.ok(), Some(None))
}

fn can_be_used(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let _guard = stream.enter();
    let found = Stream::with_current(|current| match current {
        Some(current) => current.download(&current.upload(&[8u32])?).map(Some),
        None => Ok(None),
    })?;
    equal("a round trip", found, Some(vec![8]))?;
    stream.synchronize()?;
    Ok(())
}
