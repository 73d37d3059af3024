//! Makes results the same for every reader.

use super::super::forms::Form;

/// What follows a form whose result is `%d`.
///
/// * NaN is made one: the manual does not say which NaN operations of 64 bits give, and the driver's compiler computes some
///   constants, and drops `max` of a register with itself, with others than the instructions of the GPU.
/// * NVIDIA's driver (580.159.04) takes the results of `set` and `cnot`, and a `selp` of 1 and 0, for truth values, and
///   forgets the type of the instruction: where an integer instruction reads the result of `set.f32`, it reads 1, and where a
///   float instruction reads that of `cnot`, it reads 1.0. So an instruction of the same type that the compiler cannot compute
///   stands between: with zero, or one, that it does not know (`%zero`, `%one`).
/// * It converts a float to an integer where an instruction reads its bits in another width (the amount of a shift of 64 bits, a
///   store of 16 bits), and drops the `.sat` of a conversion whose operand another one with `.sat` has written. An instruction on
///   bits stands between too.
pub(super) fn settled(form: &Form) -> String {
    let name = form.text.split(' ').next().unwrap_or_default();
    if let Some(rest) = name.strip_prefix("set.") {
        let types: Vec<&str> = rest.split('.').collect();
        let to = types.len().checked_sub(2).and_then(|place| types.get(place)).copied().unwrap_or_default();
        return match to {
            "f32" => "mul.rn.f32 %d, %d, %onef;\nxor.b32 %d, %d, %zero;".to_owned(),
            "f16" | "bf16" => format!("mul.rn.{to} %d, %d, %one{to};\nxor.b16 %d, %d, %zeroh;"),
            "f16x2" | "bf16x2" => format!("mul.rn.{to} %d, %d, %one{to};\nxor.b32 %d, %d, %zero;"),
            "u16" | "s16" => "xor.b16 %d, %d, %zeroh;".to_owned(),
            _ => "xor.b32 %d, %d, %zero;".to_owned(),
        };
    }
    let is_saturated = name.starts_with("cvt.") && name.contains(".sat") && matches!(form.letter(0), 'h' | 'w' | 'l');
    if is_saturated
        || name.starts_with("cnot.")
        || form.text.contains("selp.b32 %x, 1, 0")
        || form.text.contains("selp.b32 %d, 1, 0")
    {
        return match form.letter(0) {
            'p' => String::new(),
            'h' => "xor.b16 %d, %d, %zeroh;".to_owned(),
            'l' => "xor.b64 %d, %d, %zerol;".to_owned(),
            _ => "xor.b32 %d, %d, %zero;".to_owned(),
        };
    }
    let one = |of: &str, move_it: &str| format!("setp.nan.{of} %q, %d, %d;\n@%q {move_it};");
    let two = |of: &str| {
        format!(
            "setp.nan.{of} %q|%z, %d, %d;\nmov.b32 {{%i, %j}}, %d;\n@%q mov.b16 %i, 0x7fff;\n@%z mov.b16 %j, 0x7fff;\n\
             mov.b32 %d, {{%i, %j}};"
        )
    };
    match form.letter(0) {
        'F' | 'f' => one("f32", "mov.b32 %d, 0x7fffffff"),
        'D' => one("f64", "mov.f64 %d, 0d7FF8000000000000"),
        'H' | 'e' => one("f16", "mov.b16 %d, 0x7fff"),
        'B' | 'g' => one("bf16", "mov.b16 %d, 0x7fff"),
        'V' | 'v' => two("f16x2"),
        'X' | 'x' => two("bf16x2"),
        _ => String::new(),
    }
}
