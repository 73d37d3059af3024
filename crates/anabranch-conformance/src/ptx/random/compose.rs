//! Composes kernels.

use super::super::forms::{self, Form};
use super::functions;
use super::settle::settled;
use super::together::{MASKED, OTHERS, PARTS, Part, SUMS, Sum};
use super::{Piece, STEPS, Step, pool};
use crate::programs::Numbers;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Which threads come to a place in the text together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// All of the block.
    Block,
    /// All of each warp that comes there.
    Warp,
    /// These lanes of each warp.
    Part(Part),
    /// Any.
    Anywhere,
}

/// The forms, by the pool of their results: few forms with many types are as likely as many with few.
#[derive(Default)]
struct Usable {
    /// For each thread alone.
    single: BTreeMap<&'static str, Vec<Form>>,
    /// Which all lanes of a warp run together.
    collective: BTreeMap<&'static str, Vec<Form>>,
    /// Which the lanes of a mask run together.
    masked: Vec<Form>,
    others: Vec<Form>,
}

fn usable() -> &'static Usable {
    static USABLE: LazyLock<Usable> = LazyLock::new(|| {
        let mut usable = Usable::default();
        for form in forms::all().iter().filter(|form| form.is_part()) {
            let all = if form.is_collective() { &mut usable.collective } else { &mut usable.single };
            all.entry(pool(form.letter(0))).or_default().push(form.clone());
        }
        usable.masked = MASKED.iter().map(|(letters, text)| Form::new(letters, *text)).collect();
        usable.others = OTHERS.iter().map(|(letters, text)| Form::new(letters, *text)).collect();
        usable
    });
    &USABLE
}

pub(super) struct Composer {
    numbers: Numbers,
    name: String,
    block: u32,
    pieces: Vec<(usize, Piece)>,
    statements: usize,
    labels: usize,
    ids: usize,
    /// How many branches, loops and switches are around the next step, and how many of them are loops.
    depth: usize,
    loops: usize,
    /// The predicates of the branches around the next step.
    guards: Vec<String>,
    sums: Vec<Sum>,
}

impl Composer {
    pub(super) fn new(numbers: Numbers, seed: u64, block: u32) -> Self {
        let name = format!("random_{seed}");
        let sums = SUMS.iter().map(|&(operation, _, start)| Sum { operation, start }).collect();
        Self {
            numbers,
            name,
            block,
            pieces: Vec::new(),
            statements: 0,
            labels: 0,
            ids: 0,
            depth: 0,
            loops: 0,
            guards: Vec::new(),
            sums,
        }
    }

    pub(super) fn numbers(&mut self) -> &mut Numbers {
        &mut self.numbers
    }

    pub(super) fn finish(self) -> (Vec<(usize, Piece)>, Vec<Sum>) {
        (self.pieces, self.sums)
    }

    pub(super) fn compose(&mut self) {
        while self.ids < STEPS {
            self.statements += 1;
            self.statement(Place::Block);
        }
        // Threads that have ended are no part of anything that others do together.
        if self.numbers.chance(1, 4) {
            let guard = self.register('p');
            self.statements += 1;
            self.flow(format!("@{guard} exit;"));
            for _ in 0..3 {
                self.step(Place::Anywhere);
            }
        }
    }

