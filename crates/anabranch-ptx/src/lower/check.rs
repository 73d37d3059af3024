//! What is checked of a function once, when it has been lowered. Operations rely on it where they run.

use super::{Code, Lower, Place, Spec, Width};
use crate::machine::{Slot, Use, When};
use crate::ops::control::{self, NO_GUARD};
use crate::ops::load;

/// Operations of a function whose slots lie within its frame and have the sizes that these operations expect, whose jumps
/// and calls go to places and sites of the function, and of which the last one never goes on. None, if they did not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked(Vec<Spec>);

impl Checked {
    pub(crate) fn specs(&self) -> &[Spec] {
        &self.0
    }
}

/// The operands that an operation uses.
pub(crate) fn operands(spec: &Spec) -> [(Slot, Use); 6] {
    let form = (spec.select)().form;
    let mut extra = (Slot(0), Use::No);
    let [mut d, mut a, mut b, mut c, mut e] = [form.d, form.a, form.b, form.c, form.e];
    let unless = |used: &mut Use, holds: bool| {
        if !holds {
            *used = Use::No;
        }
    };
    let address = |used: &mut Use| {
        if spec.flags & load::ABSOLUTE != 0 {
            *used = Use::No;
        } else if spec.flags & (load::NARROW | load::INDEXED) != 0 {
            *used = Use::Read(Width::W32);
        }
    };
    match form.when {
        When::Always | When::Branch | When::Site | When::Parameter | When::End => {}
        When::Together | When::Special => {}
        When::Pair => extra = (Slot(spec.target), Use::Read(Width::W32)),
        When::Combined => {
            unless(&mut c, spec.flags != crate::ops::compare::ALONE);
            unless(&mut e, spec.imm != 0);
        }
        When::Elements(_) => {
            address(&mut a);
            unless(&mut b, spec.target > 1);
            unless(&mut c, spec.target > 2);
            unless(&mut e, spec.target > 3);
            if spec.flags & load::BASED != 0 {
                e = Use::Read(Width::W64);
            }
            if spec.flags & load::SHAPED != 0 {
                c = Use::Read(Width::W32);
            }
        }
        When::Atomic(_) => {
            address(&mut a);
            unless(&mut d, spec.flags & crate::ops::atomic::RESULT != 0);
        }
        When::Barrier => {
            let kind = spec.flags & control::BARRIER_KIND;
            unless(&mut b, spec.flags & control::COUNTED != 0);
            unless(&mut c, kind >= control::REDUCE_COUNT);
            unless(&mut d, kind >= control::REDUCE_COUNT);
            if kind > control::REDUCE_COUNT {
                d = Use::Write(Width::Predicate);
            }
        }
        When::Second => {
            if spec.imm == crate::ops::warp::SECOND {
                extra = (Slot(spec.target), Use::Write(Width::Predicate));
            }
        }
        When::Last => unless(&mut c, spec.imm == crate::ops::warp::SECOND),
    }
    [(spec.d, d), (spec.a, a), (spec.b, b), (spec.c, c), (spec.e, e), extra]
}

impl Lower<'_, '_> {
    /// Takes over the operations if they are what they must be.
    pub(super) fn check(&mut self, line: u32) {
        let specs = std::mem::take(&mut self.specs);
        let wrong = specs.iter().position(|spec| !self.holds(spec, specs.len()));
        if let Some(place) = wrong {
            let line = self.code.lines.get(place).map_or(line, |at| at.0);
            return self.refuse(line, "operands of sizes that the instruction does not have");
        }
        let ends = |spec: &Spec| (spec.select)().form.when == When::End && spec.guard == NO_GUARD;
        if !specs.last().is_some_and(ends)
            || !sites(&self.code, self.kernel, specs.len())
            || self.code.lines.len() != specs.len()
        {
            return self.refuse(line, "calls or jumps to places outside of the function");
        }
        let prologue = std::mem::take(&mut self.prologue);
        if prologue.iter().any(|spec| !self.holds(spec, 0)) {
            return self.refuse(line, "operands of sizes that the instruction does not have");
        }
        self.code.specs = Checked(specs);
        self.code.prologue = Checked(prologue);
    }

    /// Whether a slot was handed out with this size.
    fn has(&self, slot: Slot, width: Width) -> bool {
        self.widths.get(&slot) == Some(&width)
            && slot.0.checked_add(width.slot_bytes()).is_some_and(|end| end <= self.code.frame_bytes)
    }

    fn holds(&self, spec: &Spec, count: usize) -> bool {
        let sizes = operands(spec).into_iter().all(|(slot, used)| match used {
            Use::No => true,
            Use::Read(width) | Use::Write(width) | Use::Change(width) => self.has(slot, width),
        });
        let form = (spec.select)().form;
        let target = match form.when {
            When::Branch => (spec.target as usize) < count,
            When::Site => (spec.target as usize) < self.code.sites.len(),
            When::Elements(bytes) => {
                let based = spec.flags & load::BASED != 0;
                let indexed = spec.flags & load::INDEXED != 0;
                let shaped = spec.flags & load::SHAPED != 0;
                matches!(spec.target, 1 | 2 | 4)
                    && spec.bytes == bytes * spec.target
                    && (!based || spec.target < 4 && spec.flags & (load::NARROW | load::ABSOLUTE) == 0)
                    && (!indexed || based)
                    && (!shaped || spec.target == 1)
            }
            When::Atomic(bytes) => spec.bytes == bytes,
            When::Parameter => self.is_parameter(spec),
            _ => true,
        };
        sizes && target && (spec.guard == NO_GUARD || self.has(spec.guard, Width::Predicate))
    }

    /// Whether an operation reads within the parameters of the kernel.
    fn is_parameter(&self, spec: &Spec) -> bool {
        let Use::Write(width) = (spec.select)().form.d else { return false };
        let bytes = u64::from(width.bytes());
        let end = self.code.formals.iter().map(|place| u64::from(place.offset) + u64::from(place.bytes)).max();
        self.kernel
            && spec.relocation.is_none()
            && spec.imm.is_multiple_of(bytes)
            && spec.imm.checked_add(bytes).is_some_and(|own| own <= end.unwrap_or(0))
    }
}

/// Whether jumps by tables go to operations, and parameters of calls are in the frame's part of local memory.
fn sites(code: &Code, kernel: bool, count: usize) -> bool {
    let within = |place: &Place| u64::from(place.offset) + u64::from(place.bytes) <= code.local_bytes.into();
    let own = code.results.iter().chain(if kernel { &[] } else { &*code.formals });
    own.into_iter().all(within)
        && code.tables.iter().flatten().all(|target| (*target as usize) < count)
        && code.sites.iter().all(|site| {
            site.table.is_none_or(|table| (table as usize) < code.tables.len())
                && site.results.iter().chain(&site.arguments).all(within)
        })
}
