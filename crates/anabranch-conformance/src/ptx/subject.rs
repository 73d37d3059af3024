//! A kernel with its launch and its inputs.

use super::element::Element;
use super::{golden, random, sweep};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Where a subject comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Written in CUDA C++. The seed is its number.
    Golden,
    /// Single instructions with many operands.
    Sweep,
    /// Composed of many instructions.
    Random,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 3] = [Self::Golden, Self::Sweep, Self::Random];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Sweep => "sweep",
            Self::Random => "random",
        }
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

/// The text of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// A whole module.
    Module(&'static str),
    /// What a module with the head [`HEAD`] contains, which others may share.
    Part(String),
}

/// The head of a module of parts: of the architecture of the recordings, for all instructions it has.
pub(crate) const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Memory with these contents.
    Memory(Vec<u8>),
    /// A plain value.
    Value(Vec<u8>),
}

/// A part of the memory that a kernel writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub(crate) label: String,
    /// The number of the argument whose memory it is, and the bytes in it.
    pub(crate) argument: usize,
    pub(crate) range: Range<usize>,
    pub(crate) element: Element,
    /// Whether a recording has the values, and not only a hash.
    pub(crate) keeps: bool,
}

impl Output {
    /// The instruction that gives it, or its name.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// A value in words.
    pub fn text(&self, value: u64) -> String {
        self.element.text(value)
    }
}

/// A kernel with its launch and its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub(crate) family: Family,
    pub(crate) seed: u64,
    /// The name in the family, if it is no number.
    pub(crate) name: Option<&'static str>,
    pub(crate) text: Text,
    pub(crate) entry: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) outputs: Vec<Output>,
}

impl Subject {
    /// Makes the subject of a family and a seed, if there is one. It is the same in every process and for every device.
    pub fn new(family: Family, seed: u64) -> Option<Self> {
        match family {
            Family::Golden => golden::subject(usize::try_from(seed).ok()?),
            Family::Sweep => Some(sweep::subject(seed)),
            Family::Random => Some(random::subject(seed)),
        }
    }

    /// The number of golden kernels.
    pub fn golden_count() -> u64 {
        golden::count() as u64
    }

    /// The number of sweeps after which the same instructions have other operands.
    pub fn sweep_count() -> u64 {
        sweep::count()
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The outputs, in the order of the instructions that give them.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The text of a module with this kernel alone.
    pub fn module(&self) -> String {
        match &self.text {
            Text::Module(text) => (*text).to_owned(),
            Text::Part(part) => format!("{HEAD}{part}"),
        }
    }

    /// The same with only one output, where each has an instruction of its own.
    #[must_use]
    pub fn only(&self, output: usize) -> Option<Self> {
        (self.family == Family::Sweep).then(|| sweep::only(self.seed, output))
    }

    /// A number that is different for a different kernel, launch or input.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Hash::default();
        hash.add(self.module().as_bytes());
        hash.add(self.entry.as_bytes());
        for number in [self.grid, self.block].into_iter().flatten().chain([self.shared]) {
            hash.add(&number.to_le_bytes());
        }
        for argument in &self.arguments {
            let (Argument::Memory(bytes) | Argument::Value(bytes)) = argument;
            hash.add(bytes);
        }
        hash.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(formatter, "{}.{name}", self.family),
            None => write!(formatter, "{}.{}", self.family, self.seed),
        }
    }
}

/// FNV-1a: the hashes of the standard library may change between its versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(pub(crate) u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