    fn register(&mut self, letter: char) -> String {
        format!("%{}{}", pool(letter), self.numbers.below(super::POOL))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn flow(&mut self, text: String) {
        self.pieces.push((self.statements, Piece::Flow(text)));
    }

    fn add(&mut self, text: String, settled: String, result: String, operands: Vec<String>) {
        let label = text.replace('\n', " ");
        let step = Step { id: self.ids, text, settled, result, operands, label };
        self.ids += 1;
        self.pieces.push((self.statements, Piece::Step(step)));
    }

    fn statement(&mut self, place: Place) {
        // Few in each other, or kernels take long to run.
        if self.depth >= 2 {
            return self.step(place);
        }
        match self.numbers.below(16) {
            0..=7 => self.step(place),
            8 | 9 => self.branch(place),
            10 => self.parts(place),
            11 => self.uniform(place),
            12 | 13 => self.repeated(place),
            14 => self.switch(),
            _ => self.rounds(place),
        }
    }

    fn several(&mut self, place: Place, least: usize) {
        self.depth += 1;
        for _ in 0..least + self.numbers.below(3) {
            self.statement(place);
        }
        self.depth -= 1;
    }

    fn step(&mut self, place: Place) {
        match (self.numbers.below(20), place) {
            (0..=8, _) => self.single(),
            (9 | 10, _) => self.guarded(),
            (11, _) => self.call(),
            (12, _) => self.sum(),
            (13, _) => self.other(),
            (14 | 15, Place::Block) if self.numbers.chance(1, 2) => self.exchange(),
            (16, Place::Block) => self.for_block(),
            (14..=17, Place::Block | Place::Warp) => self.collective(),
            (18, Place::Block | Place::Warp) => self.masked(Part { mask: u32::MAX, inside: 31 }),
            (14..=18, Place::Part(part)) => self.masked(part),
            _ => self.single(),
        }
    }

    /// Adds a form with registers as operands, if that makes sense.
    fn form(&mut self, form: &Form, guard: Option<(&str, &str)>, extra: &[(&str, String)]) -> bool {
        let mut text = form.text.clone();
        for (name, with) in extra {
            text = text.replace(name, with);
        }
        let result = self.register(form.letter(0));
        let mut operands = Vec::new();
        for (place, name) in ["%a", "%b", "%c"].into_iter().enumerate() {
            if form.letter(place + 1) == '_' {
                continue;
            }
            let register = self.register(form.letter(place + 1));
            text = text.replace(name, &register);
            operands.push(register);
        }
        // The result must not be an operand that is read after it was written.
        if text.matches("%d").count() > 1 && text.contains(&result) {
            return false;
        }
        // Compilers may drop the minimum of a register and itself, with the NaN that it would make.
        let is_extreme = text.starts_with("min") || text.starts_with("max");
        if is_extreme && operands.first() == operands.get(1) {
            return false;
        }
        let mut text = text.replace("%d", &result);
        if let Some((not, guard)) = guard {
            text = format!("@{not}{guard} {text}");
            operands.extend([guard.to_owned(), result.clone()]);
        }
        let settled = settled(form).replace("%d", &result);
        self.add(text, settled, result, operands);
        true
    }

    fn any_of(&mut self, of: &'static BTreeMap<&'static str, Vec<Form>>) -> &'static Form {
        loop {
            let pool = self.numbers.one_of(["h", "r", "r", "r", "l", "l", "f", "p"]);
            if let Some(forms) = of.get(pool) {
                return &forms[self.numbers.below(forms.len())];
            }
        }
    }

    fn single(&mut self) {
        loop {
            let form = self.any_of(&usable().single);
            if self.form(form, None, &[]) {
                return;
            }
        }
    }

    fn guarded(&mut self) {
        let not = if self.numbers.chance(1, 2) { "!" } else { "" };
        let guard = self.register('p');
        loop {
            let form = self.any_of(&usable().single);
            if form.is_simple() && self.form(form, Some((not, &guard)), &[]) {
                return;
            }
        }
    }

    fn collective(&mut self) {
        loop {
            let form = self.any_of(&usable().collective);
            if self.form(form, None, &[]) {
                return;
            }
        }
    }

    fn masked(&mut self, part: Part) {
        let replaced = [("MASK", format!("{:#x}", part.mask)), ("INSIDE", part.inside.to_string())];
        loop {
            let forms = &usable().masked;
            let form = &forms[self.numbers.below(forms.len())];
            if self.form(form, None, &replaced) {
                return;
            }
        }
    }

    fn other(&mut self) {
        let replaced = [("NAME", self.name.clone())];
        loop {
            let forms = &usable().others;
            let form = &forms[self.numbers.below(forms.len())];
            if self.form(form, None, &replaced) {
                return;
            }
        }
    }

