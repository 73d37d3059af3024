//! Random programs of calls of the driver contract or of the safe API, and what devices answer to them.
//!
//! A [`Program`] is made from a family and a seed alone. A [`Player`] makes its calls on a device, and gives an [`Answer`]
//! to each. A [`Recording`] has the answers of one device, such as a GPU, for comparison on a machine that has none.
//!
//! Programs only do what is defined, and what they ask does not depend on time: contents do not depend on the order of
//! work that has none, nothing waits for what never happens, and no handle is used whose object no longer exists.

mod answer;
mod call;
mod compare;
mod generate;
mod numbers;
mod player;
mod recording;
mod shrink;
mod slots;

pub use answer::{Answer, Outcome};
pub use compare::{Difference, first_difference};
pub use player::{Played, Player};
pub use recording::{Header, Recorded, Recording};
pub use shrink::shrink;

pub(crate) use numbers::Numbers;

use call::Call;
use std::fmt::{self, Write};
use std::str::FromStr;

/// What the calls of a program are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Streams, events and host functions.
    Streams,
    /// Work that is held up by values in memory, and queries of it.
    Gates,
    /// Captures, and every other call while streams capture.
    Capture,
    /// Graphs that are built node by node, changed and launched.
    Graphs,
    /// Memory: allocating, freeing, pools, and copies and fills at any address.
    Memory,
    /// Waits for values, and writes of values, at any address.
    Values,
    /// Modules, kernels and their attributes, and launches with any configuration.
    Modules,
    /// All kinds of calls after a kernel has lost the context.
    Sticky,
    /// Calls of all kinds over two devices.
    Devices,
    /// The safe API: streams, events, buffers, captures, graphs and futures.
    Front,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 10] = [
        Self::Streams,
        Self::Gates,
        Self::Capture,
        Self::Graphs,
        Self::Memory,
        Self::Values,
        Self::Modules,
        Self::Sticky,
        Self::Devices,
        Self::Front,
    ];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Gates => "gates",
            Self::Capture => "capture",
            Self::Graphs => "graphs",
            Self::Memory => "memory",
            Self::Values => "values",
            Self::Modules => "modules",
            Self::Sticky => "sticky",
            Self::Devices => "devices",
            Self::Front => "front",
        }
    }

    /// How many devices the programs need.
    pub const fn device_count(self) -> usize {
        if matches!(self, Self::Devices) { 2 } else { 1 }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|family| family.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|family| family.name()).collect();
            format!("there is no family `{text}`; the families are {}", names.join(", "))
        })
    }
}

/// One of the two host threads of a program. They take turns, one call at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostThread {
    First,
    Second,
}

/// Calls in the order in which they are made.
#[derive(Clone, Debug)]
pub struct Program {
    family: Family,
    seed: u64,
    calls: Vec<(HostThread, Call)>,
}

/// The hash of a text that is never there as a whole. FNV-1a: the hashes of the standard library may change between its
/// versions.
struct TextHash(u64);

impl TextHash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for TextHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        self.0 = text.bytes().fold(self.0, add);
        Ok(())
    }
}

impl Program {
    /// Makes the program of a family and a seed. It is the same in every process and for every device.
    pub fn new(family: Family, seed: u64) -> Self {
        Self { family, seed, calls: generate::calls(family, seed) }
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether it accesses memory at any address.
    fn has_arena(&self) -> bool {
        self.calls.iter().any(|(_, call)| matches!(call, Call::Arena(_)))
    }

    /// A number that is different for a different sequence of calls.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = TextHash::new();
        for (thread, call) in &self.calls {
            // Hashing has no errors.
            let _ = writeln!(hash, "t{} {call}", *thread as u8);
        }
        hash.0
    }

    /// The call of that number with its thread, such as `t0 stream_query(s6)`.
    pub fn text(&self, index: usize) -> String {
        match self.calls.get(index) {
            Some((thread, call)) => format!("t{} {call}", *thread as u8),
            None => "end of the program".to_owned(),
        }
    }

    /// The name of the call of that number, such as `stream_query`. After the last call it is `end`.
    pub fn name(&self, index: usize) -> &'static str {
        self.calls.get(index).map_or("end", |(_, call)| call.name())
    }

    /// The program with only some of its calls, by number.
    #[must_use]
    pub fn keep(&self, calls: &[usize]) -> Self {
        let calls = calls.iter().filter_map(|&index| self.calls.get(index).cloned()).collect();
        Self { calls, ..*self }
    }
}
