//! Approximations, with the errors that the manual states: of a part of the result, or of so many units in its last place, of
//! which one is 2^-23 in `f32`.

use super::{Float, Forms};

pub(super) fn add(forms: &mut Forms) {
    let single = Float::Single;
    // The greatest error of a float that is no subnormal.
    let smallest = f64::from(f32::MIN_POSITIVE);
    for flush in ["", ".ftz"] {
        for name in ["sin", "cos"] {
            forms.near("FS", format!("{name}.approx{flush}.f32 %d, %a"), single, 0.0, (-20.5f64).exp2());
        }
        forms.near("FE", format!("ex2.approx{flush}.f32 %d, %a"), single, (-22.0f64).exp2(), smallest);
        forms.near("FL", format!("lg2.approx{flush}.f32 %d, %a"), single, (-22.0f64).exp2(), (-22.0f64).exp2());
        forms.near("FL", format!("rsqrt.approx{flush}.f32 %d, %a"), single, (-22.4f64).exp2(), 0.0);
        forms.near("FL", format!("sqrt.approx{flush}.f32 %d, %a"), single, (-23.0f64).exp2(), 0.0);
        forms.near("FA", format!("rcp.approx{flush}.f32 %d, %a"), single, (-23.0f64).exp2(), smallest);
        forms.near("FAL", format!("div.approx{flush}.f32 %d, %a, %b"), single, (-22.0f64).exp2(), smallest);
        forms.near("FAA", format!("div.full{flush}.f32 %d, %a, %b"), single, (-22.0f64).exp2(), smallest);
    }
    forms.near("FE", "tanh.approx.f32 %d, %a", single, (-11.0f64).exp2(), 0.0);
    forms.near("Hk", "tanh.approx.f16 %d, %a", Float::Half, 0.0, (-10.9f64).exp2());
    forms.near("Hk", "ex2.approx.f16 %d, %a", Float::Half, (-9.9f64).exp2(), 0.0);
    let low = |text: &str| format!("mov.b32 {{%i, %j}}, %a; {text} %d, %i");
    forms.near("By", low("tanh.approx.bf16"), Float::Brain, 0.0, (-8f64).exp2());
    forms.near("By", low("ex2.approx.ftz.bf16"), Float::Brain, (-7f64).exp2(), 0.0);
    forms.near("DP", "rcp.approx.ftz.f64 %d, %a", Float::Double, (-19f64).exp2(), 0.0);
    forms.near("DP", "rsqrt.approx.ftz.f64 %d, %a", Float::Double, (-19f64).exp2(), 0.0);
    forms.near("DP", "rsqrt.approx.f64 %d, %a", Float::Double, (-19f64).exp2(), 0.0);
}
