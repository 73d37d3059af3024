//! A driver that does something wrong on purpose, to see that it is found.

use anabranch::hal::{Call, Driver, Forward, Layered, Live, Result, StreamHandle};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a driver does wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The priority of a stream is one too high.
    Alter,
    /// The process ends at this call.
    Abort(String),
    /// This call does not return.
    Hang(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alter => formatter.write_str("alter"),
            Self::Abort(method) => write!(formatter, "abort:{method}"),
            Self::Hang(method) => write!(formatter, "hang:{method}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "alter" => Ok(Self::Alter),
            Some(("abort", method)) => Ok(Self::Abort(method.to_owned())),
            Some(("hang", method)) => Ok(Self::Hang(method.to_owned())),
            _ => Err(format!("`{text}` is not alter, abort:CALL or hang:CALL")),
        }
    }
}

impl Fault {
    /// The driver with this fault.
    pub(crate) fn wrap(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Layered(Faulty { driver, fault: self.clone() }))
    }
}

#[derive(Debug)]
struct Faulty {
    driver: Arc<dyn Driver>,
    fault: Fault,
}

// SAFETY: all calls that return go to the one driver, with what they were given.
unsafe impl Forward for Faulty {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn called(&self, _: &'static str, method: &'static str) {
        match &self.fault {
            Fault::Abort(call) if call == method => std::process::abort(),
            Fault::Hang(call) if call == method => loop {
                std::thread::park();
            },
            _ => {}
        }
    }

    fn stream_priority(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<i32> {
        let priority = self.inner().stream_priority(call, stream)?;
        Ok(priority + i32::from(self.fault == Fault::Alter))
    }
}
