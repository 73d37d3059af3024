//! Which function an operation is, by the type of an instruction.

/// The function for each type, where `T` stands for the type in Rust.
macro_rules! choose {
    ($scalar:expr, [$($s:pat => $t:ty),* $(,)?], $body:expr) => {
        match $scalar {
            $($s => { #[allow(dead_code)] type T = $t; Ok($body as crate::machine::Select) })*
            #[allow(unreachable_patterns)]
            other => Err(format!("type .{}", other.name())),
        }
    };
}

/// For integers of 16, 32 and 64 bits, with their signs.
macro_rules! choose_integer {
    ($scalar:expr, $body:expr) => {
        choose!($scalar, [
            Scalar::U16 => u16, Scalar::U32 => u32, Scalar::U64 => u64,
            Scalar::S16 => i16, Scalar::S32 => i32, Scalar::S64 => i64,
        ], $body)
    };
}

/// For what does the same to signed and unsigned integers, and to bits.
macro_rules! choose_bits {
    ($scalar:expr, $body:expr) => {
        choose!($scalar, [
            Scalar::U16 | Scalar::S16 | Scalar::B16 | Scalar::F16 | Scalar::Bf16 => u16,
            Scalar::U32 | Scalar::S32 | Scalar::B32 | Scalar::F32 | Scalar::F16x2 | Scalar::Bf16x2 => u32,
            Scalar::U64 | Scalar::S64 | Scalar::B64 | Scalar::F64 => u64,
        ], $body)
    };
}