    /// Adds to a place that all threads share, which is an output of its own.
    fn sum(&mut self) {
        let index = self.numbers.below(SUMS.len());
        let (operation, letter, _) = SUMS[index];
        let from = self.register(if letter == 'c' { 'w' } else { letter });
        let operand = if letter == 'c' { "1000000" } else { &from };
        let text = format!("red.relaxed.gpu.global.{operation} [%all+{}], {operand};", index * 8);
        self.add(text, String::new(), from.clone(), vec![from]);
    }

    /// Another thread's register, through shared memory.
    fn exchange(&mut self) {
        let (letter, of) = self.numbers.one_of([('w', "b32"), ('l', "b64"), ('h', "b16"), ('V', "v2.b32")]);
        let (from, to) = (self.register(letter), self.register(letter));
        let (space, address, convert) = match self.numbers.chance(1, 3) {
            true => ("", "%u", "cvta.shared.u64 %u, %other;\n"),
            false => (".shared", "%other", ""),
        };
        let (named, count) = match self.numbers.below(3) {
            0 => (3, format!(", {}", self.block)),
            named => (named, String::new()),
        };
        let barrier = format!("barrier.sync {named}{count};");
        let (stored, loaded, after) = match letter {
            'V' => (format!("{{{from}, %lane}}"), "{%x, %y}".to_owned(), format!("\nadd.u32 {to}, %x, %y;")),
            _ => (from.clone(), to.clone(), String::new()),
        };
        let text = format!(
            "st.shared.{of} [%mine], {stored};\n{barrier}\n{convert}ld{space}.{of} {loaded}, [{address}];\n{barrier}{after}"
        );
        self.add(text, String::new(), to, vec![from]);
    }

    /// What all threads of a block do together: a reduction by a barrier, or at a place in shared memory.
    fn for_block(&mut self) {
        if self.numbers.chance(1, 2) {
            let (guard, to) = (self.register('p'), self.register('w'));
            let (kind, into, after) = match self.numbers.one_of(["popc.u32", "and.pred", "or.pred"]) {
                "popc.u32" => ("popc.u32", to.clone(), format!("\nadd.u32 {to}, {to}, %lane;")),
                kind => (kind, "%q".to_owned(), format!("\nselp.b32 {to}, %lane, 7, %q;")),
            };
            let not = if self.numbers.chance(1, 2) { "!" } else { "" };
            let text = format!("barrier.red.{kind} {into}, 4, {not}{guard};{after}");
            return self.add(text, String::new(), to, vec![guard]);
        }
        let index = self.numbers.below(SUMS.len() - 2);
        let (operation, letter, _) = SUMS[index];
        let bits = if letter == 'l' { "b64" } else { "b32" };
        let (from, to) = (self.register(letter), self.register(letter));
        let text = format!(
            "setp.eq.u32 %q, %lane, 0;\n@%q st.shared.{bits} [{}_place], {from};\nbarrier.sync 0;\n\
             red.shared.{operation} [{0}_place], {from};\nbarrier.sync 0;\nld.shared.{bits} {to}, [{0}_place];\nbarrier.sync 0;",
            self.name
        );
        self.add(text, String::new(), to, vec![from]);
    }

    /// A predicate that no branch around has: NVIDIA's compiler (13.0) crashes where a function that calls itself is called at a
    /// place that no thread comes to.
    fn fresh_guard(&mut self) -> String {
        loop {
            let guard = self.register('p');
            if !self.guards.contains(&guard) {
                return guard;
            }
        }
    }

    /// Both ways of a branch, one of which may be empty.
    fn branch(&mut self, _: Place) {
        let (guard, other, end) = (self.fresh_guard(), self.label(), self.label());
        self.guards.push(guard.clone());
        self.flow(format!("@{guard} bra {other};"));
        self.several(Place::Anywhere, 0);
        self.flow(format!("bra {end};\n{other}:"));
        self.several(Place::Anywhere, 1);
        self.flow(format!("{end}:"));
        self.guards.pop();
    }

