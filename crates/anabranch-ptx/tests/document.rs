//! `docs/ptx.md` lists the instructions as the crate knows them. `UPDATE_DOCS=1` writes it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

const START: &str = "# PTX on the host

`anabranch-ptx` parses PTX as NVRTC, nvcc and Rust's nvptx target write it, of the versions 6.0 to 9.x, and executes it on the
processor. This list is made from the table by which the crate selects instructions
(`UPDATE_DOCS=1 cargo test -p anabranch-ptx --test document`).

A module that contains what is not executed can still be loaded. Launching a kernel fails if it, or a function that it
reaches, contains such an instruction; the error names the instruction and its line.

A text that contradicts itself cannot be loaded, as with NVIDIA's assembler: a name that is declared twice in one block,
declarations of a function or a variable that do not agree, an alias that is not a function without a body or does not name one
that is defined in the module, a call with other numbers, types, sizes or alignments than its function or its prototype, initial
values of another type or for other dimensions, directives that are not known or exclude each other, and a store to a parameter of a
kernel.

An instruction whose operands are not those that it takes is not executed: a register of another type, where bits are of any type
and integers with and without signs are of each other's; an integer for a floating-point number, or the other way round; a name that
is in another state space, or whose address is not in brackets; and a special register or the address of a name in an instruction
that takes none, which is most of them. So is an instruction whose modifiers are those of no form below, or one of whose numbers is
out of range: the forms are those that NVIDIA's assembler takes, as far as they are executed. In a form, braces are around what may be
left out, and names such as `.rnd` stand for one modifier of a set. The words that belong to the name come first, such as `.lo`, types
are in the order of the form, and other modifiers are in any order, each of them once, where the assembler takes some twice.
Whether a form exists on the `.target` and in the `.version` of the text
does not count. What is named may be declared further down, which NVIDIA's assembler refuses. Variables of
global and constant memory inside of functions, and elements such as `a[%r1]` whose number is in a register, are not supported.

## Meaning

* Results that are rounded to the nearest, and in the other rounding modes, are exact to the bit. NaN results of 16 and 32
  bits are the one that hardware returns; those of 64 bits are NaN, with a payload that may differ. `.approx` and `.full` are
  computed with the host's library or exactly, within the documented errors.
* The condition code after `sub.cc` and `subc.cc` is 1 if nothing was borrowed, as NVIDIA's compilers use it with `addc`.
* Loads and stores of every cache operator go to memory at once. Atomic operations on global memory are atomic among all
  threads of the process. Every fence is as strong as `fence.sc.sys`. What is atomic with 128 bits is so as a whole on
  processors of x86-64; elsewhere, other accesses may see one half of it without the other.
* Lanes of a warp diverge and meet again, and each part makes progress on its own, as since sm_70. A `.sync` instruction waits
  for the lanes of its mask, of which each lane has its own. Lanes that have called a function at different places meet in it, too;
  those in `bar.warp.sync` meet wherever they are.
* A number such as `0f3F800000` has its bits where the type is `.f64`, too, as NVIDIA's assembler has it.
* Constants are expressions as in C, wherever a number may be, with integers of 64 bits with and without signs. `%` is that of
  integers without signs.
* `vprintf` and `__assertfail`, which `printf` and `assert` call, `malloc`, `free` and `cudaGraphSetConditional` are provided.
  Other external functions fail when they are called.
* `malloc` allocates from the heap of the context, of 8 MiB, and returns zero where there is not as much left. What it has
  returned stays until `free`, or the end of the context. `free` of any other address ends the kernel. Checked mode ends
  a kernel that accesses what has been freed, or the heap outside of what has been allocated.
* The blocks of a cluster have its special registers, and are independent otherwise. A kernel has the clusters of its
  `.reqnctapercluster`; one with `.blocksareclusters` is not executed. `%gridid` is 0 for launches of a stream, and `%pm` registers
  count nothing.
* A generic address of global memory is what the caller gave the memory. Shared memory, local memory and parameters of
  kernels have generic addresses from 2^56, 2^57 and 3 * 2^56 on.

## Limits

| what | limit |
|---|---|
| bytes of text | 268435456 |
| braces or parentheses in each other | 64 |
| bytes of a name | 65536 |
| bytes of initial values of all variables | 134217728 |
| bytes of registers of a function, for a warp | 16777216 |
| bytes of registers of all functions that call each other, for a warp | 67108864 |
| bytes of local variables of a function, for a thread | 1048576 |
| bytes of variables of constant memory | 65536 |
| bytes of shared memory of a block | 1048576 |
| threads of a block | 1024 |
| calls in each other, and local memory of a thread | options of a launch |

";

/// A form as the PTX ISA writes it.
fn full(name: &str, form: &str) -> String {
    let dot = if form.is_empty() || form.starts_with(['.', '{']) { "" } else { "." };
    format!("{name}{dot}{}", form.replacen(' ', "", 1))
}

#[test]
fn the_document_lists_the_instructions() {
    let mut text = START.to_owned();
    text.push_str("## Instructions that are executed\n\n| instruction | forms | |\n|---|---|---|\n");
    for instruction in anabranch_ptx::instructions() {
        if let Ok(forms) = instruction.support {
            let forms: Vec<String> = forms.split(", ").map(|form| full(instruction.name, form)).collect();
            writeln!(text, "| `{}` | `{}` | {} |", instruction.name, forms.join("`, `"), instruction.note).unwrap();
        }
    }
    text.push_str("\n## Sets of modifiers\n\n| in forms | is one of |\n|---|---|\n");
    for (name, words) in anabranch_ptx::modifier_sets() {
        writeln!(text, "| `.{name}` | `.{}` |", words.join(" .")).unwrap();
    }
    text.push_str("\n## Instructions that are refused by name\n\n| instruction | what it belongs to |\n|---|---|\n");
    for instruction in anabranch_ptx::instructions() {
        if let Err(reason) = instruction.support {
            writeln!(text, "| `{}` | {reason} |", instruction.name).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ptx.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == text, "run `UPDATE_DOCS=1 cargo test -p anabranch-ptx --test document`");
}
