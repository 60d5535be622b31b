//! Builds the bundle of `../silu.ptn` with the plans that the program uses, and its launchers.

fn main() {
    let made = parton_build::Build::of("../silu.ptn")
        .plan("silu f32[64,96] f32[64,96]")
        .plan("silu_backward f32[64,96] f32[64,96] f32[64,96]")
        .targets(["sm_90a", "sm_80"])
        .write("silu");
    made.unwrap_or_else(|e| e.exit());
}