    /// Lanes with certain numbers go one way, and the others another way.
    fn parts(&mut self, place: Place) {
        if !matches!(place, Place::Block | Place::Warp) {
            return self.branch(place);
        }
        let [one, two] = self.numbers.one_of(PARTS);
        let (other, end) = (self.label(), self.label());
        self.flow(format!(
            "and.b32 %x, %lane, 31;\nshr.u32 %x, {:#x}, %x;\nand.b32 %x, %x, 1;\nsetp.eq.u32 %on, %x, 0;\n@%on bra {other};",
            one.mask
        ));
        self.several(Place::Part(one), 1);
        self.flow(format!("bra {end};\n{other}:"));
        self.several(Place::Part(two), 1);
        self.flow(format!("{end}:"));
    }

    /// All lanes of a warp go the same way.
    fn uniform(&mut self, place: Place) {
        if !matches!(place, Place::Block | Place::Warp) {
            return self.branch(place);
        }
        let (guard, other, end) = (self.register('p'), self.label(), self.label());
        self.flow(format!("vote.sync.any.pred %on, {guard}, 0xffffffff;\n@%on bra {other};"));
        self.several(Place::Warp, 1);
        self.flow(format!("bra.uni {end};\n{other}:"));
        self.several(Place::Warp, 1);
        self.flow(format!("{end}:"));
    }

    /// A loop of a few rounds, whose number differs between the lanes. They may leave it in the middle.
    fn repeated(&mut self, _: Place) {
        let (start, end, from) = (self.label(), self.label(), self.register('w'));
        let count = format!("%count{}", self.loops);
        let most = if self.loops == 0 { self.numbers.one_of([1, 3, 7]) } else { 3 };
        self.flow(format!("and.b32 {count}, {from}, {most};\n{start}:\nsetp.eq.u32 %on, {count}, 0;\n@%on bra {end};"));
        self.loops += 1;
        self.several(Place::Anywhere, 1);
        if self.numbers.chance(1, 3) {
            let guard = self.fresh_guard();
            self.flow(format!("@{guard} bra {end};"));
            self.guards.push(guard);
            self.several(Place::Anywhere, 0);
            self.guards.pop();
        }
        self.loops -= 1;
        self.flow(format!("sub.u32 {count}, {count}, 1;\nbra {start};\n{end}:"));
    }

    /// A loop of as many rounds for all threads.
    fn rounds(&mut self, place: Place) {
        let start = self.label();
        let count = format!("%count{}", self.loops);
        let rounds = 2 + self.numbers.below(2);
        self.flow(format!("mov.b32 {count}, {rounds};\n{start}:"));
        self.loops += 1;
        self.several(place, 1);
        self.loops -= 1;
        self.flow(format!("sub.u32 {count}, {count}, 1;\nsetp.ne.u32 %on, {count}, 0;\n@%on bra {start};"));
    }

    /// A branch to one of several places.
    fn switch(&mut self) {
        let (index, table, end) = (self.register('w'), self.label(), self.label());
        let places: Vec<String> = (0..3).map(|_| self.label()).collect();
        self.flow(format!(
            "{{\n{table}: .branchtargets {};\nrem.u32 %x, {index}, 3;\nbrx.idx %x, {table};\n}}",
            places.join(", ")
        ));
        for place in places {
            self.flow(format!("{place}:"));
            self.several(Place::Anywhere, 1);
            self.flow(format!("bra {end};"));
        }
        self.flow(format!("{end}:"));
    }

    /// A call of one of the functions of the module, direct or by its address.
    fn call(&mut self) {
        let (a, b, to) = (self.register('w'), self.register('l'), self.register('w'));
        let function = self.numbers.one_of(functions::NAMES);
        let name = format!("{}_{function}", self.name);
        let (address, target) = if self.numbers.chance(1, 3) {
            let label = self.label();
            let prototype = format!("{label}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);");
            (format!("mov.u64 %v, {name};\n{prototype}\n"), format!("%v, (first, second), {label}"))
        } else {
            (String::new(), format!("{name}, (first, second)"))
        };
        let text = format!(
            "{{\n.param .b32 first;\n.param .b64 second;\n.param .b32 result;\n{address}st.param.b32 [first], {a};\n\
             st.param.b64 [second], {b};\ncall (result), {target};\nld.param.b32 {to}, [result];\n}}"
        );
        self.add(text, String::new(), to, vec![a, b]);
    }
}
