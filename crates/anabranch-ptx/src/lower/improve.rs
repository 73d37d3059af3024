//! Fewer operations for the same results.
//!
//! What a kernel computes from its parameters and from registers that never change is computed once for each warp, before
//! its first block. A comparison and the branch after it become one operation, and so do two multiply-adds of which one
//! takes the result of the other alone. Loads and stores compute addresses of elements of arrays themselves, and look at the
//! shapes of registers that several of them use: these are noted where the registers are written (`ops/rows.rs`).

use std::collections::HashSet;

use super::check::operands;
use super::slots::{SlotMap, SlotSet};
use super::{Lower, Spec, Value, Width};
use crate::machine::{Select, Slot, Use, When};
use crate::ops::control::NO_GUARD;
use crate::ops::{load, real, rows, select, special};

/// What an operation is, where that matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Other,
    /// `fma.rn.f32`.
    Fused,
    /// A sum of 64 bits.
    Sum,
    /// A product of 64 bits of factors of 32 bits, with or without signs.
    Wide {
        signed: bool,
    },
}

/// How many operations further a result is looked for.
const REACH: usize = 64;

/// How often slots are written and read.
struct Counts(SlotMap<[u32; 2]>);

impl Counts {
    fn of<'s>(specs: impl IntoIterator<Item = &'s Spec>) -> Counts {
        let mut counts = Counts(SlotMap::default());
        for spec in specs {
            for (slot, used) in operands(spec) {
                let [writes, reads] = match used {
                    Use::No => continue,
                    Use::Write(_) => [1, 0],
                    Use::Read(_) => [0, 1],
                    Use::Change(_) => [1, 1],
                };
                let count = counts.0.entry(slot).or_default();
                *count = [count[0] + writes, count[1] + reads];
            }
            if spec.guard != NO_GUARD {
                counts.0.entry(spec.guard).or_default()[1] += 1;
            }
        }
        counts
    }

    fn writes(&self, slot: Slot) -> u32 {
        self.0.get(&slot).map_or(0, |count| count[0])
    }

    fn reads(&self, slot: Slot) -> u32 {
        self.0.get(&slot).map_or(0, |count| count[1])
    }
}

/// Whether an operation gives the same result whenever its operands are the same, and does nothing else.
fn is_fixed(spec: &Spec) -> bool {
    let form = (spec.select)().form;
    let same = match form.when {
        When::Always | When::Parameter => true,
        When::Special => !special::changes(spec.imm),
        _ => false,
    };
    same && spec.guard == NO_GUARD && matches!(form.d, Use::Write(_))
}

/// Whether all lanes that are here before an operation are here after it, and no others.
fn goes_on(spec: &Spec) -> bool {
    let form = (spec.select)().form;
    let plain = match form.when {
        When::Always | When::Parameter | When::Special | When::Combined | When::Elements(_) | When::Atomic(_) => true,
        When::Pair => true,
        When::Second | When::Last | When::Together | When::Barrier | When::Branch | When::Site | When::End => false,
    };
    plain && form.d != Use::No
}

impl Lower<'_, '_> {
    pub(super) fn improve(&mut self) {
        if !self.code.refusals.is_empty() {
            return;
        }
        let mut left = vec![true; self.specs.len()];
        let uniform = self.hoist(&mut left);
        let targets = self.targets();
        self.join_bases(&mut left, &targets, &uniform);
        self.join_indexes(&mut left, &targets);
        self.join_branches(&mut left, &targets);
        self.join_products(&mut left, &targets);
        let notes = self.note_shapes(&left);
        self.rebuild(&left, &notes);
    }

    /// Where jumps go.
    fn targets(&self) -> HashSet<u32> {
        let jumps = self.label_uses.iter().filter_map(|&at| self.specs.get(at as usize)).map(|spec| spec.target);
        jumps.chain(self.code.tables.iter().flatten().copied()).collect()
    }

