//! Types of values and kinds of memory.

/// A fundamental type of PTX, or one that only some instructions know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Scalar {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    U16x2,
    S16x2,
    F32x2,
    Tf32,
    E4m3x2,
    E5m2x2,
    Pred,
    /// A texture reference, a sampler reference or a surface reference.
    Opaque,
}

/// What the bits of a type mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    Bits,
    Unsigned,
    Signed,
    Float,
}

const NAMES: &[(&str, Scalar)] = &[
    ("b8", Scalar::B8),
    ("b16", Scalar::B16),
    ("b32", Scalar::B32),
    ("b64", Scalar::B64),
    ("b128", Scalar::B128),
    ("u8", Scalar::U8),
    ("u16", Scalar::U16),
    ("u32", Scalar::U32),
    ("u64", Scalar::U64),
    ("s8", Scalar::S8),
    ("s16", Scalar::S16),
    ("s32", Scalar::S32),
    ("s64", Scalar::S64),
    ("f16", Scalar::F16),
    ("f16x2", Scalar::F16x2),
    ("bf16", Scalar::Bf16),
    ("bf16x2", Scalar::Bf16x2),
    ("f32", Scalar::F32),
    ("f64", Scalar::F64),
    ("u16x2", Scalar::U16x2),
    ("s16x2", Scalar::S16x2),
    ("f32x2", Scalar::F32x2),
    ("tf32", Scalar::Tf32),
    ("e4m3x2", Scalar::E4m3x2),
    ("e5m2x2", Scalar::E5m2x2),
    ("pred", Scalar::Pred),
    ("texref", Scalar::Opaque),
    ("samplerref", Scalar::Opaque),
    ("surfref", Scalar::Opaque),
];

impl Scalar {
    /// The type with this name, written without the dot.
    pub fn from_name(name: &str) -> Option<Scalar> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
    }

    /// The name in PTX, without the dot.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, scalar)| *scalar == self).map_or("", |(name, _)| name)
    }

    /// The size of a value in memory, in bytes. A predicate has none, and counts as 0.
    pub fn bytes(self) -> u32 {
        match self {
            Scalar::B8 | Scalar::U8 | Scalar::S8 => 1,
            Scalar::B16 | Scalar::U16 | Scalar::S16 | Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::E4m3x2 | Scalar::E5m2x2 => 2,
            Scalar::B32 | Scalar::U32 | Scalar::S32 | Scalar::F32 | Scalar::Tf32 => 4,
            Scalar::F16x2 | Scalar::Bf16x2 | Scalar::U16x2 | Scalar::S16x2 => 4,
            Scalar::B64 | Scalar::U64 | Scalar::S64 | Scalar::F64 | Scalar::F32x2 | Scalar::Opaque => 8,
            Scalar::B128 => 16,
            Scalar::Pred => 0,
        }
    }

    pub(crate) fn meaning(self) -> Meaning {
        match self {
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 | Scalar::U16x2 => Meaning::Unsigned,
            Scalar::S8 | Scalar::S16 | Scalar::S32 | Scalar::S64 | Scalar::S16x2 => Meaning::Signed,
            Scalar::F16 | Scalar::F16x2 | Scalar::Bf16 | Scalar::Bf16x2 | Scalar::F32 | Scalar::F64 => Meaning::Float,
            Scalar::F32x2 | Scalar::Tf32 | Scalar::E4m3x2 | Scalar::E5m2x2 => Meaning::Float,
            _ => Meaning::Bits,
        }
    }

    /// Whether numbers may be values of the type. Those of short floats and of packed types are in registers.
    pub(crate) fn has_numbers(self) -> bool {
        self.meaning() == Meaning::Bits
            || matches!(self, Scalar::F32 | Scalar::F64)
            || self.meaning() != Meaning::Float && !matches!(self, Scalar::U16x2 | Scalar::S16x2)
    }

    /// Whether an instruction of this type takes a register of another type, whatever their sizes: bits are of any type, and
    /// integers with signs and without are of each other's.
    pub(crate) fn takes(self, register: Scalar) -> bool {
        let is_integer = |scalar: Scalar| {
            matches!(scalar.meaning(), Meaning::Unsigned | Meaning::Signed)
                && !matches!(scalar, Scalar::U16x2 | Scalar::S16x2)
        };
        match (self, register) {
            (Scalar::Pred, _) | (_, Scalar::Pred) => self == register,
            _ if self.meaning() == Meaning::Bits || register.meaning() == Meaning::Bits => true,
            _ => self == register || is_integer(self) && is_integer(register),
        }
    }
}

/// A state space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Space {
    /// Registers.
    Register,
    /// No space was named: an address says itself where it points.
    Generic,
    /// Memory of the device.
    Global,
    /// Constant memory.
    Constant,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// Parameters of kernels and functions.
    Parameter,
    /// Textures.
    Texture,
}

impl Space {
    /// The name in PTX, without the dot.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Register => "reg",
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Constant => "const",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Parameter => "param",
            Space::Texture => "tex",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Space> {
        Some(match name {
            "reg" => Space::Register,
            "global" => Space::Global,
            "const" => Space::Constant,
            "shared" | "shared::cta" => Space::Shared,
            "local" => Space::Local,
            "param" | "param::entry" | "param::func" => Space::Parameter,
            "tex" => Space::Texture,
            _ => return None,
        })
    }
}
