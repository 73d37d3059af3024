//! Kernels composed of many instructions.
//!
//! The registers are in pools by size. A statement is a form of the sweeps whose operands are registers of the pools, alone,
//! guarded by a predicate, in a branch or a loop that lanes leave one after the other, or in a function that is called. Floats of
//! 64 bits have a pool of their own, so that their NaN, of which the manual does not say which it is, gets nowhere else.

use super::forms::{self, Form, Use};
use super::operand;
use super::subject::{Argument, Family, Output, Subject, Text};
use super::sweep::SCRATCH;
use crate::programs::Numbers;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

/// What tells the numbers of this family from others.
const FAMILY: u64 = 71;
/// Statements of a kernel.
const STATEMENTS: usize = 36;
/// Registers of each pool.
const POOL: usize = 6;
/// Bytes of shared memory of each thread.
const OWN: usize = 16;

/// The pools, by the letter of what they have.
const POOLS: [(char, &str, &str); 5] =
    [('h', "b16", "h"), ('w', "b32", "r"), ('l', "b64", "l"), ('D', "f64", "f"), ('p', "pred", "p")];

/// The name of the pool of a letter.
fn pool(letter: char) -> &'static str {
    match (letter, operand::width(letter)) {
        ('D', _) => "f",
        (_, 1) => "p",
        (_, 16) => "h",
        (_, 32) => "r",
        _ => "l",
    }
}

/// The forms that can be used, by the pool of their results: few forms with many types are as likely as many with few.
fn usable() -> &'static BTreeMap<&'static str, Vec<&'static Form>> {
    static USABLE: LazyLock<BTreeMap<&'static str, Vec<&'static Form>>> = LazyLock::new(|| {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for form in forms::all().iter().filter(|form| form.use_in_programs != Use::Nowhere) {
            all.entry(pool(form.letter(0))).or_default().push(form);
        }
        all
    });
    &USABLE
}

struct Composer {
    numbers: Numbers,
    body: String,
    labels: usize,
    outputs: Vec<String>,
    threads: usize,
}

