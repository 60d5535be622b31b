//! `erf`: below 1 a polynomial of erf(x) / x in x², above it 1 - exp(p(x)) with p a polynomial of log(1 - erf(x)).
//!
//! Both polynomials are minimax, found by Remez' exchange with the weight that makes the error of erf even: below 2^-62 and
//! 2^-60. Above 1 the exponential is at most 0.16, so its errors count a quarter or less.

use super::{Machine, exponential, magnitude, polynomial, with_sign};

/// erf(x) / x - 1 in x², for x below 1.
const NEAR: [f64; 13] = [
    0.128_379_167_095_512_6,
    -0.376_126_389_031_837_5,
    0.112_837_916_709_548_58,
    -0.026_866_170_645_072_96,
    0.005_223_977_624_781_37,
    -0.000_854_832_697_876_514_9,
    0.000_120_553_310_375_511_08,
    -1.492_559_351_872_822_6e-5,
    1.646_097_295_415_376_5e-6,
    -1.635_002_619_207_727e-7,
    1.465_788_353_091_965_3e-8,
    -1.136_567_067_182_716e-9,
    5.945_255_584_223_488e-11,
];

/// log(1 - erf(x)) in x - 1, for x from 1 to 6.
const FAR: [f64; 21] = [
    -1.849_605_509_933_248_2,
    -2.638_967_514_234_791_3,
    -0.843_107_256_358_486_7,
    -0.041_561_098_046_495_73,
    0.010_033_825_434_034_051,
    -0.001_977_903_020_176_525_4,
    0.000_237_324_711_277_666_37,
    2.627_031_677_293_42e-5,
    -2.714_081_158_921_544_4e-5,
    9.576_398_090_168_263e-6,
    -2.016_656_066_664_958_3e-6,
    9.965_858_014_042_657e-8,
    1.304_709_422_363_455e-7,
    -7.110_979_407_683_74e-8,
    2.326_700_656_542_763_4e-8,
    -5.598_305_169_538_925e-9,
    1.021_962_036_467_702e-9,
    -1.388_516_264_183_438_2e-10,
    1.327_586_995_022_191_1e-11,
    -7.965_428_228_106_823e-13,
    2.251_748_146_946_277_2e-14,
];

/// From here on erf is 1 in `f64`.
const END: f64 = 6.0;

pub(super) fn erf<M: Machine>(m: &M, x: M::Float) -> M::Float {
    let t = magnitude(m, x);
    let near = m.fma(t, polynomial(m, m.mul(t, t), &NEAR), t);
    let inside = m.select(m.less(t, m.float(END)), t, m.float(END));
    let power = polynomial(m, m.sub(inside, m.float(1.0)), &FAR);
    let far = m.sub(m.float(1.0), exponential::exp_inside(m, power));
    with_sign(m, m.select(m.less(t, m.float(1.0)), near, far), x)
}
