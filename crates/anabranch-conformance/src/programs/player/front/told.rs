//! Answers to calls of the safe API.

use crate::programs::answer::{Answer, Outcome};
use anabranch::{Error, Result, Status};
use std::time::{Duration, Instant};

/// How long work may take that nothing holds up.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said of an error: its kind, beside the status.
pub(super) fn refused(error: &Error) -> Answer {
    Answer::with(Outcome::Status(error.status().0), format!("{:?}", error.kind()))
}

/// The answer to a call of which the result is described.
pub(super) fn told<T>(result: Result<T>, tell: impl FnOnce(T) -> String) -> Answer {
    match result {
        Ok(value) => Answer::with(Outcome::Status(0), tell(value)),
        Err(error) => refused(&error),
    }
}

/// The answer to a call that returns nothing.
pub(super) fn plain(result: Result<()>) -> Answer {
    told(result, |()| String::new())
}

/// Asks whether work is complete until it is. The library counts on work that it knows to be complete, so what follows would
/// depend on the time otherwise.
pub(super) fn completes(mut ask: impl FnMut() -> Result<bool>) -> Answer {
    let start = Instant::now();
    loop {
        let result = match ask() {
            Err(error) if error.status() == Status::NOT_READY => Ok(false),
            result => result,
        };
        match result {
            Ok(false) if start.elapsed() < PATIENCE => std::thread::yield_now(),
            result => return told(result, |is_complete| is_complete.to_string()),
        }
    }
}

/// Few elements, or a number that is made of many.
pub(super) fn contents(elements: &[u32]) -> String {
    if elements.len() <= 4 {
        return format!("{elements:?}");
    }
    let hash = elements
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &element| (hash ^ u64::from(element)).wrapping_mul(0x100_0000_01b3));
    format!("{}#{:08x}", elements.len(), (hash ^ (hash >> 32)) as u32)
}

/// Elements that are made of a number.
pub(super) fn elements(length: usize, seed: u32) -> Vec<u32> {
    (0..length as u32).map(|index| seed.wrapping_mul(1000).wrapping_add(index)).collect()
}
