//! The text of composed kernels.

use super::super::element::Element;
use super::super::operand;
use super::super::subject::{Argument, Family, Output, Subject, Text};
use super::super::sweep::SCRATCH;
use super::{OWN, POOL, POOLS, Piece, Program, Step};
use crate::programs::Numbers;
use std::fmt::Write;

/// What a kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The last result of each step.
    Outputs,
    /// All results of all steps with their operands, one after the other.
    Trace,
}

/// How many results of a thread a trace has, and the words of each: the number of the step plus one, its result, and up to
/// five operands.
pub(crate) const EVENTS: usize = 512;
pub(crate) const EVENT: usize = 7;

/// The place of the values of a register in the inputs, by thread.
fn place(register: &str, threads: usize) -> Option<usize> {
    let name = register.strip_prefix('%')?;
    let (pool, index) = name.split_at_checked(1)?;
    let pool = POOLS.iter().position(|&(_, _, name)| name == pool)?;
    Some((pool * POOL + index.parse::<usize>().ok()?) * threads * 8)
}

/// The initial values of all registers.
pub(super) fn inputs(threads: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut inputs = vec![0; threads * POOLS.len() * POOL * 8];
    for (pool, (letter, _, _)) in POOLS.into_iter().enumerate() {
        for index in 0..POOL {
            // Floats are often in registers of bits.
            let letter = match (letter, index % 3) {
                ('h', 1) => 'H',
                ('h', 2) => 'B',
                ('w', 1) => 'F',
                ('w', 2) => 'V',
                _ => letter,
            };
            let at = (pool * POOL + index) * threads * 8;
            for bytes in inputs[at..at + threads * 8].chunks_exact_mut(8) {
                let mut value = operand::value(letter, numbers, 0);
                if letter == 'D' && f64::from_bits(value).is_nan() {
                    value = 0x7ff8_0000_0000_0000;
                }
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    inputs
}

/// Sets the initial values of a register.
pub(super) fn set(inputs: &mut [u8], register: &str, values: &[u64]) {
    let Some(at) = place(register, values.len()) else { return };
    for (bytes, value) in inputs[at..].chunks_exact_mut(8).zip(values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// The bits of a register, as 64 bits.
fn widened(register: &str, into: &str) -> String {
    match &register[1..2] {
        "p" => format!("selp.b64 {into}, 1, 0, {register};"),
        "h" => format!("cvt.u64.u16 {into}, {register};"),
        "r" => format!("cvt.u64.u32 {into}, {register};"),
        _ => format!("mov.b64 {into}, {register};"),
    }
}

impl Program {
    /// The kernel, as what devices run.
    pub(in super::super) fn subject(&self, style: Style) -> Subject {
        let threads = self.threads();
        let entry = format!("random_{}", self.seed);
        let count = self.steps().map(|step| step.id + 1).max().unwrap_or_default();
        let bytes = match style {
            Style::Outputs => count * threads * 8,
            Style::Trace => threads * EVENTS * EVENT * 8,
        };
        let mut memory = vec![0; threads * OWN];
        self.sums.iter().for_each(|sum| memory.extend_from_slice(&sum.start.to_le_bytes()));
        Subject {
            family: Family::Random,
            seed: self.seed,
            name: None,
            text: Text::Part(self.text(&entry, style)),
            entry,
            grid: [self.blocks, 1, 1],
            block: [self.block, 1, 1],
            shared: 0,
            outputs: self.outputs(style),
            arguments: vec![
                Argument::Memory(self.inputs.clone()),
                Argument::Memory(vec![0; bytes]),
                Argument::Memory(memory),
                Argument::Value(vec![0; 8]),
            ],
        }
    }

    fn outputs(&self, style: Style) -> Vec<Output> {
        let (threads, element) = (self.threads(), Element::bits(8));
        let of = |label: String, argument, range| Output { label, argument, range, element, keeps: false };
        if style == Style::Trace {
            return vec![of("trace".to_owned(), 1, 0..threads * EVENTS * EVENT * 8)];
        }
        let stride = threads * 8;
        let steps = self.steps().map(|step| of(step.label.clone(), 1, step.id * stride..(step.id + 1) * stride));
        let sums = self.sums.iter().enumerate().map(|(index, sum)| {
            let at = threads * OWN + index * 8;
            of(format!("{} of all threads", sum.operation), 2, at..at + 8)
        });
        steps.chain(sums).collect()
    }

    fn text(&self, entry: &str, style: Style) -> String {
        let (threads, block) = (self.threads(), self.block);
        let mut registers = String::new();
        let mut loads = String::new();
        for (letter, of, name) in POOLS {
            let _ = writeln!(registers, ".reg .{of} %{name}<{POOL}>;");
            for index in 0..POOL {
                let at = place(&format!("%{name}{index}"), threads).unwrap_or_default();
                let _ = match letter {
                    'p' => writeln!(loads, "ld.global.u32 %x, [%in+{at}];\nsetp.ne.u32 %{name}{index}, %x, 0;"),
                    _ => writeln!(loads, "ld.global.{of} %{name}{index}, [%in+{at}];"),
                };
            }
        }
        let body: String = self.pieces.iter().map(|(_, piece)| self.piece(piece, style)).collect();
        let start = match style {
            Style::Outputs => "mul.wide.u32 %s, %t, 8;\nadd.u64 %out, %out, %s;\n".to_owned(),
            Style::Trace => format!(
                ".reg .b64 %rd, %e<5>;\n.reg .b32 %events;\n.reg .pred %room;\nmov.b32 %events, 0;\n\
                 mul.wide.u32 %s, %t, {};\nadd.u64 %out, %out, %s;\n",
                EVENTS * EVENT * 8
            ),
        };
        let functions = &self.functions;
        format!(
            "{functions}.visible .entry {entry}(.param .u64 in, .param .u64 out, .param .u64 memory, .param .u64 zero) {{\n\
             {registers}{SCRATCH}.reg .b64 %in, %out, %own, %all, %mine, %other, %s, %zerol;\n\
             .reg .b32 %lane, %t, %n, %count<4>, %zero, %onef, %onef16x2, %onebf16x2;\n\
             .reg .b16 %zeroh, %onef16, %onebf16;\n.reg .pred %on;\n\
             .shared .align 16 .b8 {entry}_shared[{}];\n.shared .align 8 .b64 {entry}_place;\n\
             ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %own, [memory];\nld.param.u64 %zerol, [zero];\n\
             cvt.u32.u64 %zero, %zerol;\ncvt.u16.u64 %zeroh, %zerol;\nor.b32 %onef, %zero, 0x3f800000;\n\
             or.b32 %onef16x2, %zero, 0x3c003c00;\nor.b32 %onebf16x2, %zero, 0x3f803f80;\nor.b16 %onef16, %zeroh, 0x3c00;\n\
             or.b16 %onebf16, %zeroh, 0x3f80;\nmov.u32 %lane, %tid.x;\nmov.u32 %t, %ctaid.x;\n\
             mad.lo.u32 %t, %t, {block}, %lane;\nmul.wide.u32 %s, %t, 8;\nadd.u64 %in, %in, %s;\n\
             add.u64 %all, %own, {};\nmul.wide.u32 %s, %t, {OWN};\nadd.u64 %own, %own, %s;\n\
             mov.u64 %other, {entry}_shared;\nmul.wide.u32 %s, %lane, {OWN};\nadd.u64 %mine, %other, %s;\n\
             add.u32 %n, %lane, 7;\nrem.u32 %n, %n, {block};\nmul.wide.u32 %s, %n, {OWN};\nadd.u64 %other, %other, %s;\n\
             {start}mov.b16 %i, 0;\nmov.b16 %j, 0;\nmov.b64 %u, 0;\nmov.b64 %v, 0;\nmov.b32 %x, 0;\nmov.b32 %y, 0;\n\
             {loads}{body}ret;\n}}\n",
            block as usize * OWN,
            threads * OWN,
        )
    }

    fn piece(&self, piece: &Piece, style: Style) -> String {
        match (piece, style) {
            (Piece::Flow(text), _) => format!("{text}\n"),
            (Piece::Step(step), Style::Outputs) => self.with_output(step),
            (Piece::Step(step), Style::Trace) => with_event(step),
        }
    }

    fn with_output(&self, step: &Step) -> String {
        let at = step.id * self.threads() * 8;
        format!("{}{}\nst.global.b64 [%out+{at}], %u;\n", settled(step), widened(&step.result, "%u"))
    }
}

/// The text of a step, with what settles its result.
fn settled(step: &Step) -> String {
    let lines = [&step.text, &step.settled];
    lines.into_iter().filter(|lines| !lines.is_empty()).map(|lines| format!("{lines}\n")).collect()
}

/// A step that appends its number, its result and its operands to the trace.
fn with_event(step: &Step) -> String {
    let operands = || step.operands.iter().enumerate().take(EVENT - 2);
    let before: String = operands().map(|(index, register)| widened(register, &format!("%e{index}")) + "\n").collect();
    let stores: String =
        operands().map(|(index, _)| format!("@%room st.global.b64 [%out+{}], %e{index};\n", 16 + index * 8)).collect();
    format!(
        "{before}{}{}\nsetp.lt.u32 %room, %events, {EVENTS};\n@%room st.global.b64 [%out], {};\n\
         @%room st.global.b64 [%out+8], %rd;\n{stores}@%room add.u64 %out, %out, {};\nadd.u32 %events, %events, 1;\n",
        settled(step),
        widened(&step.result, "%rd"),
        step.id + 1,
        EVENT * 8
    )
}
