//! Single instructions, each with many operands.

use super::element::Element;
use super::forms::{self, Form};
use super::operand;
use super::subject::{Argument, Family, Output, Subject, Text};
use crate::programs::Numbers;
use std::fmt::Write;

/// How many instructions one kernel has.
const FORMS: usize = 24;
/// The threads of a block, and the blocks.
const BLOCK: u32 = 128;
const BLOCKS: u32 = 8;
const THREADS: usize = (BLOCK * BLOCKS) as usize;
/// How many threads have the values of approximations in a recording.
const KEPT: usize = 128;
/// Bytes of memory that each thread has to itself.
const OWN: usize = 32;
/// What tells the numbers of this family from others.
const FAMILY: u64 = 101;

/// Registers that an instruction may use beside its operands, and places in memory: `%own` is its thread's own global
/// memory, `%mine` its own shared memory, and `%other` that of another thread of the block.
pub(super) const SCRATCH: &str =
    ".reg .b16 %i, %j;\n.reg .b32 %x, %y, %w, %m;\n.reg .b64 %u, %v;\n.reg .pred %q, %z;\n";

/// How many sweeps have other instructions.
pub(super) fn count() -> u64 {
    forms::all().len().div_ceil(FORMS) as u64
}

pub(super) fn subject(seed: u64) -> Subject {
    let group = (seed % count()) as usize;
    let forms = &forms::all()[group * FORMS..];
    let chosen: Vec<(usize, &Form)> = forms.iter().take(FORMS).enumerate().collect();
    of(seed, &chosen)
}

/// Only one instruction, with the operands that it has among the others.
pub(super) fn only(seed: u64, index: usize) -> Subject {
    let all = subject(seed);
    let group = (seed % count()) as usize;
    let mut alone = match forms::all().get(group * FORMS + index) {
        Some(form) => of(seed, &[(index, form)]),
        None => all.clone(),
    };
    alone.arguments = all.arguments;
    alone
}

/// The operands of a thread for an output.
pub(super) fn operands(subject: &Subject, output: usize, thread: usize) -> Vec<(String, u64)> {
    let (Some(output), Some(Argument::Memory(inputs))) = (subject.outputs.get(output), subject.arguments.first())
    else {
        return Vec::new();
    };
    let index = output.range.start / (THREADS * 8);
    let operand = |(operand, name): (usize, &str)| {
        let start = place(index, operand) + thread * 8;
        let bytes = inputs.get(start..start + 8)?.try_into().ok()?;
        output.label.contains(name).then(|| (name.to_owned(), u64::from_le_bytes(bytes)))
    };
    ["%a", "%b", "%c"].into_iter().enumerate().filter_map(operand).collect()
}

/// The place of an operand in memory.
fn place(index: usize, operand: usize) -> usize {
    (index * 3 + operand) * THREADS * 8
}

fn of(seed: u64, forms: &[(usize, &Form)]) -> Subject {
    let entry = format!("sweep_{seed}");
    let mut body = String::new();
    let mut outputs = Vec::new();
    let count = forms.iter().map(|(index, _)| index + 1).max().unwrap_or_default();
    let mut inputs = vec![0; place(count, 0)];
    for &(index, form) in forms {
        instruction(&mut body, index, form);
        let threads = if form.near.is_some() { KEPT } else { THREADS };
        let start = index * THREADS * 8;
        let element = form.near.map_or_else(
            || operand::element(form.letter(0)),
            |near| Element::near(8, near.float, near.relative, near.absolute),
        );
        let (argument, keeps) = (1, form.near.is_some());
        let label = form.text.clone();
        outputs.push(Output { label, argument, range: start..start + threads * 8, element, keeps });
        let mut numbers = Numbers::new(FAMILY + index as u64, seed);
        for thread in 0..THREADS {
            let mut near = 0;
            for operand in 0..3 {
                near = operand::value(form.letter(operand + 1), &mut numbers, near);
                let start = place(index, operand) + thread * 8;
                inputs[start..start + 8].copy_from_slice(&near.to_le_bytes());
            }
        }
    }
    let text = format!(
        ".visible .entry {entry}(.param .u64 in, .param .u64 out, .param .u64 memory) {{\n\
         .reg .b64 %in, %out, %own, %mine, %other, %r;\n.reg .b32 %lane, %t, %n;\n\
         .shared .align 16 .b8 {entry}_shared[{}];\n{SCRATCH}\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %own, [memory];\n\
         mov.u32 %lane, %tid.x;\nmov.u32 %t, %ctaid.x;\nmad.lo.u32 %t, %t, {BLOCK}, %lane;\n\
         mul.wide.u32 %r, %t, 8;\nadd.u64 %in, %in, %r;\nadd.u64 %out, %out, %r;\n\
         mul.wide.u32 %r, %t, {OWN};\nadd.u64 %own, %own, %r;\n\
         mov.u64 %mine, {entry}_shared;\nmul.wide.u32 %r, %lane, {OWN};\nadd.u64 %mine, %mine, %r;\n\
         mad.lo.u32 %n, %lane, 5, 3;\nand.b32 %n, %n, {};\n\
         mov.u64 %other, {entry}_shared;\nmul.wide.u32 %r, %n, {OWN};\nadd.u64 %other, %other, %r;\n\
         {body}ret;\n}}\n",
        BLOCK as usize * OWN,
        BLOCK - 1,
    );
    Subject {
        family: Family::Sweep,
        seed,
        name: None,
        text: Text::Part(text),
        entry,
        grid: [BLOCKS, 1, 1],
        block: [BLOCK, 1, 1],
        shared: 0,
        arguments: vec![
            Argument::Memory(inputs),
            Argument::Memory(vec![0; count * THREADS * 8]),
            Argument::Memory(vec![0; THREADS * OWN]),
        ],
        outputs,
    }
}

/// One instruction: reads its operands, and writes its result.
fn instruction(body: &mut String, index: usize, form: &Form) {
    body.push_str("{\n");
    for (letter, name) in form.letters().zip(["d", "a", "b", "c"]) {
        let _ = writeln!(body, ".reg .{} %{name};", operand::register(letter));
    }
    for (operand, name) in ["a", "b", "c"].into_iter().enumerate() {
        let (letter, at) = (form.letter(operand + 1), place(index, operand));
        if letter == 'p' {
            let _ = writeln!(body, "ld.global.u32 %t, [%in+{at}];\nsetp.ne.u32 %{name}, %t, 0;");
        } else if letter != '_' {
            let _ = writeln!(body, "ld.global.{} %{name}, [%in+{at}];", operand::register(letter));
        }
    }
    body.push_str(&form.text);
    body.push('\n');
    body.push_str(match operand::width(form.letter(0)) {
        1 => "selp.b64 %r, 1, 0, %d;\n",
        16 => "cvt.u64.u16 %r, %d;\n",
        32 => "cvt.u64.u32 %r, %d;\n",
        _ => "mov.b64 %r, %d;\n",
    });
    let _ = writeln!(body, "st.global.u64 [%out+{}], %r;\n}}", index * THREADS * 8);
}
