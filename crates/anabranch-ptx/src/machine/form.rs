//! Which slots an operation uses, and of what sizes: what lowering is checked against.

/// The size of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Width {
    /// A bit for each lane.
    Predicate,
    W16,
    W32,
    W64,
    W128,
}

impl Width {
    /// That of registers of a type.
    pub(crate) const fn of_type<T>() -> Width {
        match size_of::<T>() {
            2 => Width::W16,
            4 => Width::W32,
            8 => Width::W64,
            16 => Width::W128,
            _ => panic!("no register has this size"),
        }
    }

    /// The bytes of a slot.
    pub(crate) const fn slot_bytes(self) -> u32 {
        match self {
            Width::Predicate => 4,
            Width::W16 => 64,
            Width::W32 => 128,
            Width::W64 => 256,
            Width::W128 => 512,
        }
    }

    pub(crate) const fn bytes(self) -> u32 {
        self.slot_bytes() / 32
    }
}

/// What an operation does with the slot of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It does not look at it.
    No,
    Read(Width),
    Write(Width),
    /// It is read and written, or one of these.
    Change(Width),
}

/// When an operation uses operands that not all of its kind do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Always,
    /// `c` if `flags` are not zero, and `e` if `imm` is not zero.
    Combined,
    /// As many of `d`, `b`, `c` and `e` as `target` says, and `a` if there is a register in the address. The number is
    /// the bytes of an element.
    Elements(u32),
    /// `a` if there is a register in the address, and `d` if the result is wanted; and the bytes.
    Atomic(u32),
    /// By the kind of barrier.
    Barrier,
    /// The slot that `target` says is one more predicate that is written, if `imm` is not zero.
    Second,
    /// `c` if `imm` is not zero.
    Last,
    /// The slot that `target` says is one more plane of 32 bits that is read.
    Pair,
    /// It depends on the lanes that are here.
    Together,
    /// A special register.
    Special,
    /// `target` is a place of the function.
    Branch,
    /// `target` is a site of the function.
    Site,
    /// A result that is a parameter of the kernel, at the offset `imm`.
    Parameter,
    /// It never goes on, unless it is guarded.
    End,
}

/// What an operation does with its operands, if all are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) d: Use,
    pub(crate) a: Use,
    pub(crate) b: Use,
    pub(crate) c: Use,
    pub(crate) e: Use,
    pub(crate) when: When,
}

impl Form {
    /// No operands.
    pub(crate) const NONE: Form =
        Form { d: Use::No, a: Use::No, b: Use::No, c: Use::No, e: Use::No, when: When::Always };

    /// A result `d`, and nothing read.
    pub(crate) const fn made(d: Width) -> Form {
        Form { d: Use::Write(d), ..Form::NONE }
    }

    /// `d` from `a`.
    pub(crate) const fn one(d: Width, a: Width) -> Form {
        Form { a: Use::Read(a), ..Form::made(d) }
    }

    /// `d` from `a` and `b`.
    pub(crate) const fn two(d: Width, a: Width, b: Width) -> Form {
        Form { b: Use::Read(b), ..Form::one(d, a) }
    }

    /// `d` from `a`, `b` and `c`.
    pub(crate) const fn three(d: Width, a: Width, b: Width, c: Width) -> Form {
        Form { c: Use::Read(c), ..Form::two(d, a, b) }
    }

    /// And `e`, which is read.
    pub(crate) const fn with(self, e: Width) -> Form {
        Form { e: Use::Read(e), ..self }
    }

    pub(crate) const fn when(self, when: When) -> Form {
        Form { when, ..self }
    }
}