pub(super) fn subject(seed: u64) -> Subject {
    let mut numbers = Numbers::new(FAMILY, seed);
    let (block, blocks) = (numbers.one_of([32u32, 64, 96, 128]), numbers.one_of([1u32, 2, 3]));
    let threads = (block * blocks) as usize;
    let mut composer = Composer { numbers, body: String::new(), labels: 0, outputs: Vec::new(), threads };
    while composer.outputs.len() < STATEMENTS {
        composer.statement(block);
    }
    let entry = format!("random_{seed}");
    let mut inputs = vec![0; threads * POOLS.len() * POOL * 8];
    let mut registers = String::new();
    let mut loads = String::new();
    for (place, (letter, of, name)) in POOLS.into_iter().enumerate() {
        let _ = writeln!(registers, ".reg .{of} %{name}<{POOL}>;");
        for index in 0..POOL {
            let at = (place * POOL + index) * threads * 8;
            let _ = match letter {
                'p' => writeln!(loads, "ld.global.u32 %x, [%in+{at}];\nsetp.ne.u32 %{name}{index}, %x, 0;"),
                _ => writeln!(loads, "ld.global.{of} %{name}{index}, [%in+{at}];"),
            };
            // Floats are often in registers of bits.
            let letter = match (letter, index % 3) {
                ('h', 1) => 'H',
                ('w', 1) => 'F',
                ('w', 2) => 'V',
                _ => letter,
            };
            for thread in 0..threads {
                let value = operand::value(letter, &mut composer.numbers, 0);
                inputs[at + thread * 8..at + thread * 8 + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    let functions = composer.functions(seed);
    let body = composer.body.replace("NAME", &entry);
    let text = format!(
        "{functions}.visible .entry {entry}(.param .u64 in, .param .u64 out) {{\n{registers}{SCRATCH}\
         .reg .b64 %in, %out, %mine, %other, %s;\n.reg .b32 %lane, %t, %n, %count;\n.reg .pred %on;\n\
         .shared .align 16 .b8 {entry}_shared[{}];\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %lane, %tid.x;\nmov.u32 %t, %ctaid.x;\n\
         mad.lo.u32 %t, %t, {block}, %lane;\nmul.wide.u32 %s, %t, 8;\nadd.u64 %in, %in, %s;\nadd.u64 %out, %out, %s;\n\
         mov.u64 %other, {entry}_shared;\nmul.wide.u32 %s, %lane, {OWN};\nadd.u64 %mine, %other, %s;\n\
         add.u32 %n, %lane, 7;\nrem.u32 %n, %n, {block};\nmul.wide.u32 %s, %n, {OWN};\nadd.u64 %other, %other, %s;\n\
         {loads}{body}ret;\n}}\n",
        block as usize * OWN,
    );
    let output = |(index, label): (usize, &String)| Output {
        label: label.clone(),
        argument: 1,
        range: index * threads * 8..(index + 1) * threads * 8,
        element: operand::element(if label.starts_with("f64 ") { 'D' } else { 'l' }),
        keeps: false,
    };
    Subject {
        family: Family::Random,
        seed,
        name: None,
        text: Text::Part(text),
        entry,
        grid: [blocks, 1, 1],
        block: [block, 1, 1],
        shared: 0,
        outputs: composer.outputs.iter().enumerate().map(output).collect(),
        arguments: vec![Argument::Memory(inputs), Argument::Memory(vec![0; composer.outputs.len() * threads * 8])],
    }
}

impl Composer {
    fn register(&mut self, letter: char) -> String {
        format!("%{}{}", pool(letter), self.numbers.below(POOL))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    /// A form with registers, and the register of its result. Its text is for the label of the output too.
    fn form(&mut self, of: Use, simple: bool) -> (String, String) {
        loop {
            let pool = self.numbers.one_of(["h", "r", "r", "r", "l", "l", "f", "p"]);
            let Some(form) = usable().get(pool).and_then(|all| self.numbers.pick(all)) else { continue };
            if (of == Use::Anywhere && form.use_in_programs != of) || simple && !form.is_simple() {
                continue;
            }
            let mut text = form.text.clone();
            let result = self.register(form.letter(0));
            for (place, name) in ["%a", "%b", "%c"].into_iter().enumerate() {
                if form.letter(place + 1) == '_' {
                    continue;
                }
                // The operand may be changed by what precedes the instruction.
                let register = self.register(form.letter(place + 1));
                text = text.replace(name, &register);
            }
            // The result must not be an operand that is read after it was written.
            if text.matches("%d").count() > 1 && text.contains(&result) {
                continue;
            }
            return (text.replace("%d", &result), result);
        }
    }

    fn emit(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
    }

    /// Writes a register to the next output.
    fn output(&mut self, register: &str, label: &str) {
        let at = self.outputs.len() * self.threads * 8;
        let store = match &register[1..2] {
            "p" => format!("selp.b64 %u, 1, 0, {register};\nst.global.b64 [%out+{at}], %u;"),
            "h" => format!("cvt.u64.u16 %u, {register};\nst.global.b64 [%out+{at}], %u;"),
            "r" => format!("cvt.u64.u32 %u, {register};\nst.global.b64 [%out+{at}], %u;"),
            "f" => format!("st.global.f64 [%out+{at}], {register};"),
            _ => format!("st.global.b64 [%out+{at}], {register};"),
        };
        self.emit(&store);
        let prefix = if register.starts_with("%f") { "f64 " } else { "" };
        self.outputs.push(format!("{prefix}{label}"));
    }

    /// A form, and its result as an output.
    fn plain(&mut self, of: Use) {
        let (text, result) = self.form(of, false);
        self.emit(&text);
        self.output(&result, &text);
    }

    fn statement(&mut self, block: u32) {
        match self.numbers.below(16) {
            0..=6 => self.plain(Use::Together),
            7 | 8 => self.guarded(),
            9 | 10 => self.branches(),
            11 | 12 => self.repeated(),
            13 => self.exchange(),
            14 => self.switch(),
            _ => self.call(block),
        }
    }

    fn guarded(&mut self) {
        let (text, result) = self.form(Use::Anywhere, true);
        let not = if self.numbers.chance(1, 2) { "!" } else { "" };
        let guard = self.register('p');
        let text = format!("@{not}{guard} {text}");
        self.emit(&text);
        self.output(&result, &text);
    }

    /// Both ways of a branch, one of which may be empty.
    fn branches(&mut self) {
        let (guard, other, end) = (self.register('p'), self.label(), self.label());
        self.emit(&format!("@{guard} bra {other};"));
        for _ in 0..self.numbers.below(3) {
            self.plain(Use::Anywhere);
        }
        self.emit(&format!("bra {end};\n{other}:"));
        for _ in 0..1 + self.numbers.below(3) {
            self.plain(Use::Anywhere);
        }
        self.emit(&format!("{end}:"));
    }

    /// A loop of a few rounds, whose number differs between the lanes.
    fn repeated(&mut self) {
        let (start, end, count) = (self.label(), self.label(), self.register('w'));
        let most = self.numbers.one_of([1, 3, 7]);
        self.emit(&format!("and.b32 %count, {count}, {most};\n{start}:\nsetp.eq.u32 %on, %count, 0;\n@%on bra {end};"));
        for _ in 0..1 + self.numbers.below(3) {
            self.plain(Use::Anywhere);
        }
        self.emit(&format!("sub.u32 %count, %count, 1;\nbra {start};\n{end}:"));
    }

    /// Another thread's register, through shared memory.
    fn exchange(&mut self) {
        let (letter, of) = self.numbers.one_of([('w', "b32"), ('l', "b64"), ('h', "b16")]);
        let (from, to) = (self.register(letter), self.register(letter));
        let generic = self.numbers.chance(1, 3);
        let (space, other) = if generic { ("", "%u") } else { (".shared", "%other") };
        let convert = if generic { "cvta.shared.u64 %u, %other;\n" } else { "" };
        let text = format!(
            "st.shared.{of} [%mine], {from};\nbarrier.sync 0;\n{convert}ld{space}.{of} {to}, [{other}];\nbarrier.sync 0;"
        );
        self.emit(&text);
        self.output(&to, &text.replace('\n', " "));
    }

    /// A branch to one of several places.
    fn switch(&mut self) {
        let (index, table, end) = (self.register('w'), self.label(), self.label());
        let places: Vec<String> = (0..3).map(|_| self.label()).collect();
        self.emit(&format!(
            "{{\n{table}: .branchtargets {};\nrem.u32 %x, {index}, 3;\nbrx.idx %x, {table};\n}}",
            places.join(", ")
        ));
        for place in places {
            self.emit(&format!("{place}:"));
            self.plain(Use::Anywhere);
            self.emit(&format!("bra {end};"));
        }
        self.emit(&format!("{end}:"));
    }

    /// A call of one of the functions of the module, direct or by its address.
    fn call(&mut self, block: u32) {
        let (a, b, to) = (self.register('w'), self.register('l'), self.register('w'));
        let function = self.numbers.one_of(["mix", "down"]);
        let (address, target, prototype) = if self.numbers.chance(1, 3) {
            let name = self.label();
            (
                format!("mov.u64 %v, NAME_{function};\n"),
                "%v".to_owned(),
                Some(format!("{name}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\n")),
            )
        } else {
            (String::new(), format!("NAME_{function}"), None)
        };
        let last = prototype.as_ref().and_then(|text| text.split(':').next()).map(|name| format!(", {name}"));
        // As many calls in each other as the low bits say.
        let depth = if function == "down" {
            format!("and.b32 %x, {a}, {};\n", block.min(31) / 4)
        } else {
            format!("mov.b32 %x, {a};\n")
        };
        let text = format!(
            "{{\n.param .b32 first;\n.param .b64 second;\n.param .b32 result;\n{address}{depth}st.param.b32 [first], %x;\n\
             st.param.b64 [second], {b};\n{}call (result), {target}, (first, second){};\nld.param.b32 {to}, [result];\n}}",
            prototype.unwrap_or_default(),
            last.unwrap_or_default(),
        );
        self.emit(&text);
        self.output(&to, &format!("call {function} ({a}, {b}) -> {to}"));
    }

    /// The functions that kernels call.
    fn functions(&mut self, seed: u64) -> String {
        let name = format!("random_{seed}");
        let table: Vec<String> = (0..16).map(|_| (self.numbers.bits() as u32).to_string()).collect();
        let odd = self.numbers.bits() | 1;
        format!(
            ".const .align 4 .u32 {name}_table[16] = {{{}}};\n\
             .func (.param .b32 r) {name}_mix(.param .b32 a, .param .b64 b) {{\n.reg .b32 %x, %y;\n.reg .b64 %u, %v;\n\
             .local .align 8 .b8 stack[32];\nld.param.b32 %x, [a];\nld.param.b64 %u, [b];\nst.local.b64 [stack+8], %u;\n\
             st.local.b32 [stack+4], %x;\nand.b32 %y, %x, 15;\nmul.wide.u32 %v, %y, 4;\nmov.u64 %u, {name}_table;\n\
             add.u64 %u, %u, %v;\nld.const.b32 %y, [%u];\nld.local.b32 %x, [stack+12];\nxor.b32 %x, %x, %y;\n\
             ld.local.b64 %v, [stack+8];\nmul.lo.u64 %v, %v, {odd};\ncvt.u32.u64 %y, %v;\nadd.u32 %x, %x, %y;\n\
             st.param.b32 [r], %x;\nret;\n}}\n\
             .func (.param .b32 r) {name}_down(.param .b32 a, .param .b64 b) {{\n.reg .b32 %x, %y;\n.reg .b64 %u;\n\
             .reg .pred %q;\nld.param.b32 %x, [a];\nld.param.b64 %u, [b];\nsetp.eq.u32 %q, %x, 0;\n@%q bra LAST;\n\
             {{\n.param .b32 first;\n.param .b64 second;\n.param .b32 result;\nsub.u32 %y, %x, 1;\n\
             st.param.b32 [first], %y;\nadd.u64 %u, %u, {odd};\nst.param.b64 [second], %u;\n\
             call (result), {name}_down, (first, second);\nld.param.b32 %y, [result];\n}}\n\
             mad.lo.u32 %y, %y, 31, %x;\nst.param.b32 [r], %y;\nret;\nLAST:\ncvt.u32.u64 %y, %u;\nst.param.b32 [r], %y;\n\
             ret;\n}}\n",
            table.join(", ")
        )
    }
}