    /// Moves what is the same in all blocks before them: what writes a register that nothing else writes, from what is the
    /// same in all blocks. Returns which slots have the same number for all lanes, too.
    fn hoist(&mut self, left: &mut [bool]) -> SlotSet {
        let mut same: SlotSet = self.code.constants.iter().map(|(slot, ..)| *slot).collect();
        let mut uniform = same.clone();
        if !self.kernel {
            return uniform;
        }
        let counts = Counts::of(&self.specs);
        // Mostly each operation follows those whose results it takes.
        for _ in 0..4 {
            let before = self.prologue.len();
            for (spec, left) in self.specs.iter().zip(left.iter_mut()) {
                let reads = |(slot, used): &(Slot, Use)| match used {
                    Use::No | Use::Write(_) => true,
                    Use::Read(_) => same.contains(slot),
                    Use::Change(_) => false,
                };
                if *left && is_fixed(spec) && counts.writes(spec.d) == 1 && operands(spec).iter().all(reads) {
                    *left = false;
                    same.insert(spec.d);
                    let own = (spec.select)().form.when == When::Special && special::differs(spec.imm);
                    let is_uniform =
                        |(slot, used): &(Slot, Use)| !matches!(used, Use::Read(_)) || uniform.contains(slot);
                    if !own && operands(spec).iter().all(is_uniform) {
                        uniform.insert(spec.d);
                    }
                    self.prologue.push(*spec);
                }
            }
            if self.prologue.len() == before {
                break;
            }
        }
        uniform
    }

    /// The operations that read the result of one, if all of them are addresses of loads and stores that come after it in the
    /// same row of operations, with nothing that writes these slots in between.
    fn addresses_from(
        &self,
        at: usize,
        sources: [Slot; 2],
        (left, targets, counts): (&[bool], &HashSet<u32>, &Counts),
    ) -> Option<Vec<usize>> {
        let d = self.specs[at].d;
        let (mut found, reads) = (Vec::new(), counts.reads(d));
        if counts.writes(d) != 1 || self.specs[at].guard != NO_GUARD {
            return None;
        }
        for (next, spec) in self.specs.iter().enumerate().take(at + REACH).skip(at + 1) {
            if targets.contains(&(next as u32)) || !goes_on(spec) {
                return None;
            }
            if !left[next] {
                continue;
            }
            let used = operands(spec);
            if used.iter().any(|(slot, used)| *slot == d && matches!(used, Use::Read(_) | Use::Change(_))) {
                let is_load = matches!((spec.select)().form.when, When::Elements(_)) && spec.target < 4;
                let others =
                    used.iter().enumerate().any(|(index, (slot, used))| index != 1 && *slot == d && *used != Use::No);
                let takes = spec.flags & (load::ABSOLUTE | load::NARROW | load::INDEXED) == 0;
                if !is_load || others || !takes || spec.guard == d {
                    return None;
                }
                found.push(next);
                if found.len() == reads as usize {
                    return Some(found);
                }
            }
            let writes =
                |(slot, used): &(Slot, Use)| matches!(used, Use::Write(_) | Use::Change(_)) && sources.contains(slot);
            if used.iter().any(writes) {
                return None;
            }
        }
        None
    }

    /// An address that is a sum with a number that all lanes have is added where it is used: loads and stores look at the rest
    /// of it alone.
    fn join_bases(&mut self, left: &mut [bool], targets: &HashSet<u32>, uniform: &SlotSet) {
        let counts = Counts::of(&self.specs);
        for at in 0..self.specs.len() {
            let sum = self.specs[at];
            if sum.kind != Kind::Sum || !left[at] {
                continue;
            }
            let (register, base) = match (uniform.contains(&sum.a), uniform.contains(&sum.b)) {
                (false, true) => (sum.a, sum.b),
                (true, false) => (sum.b, sum.a),
                _ => continue,
            };
            let Some(uses) = self.addresses_from(at, [register, base], (left, targets, &counts)) else { continue };
            if uses.iter().any(|&index| self.specs[index].flags & load::BASED != 0) {
                continue;
            }
            left[at] = false;
            for index in uses {
                let spec = &mut self.specs[index];
                (spec.a, spec.e) = (register, base);
                spec.flags |= load::BASED;
            }
        }
    }

