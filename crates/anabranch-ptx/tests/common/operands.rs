//! Operands that fit the modifiers of an instruction.
#![allow(dead_code, unreachable_pub)]

/// What instructions use: registers of each size, and a name in each state space.
pub const HEAD: &str = ".address_size 64\n.global .align 16 .b8 ga[256];\n.const .align 16 .b8 ca[256];\n\
    .visible .func fv() { ret; }\n.visible .entry k(.param .u64 to) {\n\
    .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %q<9>; .reg .pred %p<9>;\n\
    .local .align 16 .b8 la[64]; .param .align 16 .b8 pa[64];\n\
    L2: .branchtargets L1;\n";

/// What follows the instructions.
pub const TAIL: &str = "L1: ret;\n}\n";

/// Whether a modifier is a type, and the letter of registers that have its size.
pub fn register(word: &str) -> Option<char> {
    Some(match word {
        "pred" => 'p',
        "u8" | "s8" | "b8" | "u16" | "s16" | "b16" | "f16" | "bf16" => 'h',
        "u32" | "s32" | "b32" | "f32" | "tf32" | "f16x2" | "bf16x2" | "u16x2" | "s16x2" => 'r',
        "u2" | "s2" | "u4" | "s4" => 'r',
        "u64" | "s64" | "b64" | "f64" | "f32x2" => 'd',
        "b128" => 'q',
        _ => return None,
    })
}

/// The operands of an instruction: `D` and `A` are of its first and its last type, `W` is of twice the bits in `.wide`.
fn shape(name: &str, words: &[&str], types: &[&str]) -> &'static str {
    let has = |word: &str| words.contains(&word);
    match name {
        "abs" | "neg" | "not" | "cnot" | "brev" | "mov" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2"
        | "tanh" => "D,A",
        "min" | "max" | "div" | "rem" | "copysign" | "bmsk" | "szext" | "and" | "or" | "xor" | "mul24" | "addc"
        | "subc" => "D,A,A",
        "add" | "sub" => "D,A,D",
        "mul" => "W,A,A",
        "mad" => "W,A,A,W",
        "fma" => "D,A,A,D",
        "madc" | "mad24" | "sad" | "prmt" | "shf" | "fns" => "D,A,A,A",
        "lop3" => "D,A,A,A,18",
        "shl" | "shr" => "D,A,r",
        "popc" | "clz" | "bfind" => "r,A",
        "bfe" => "D,A,r,r",
        "bfi" => "D,A,A,r,r",
        "dp2a" | "dp4a" | "vabsdiff2" | "vabsdiff4" => "r,r,r,r",
        "selp" => "D,A,A,p",
        "slct" => "D,D,D,A",
        "setp" if types.last().is_some_and(|of| of.ends_with("x2")) => "p|p,A,A",
        "setp" => "p,A,A",
        "set" => "D,A,A",
        "testp" => "p,A",
        "isspacep" => "p,d",
        "cvta" => "d,d",
        "cvt" if has("pack") && types.len() == 3 => "r,r,r,r",
        "cvt" if has("pack") => "r,r,r",
        "cvt" if types.first().is_some_and(|of| of.ends_with("x2")) => "D,A,A",
        "cvt" => "D,A",
        "shfl" if has("sync") => "r,r,1,31,-1",
        "shfl" => "r,r,1,31",
        "vote" if has("sync") => "D,p,-1",
        "vote" => "D,p",
        "match" => "r,A,-1",
        "redux" => "D,A,-1",
        "activemask" | "nanosleep" => "r",
        "elect" => "r|p,-1",
        "bar" | "barrier" if has("warp") => "-1",
        "bar" | "barrier" if has("red") => "D,0,p",
        "bar" | "barrier" if has("arrive") => "0,32",
        "bar" | "barrier" => "0",
        "bra" => "L1",
        "brx" => "r,L2",
        "call" => "fv",
        "pmevent" => "1",
        "prefetch" | "prefetchu" => "[d]",
        "applypriority" | "discard" => "[d],128",
        "mbarrier" if has("init") => "[d],1",
        "mbarrier" if has("inval") => "[d]",
        "mbarrier" if has("pending_count") => "r,d",
        "mbarrier" if has("parity") => "p,[d],1",
        "mbarrier" if has("test_wait") || has("try_wait") => "p,[d],d",
        "mbarrier" => "d,[d],1",
        "ld" | "ldu" => "V,M",
        "st" => "M,V",
        "atom" if has("cas") => "D,[d],A,A",
        "atom" => "D,[d],A",
        "red" => "[d],A",
        _ => "",
    }
}

fn memory(name: &str, words: &[&str]) -> &'static str {
    match words.iter().find(|word| ["local", "const", "param", "param::entry", "param::func"].contains(word)) {
        Some(&"local") => "[la]",
        Some(&"const") => "[ca]",
        Some(_) if name == "st" => "[pa]",
        Some(_) => "[to]",
        None => "[%d0]",
    }
}

/// An instruction of these modifiers, with its operands.
pub fn instruction(name: &str, words: &[&str]) -> String {
    let types: Vec<&str> = words.iter().copied().filter(|word| register(word).is_some()).collect();
    let letter = |of: Option<&&str>| of.and_then(|of| register(of)).unwrap_or('r');
    let (first, last) = (letter(types.first()), letter(types.last()));
    let mut number = 0;
    let mut next = |letter: char| {
        number = (number + 1) % 9;
        format!("%{letter}{number}")
    };
    let mut operands = Vec::new();
    for part in shape(name, words, &types).split(',').filter(|part| !part.is_empty()) {
        operands.push(match part {
            "D" => next(first),
            "A" => next(last),
            "W" if words.contains(&"wide") => next(if last == 'h' { 'r' } else { 'd' }),
            "W" => next(last),
            "p" | "r" | "d" => next(part.chars().next().unwrap_or('r')),
            "[d]" => format!("[{}]", next('d')),
            "p|p" => format!("{}|{}", next('p'), next('p')),
            "r|p" => format!("{}|{}", next('r'), next('p')),
            "M" => memory(name, words).to_owned(),
            "V" => {
                let count = words.iter().find_map(|word| word.strip_prefix('v')?.parse::<usize>().ok());
                match count.filter(|count| *count <= 8) {
                    None => next(last),
                    Some(count) => format!("{{{}}}", (0..count).map(|_| next(last)).collect::<Vec<_>>().join(", ")),
                }
            }
            number => number.to_owned(),
        });
    }
    if matches!(name, "set" | "setp") && words.iter().any(|word| matches!(*word, "and" | "or" | "xor")) {
        operands.push("%p8".to_owned());
    }
    if words.contains(&"L2::cache_hint") {
        operands.push("%d8".to_owned());
    }
    let dots: String = words.iter().map(|word| format!(".{word}")).collect();
    format!("{name}{dots} {};", operands.join(", "))
}