    /// The rest of an address that is a register of 32 bits times a power of two is that register.
    fn join_indexes(&mut self, left: &mut [bool], targets: &HashSet<u32>) {
        if !self.specs.iter().any(|spec| matches!(spec.kind, Kind::Wide { .. })) {
            return;
        }
        let specs = self.specs.iter().zip(left.iter()).filter(|(_, left)| **left).map(|(spec, _)| spec);
        let counts = Counts::of(specs);
        let numbers: SlotMap<u64> = self
            .code
            .constants
            .iter()
            .filter_map(|(slot, _, value)| match value {
                Value::Bits(bits) => Some((*slot, *bits)),
                _ => None,
            })
            .collect();
        for at in 0..self.specs.len() {
            let product = self.specs[at];
            let Kind::Wide { signed } = product.kind else { continue };
            let factor = numbers.get(&product.b).filter(|factor| factor.is_power_of_two() && **factor < 1 << 31);
            let (Some(factor), true) = (factor, left[at]) else { continue };
            let Some(uses) = self.addresses_from(at, [product.a; 2], (left, targets, &counts)) else { continue };
            if uses.iter().any(|&index| self.specs[index].flags & load::BASED == 0) {
                continue;
            }
            left[at] = false;
            for index in uses {
                let spec = &mut self.specs[index];
                spec.a = product.a;
                spec.flags |= load::INDEXED | factor.trailing_zeros() << load::SHIFT;
                spec.flags |= if signed { load::SIGNED } else { 0 };
            }
        }
    }

    /// A comparison before a branch by its result.
    fn join_branches(&mut self, left: &mut [bool], targets: &HashSet<u32>) {
        for at in 1..self.specs.len() {
            let (compares, branches) = (self.specs[at - 1], self.specs[at]);
            let Some(select) = compares.branch else { continue };
            let fits = (branches.select)().form.when == When::Branch
                && branches.guard == compares.d
                && compares.guard == NO_GUARD
                && left[at - 1]
                && !targets.contains(&(at as u32));
            if !fits {
                continue;
            }
            left[at - 1] = false;
            let Spec { d, a, b, .. } = compares;
            self.specs[at] = Spec { select, d, a, b, ..branches };
        }
    }

    /// A product and sum whose result only another one takes, later in the same row of operations.
    fn join_products(&mut self, left: &mut [bool], targets: &HashSet<u32>) {
        if self.specs.iter().filter(|spec| spec.kind == Kind::Fused).count() < 2 {
            return;
        }
        let counts = Counts::of(&self.specs);
        for at in 0..self.specs.len() {
            let first = self.specs[at];
            let once = counts.writes(first.d) == 1 && counts.reads(first.d) == 1;
            if first.kind != Kind::Fused || first.guard != NO_GUARD || !left[at] || !once {
                continue;
            }
            for next in at + 1..self.specs.len().min(at + REACH) {
                let second = self.specs[next];
                if targets.contains(&(next as u32)) {
                    break;
                }
                if second.kind == Kind::Fused && second.guard == NO_GUARD && left[next] {
                    let joined = match first.d {
                        d if d == second.a => Some((select::<real::FusedProduct> as _, second.b, second.c)),
                        d if d == second.b => Some((select::<real::FusedProduct> as _, second.a, second.c)),
                        d if d == second.c => Some((select::<real::FusedSum> as _, second.a, second.b)),
                        _ => None,
                    };
                    if let Some((select, e, last)) = joined {
                        left[at] = false;
                        let kind = Kind::Other;
                        self.specs[next] = Spec { select, d: second.d, e, target: last.0, kind, ..first };
                        break;
                    }
                }
                let writes = |(slot, used): (Slot, Use)| {
                    matches!(used, Use::Write(_) | Use::Change(_)) && [first.a, first.b, first.c].contains(&slot)
                };
                if !goes_on(&second) || left[next] && operands(&second).into_iter().any(writes) {
                    break;
                }
            }
        }
    }

    /// Has the shapes of registers noted that several accesses take their addresses from, so that these need not look at them
    /// again: behind whatever writes such a register. Returns what is to be added, each behind the operation of a place.
    fn note_shapes(&mut self, left: &[bool]) -> Vec<(usize, Spec)> {
        let takes = |spec: &Spec| {
            let space = spec.flags & load::SPACE;
            matches!((spec.select)().form.when, When::Elements(_))
                && spec.target == 1
                && spec.flags & load::ABSOLUTE == 0
                && matches!(space, load::GENERIC | load::GLOBAL | load::CONSTANT | load::SHARED)
        };
        // A register has a shape for each way to make an address of it.
        let way = |spec: &Spec| spec.flags & !(load::SPACE | load::BASED);
        let here = || self.specs.iter().zip(left).filter(|(_, left)| **left).map(|(spec, _)| spec);
        let mut uses: SlotMap<Vec<(u32, u32)>> = SlotMap::default();
        for spec in here().filter(|spec| takes(spec)) {
            let ways = uses.entry(spec.a).or_default();
            match ways.iter_mut().find(|(own, _)| *own == way(spec)) {
                Some((_, count)) => *count += 1,
                None => ways.push((way(spec), 1)),
            }
        }
        uses.values_mut().for_each(|ways| ways.retain(|(_, count)| *count > 1));
        uses.retain(|_, ways| !ways.is_empty());
        if uses.is_empty() {
            return Vec::new();
        }
        let counts = Counts::of(here().chain(&self.prologue));
        let mut shapes: SlotMap<Vec<(u32, Slot)>> = SlotMap::default();
        for (at, left) in left.iter().enumerate() {
            let spec = self.specs[at];
            let worth = |(own, count): &(u32, u32)| *own == way(&spec) && (1..*count).contains(&counts.writes(spec.a));
            if !*left || !takes(&spec) || !uses.get(&spec.a).is_some_and(|ways| ways.iter().any(worth)) {
                continue;
            }
            let known = shapes.entry(spec.a).or_default();
            if !known.iter().any(|(own, _)| *own == way(&spec)) {
                // Where a frame cannot have more, accesses look themselves.
                let Ok(shape) = self.slot(Width::W32) else { break };
                known.push((way(&spec), shape));
            }
        }
        let after = |spec: &Spec| {
            let mut notes = Vec::new();
            for (slot, used) in operands(spec) {
                let select = match used {
                    Use::Write(Width::W32) | Use::Change(Width::W32) => select::<rows::Note<u32>> as Select,
                    Use::Write(Width::W64) | Use::Change(Width::W64) => select::<rows::Note<u64>>,
                    _ => continue,
                };
                for &(flags, d) in shapes.get(&slot).into_iter().flatten() {
                    notes.push(Spec { d, a: slot, flags, ..Spec::new(select) });
                }
            }
            notes
        };
        let first: Vec<Spec> = self.prologue.iter().flat_map(after).collect();
        self.prologue.extend(first);
        let mut notes = Vec::new();
        for (at, (spec, left)) in self.specs.iter_mut().zip(left).enumerate() {
            if !left {
                continue;
            }
            notes.extend(after(spec).into_iter().map(|note| (at, note)));
            let mut known = shapes.get(&spec.a).into_iter().flatten();
            if takes(spec)
                && let Some(&(_, shape)) = known.find(|(own, _)| *own == way(spec))
            {
                spec.c = shape;
                spec.flags |= load::SHAPED;
            }
        }
        notes
    }

    /// Leaves out operations, and adds others, each behind the one at a place. What jumped to an operation that is left out
    /// jumps to what follows.
    fn rebuild(&mut self, left: &[bool], notes: &[(usize, Spec)]) {
        let mut places = Vec::with_capacity(left.len() + 1);
        let (mut specs, mut lines) = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
        let mut added = notes.iter().peekable();
        for (at, left) in left.iter().enumerate() {
            places.push(specs.len() as u32);
            if !left {
                continue;
            }
            specs.push(self.specs[at]);
            lines.push(self.code.lines[at]);
            while let Some((_, note)) = added.next_if(|(place, _)| *place == at) {
                specs.push(*note);
                lines.push(self.code.lines[at]);
            }
        }
        let moved = |place: u32| places.get(place as usize).copied().unwrap_or(place);
        for &at in &self.label_uses {
            if let (Some(true), Some(spec)) =
                (left.get(at as usize), places.get(at as usize).and_then(|&at| specs.get_mut(at as usize)))
            {
                spec.target = moved(spec.target);
            }
        }
        for target in self.code.tables.iter_mut().flatten() {
            *target = moved(*target);
        }
        self.specs = specs;
        self.code.lines = lines;
        self.label_uses.clear();
    }
}
