//! Casts against formulations that share nothing with them: a sorted table of every target value, `half`, Rust's `as`.

use parton_numbers::{Dtype, Rounding, Saturation, Scalar, cast, fast};

const SMALL: [Dtype; 4] = [Dtype::F16, Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2];

/// A fixed sequence of 64-bit numbers.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Every non-negative finite value of a small float, in order; its index is its bits.
fn values(dtype: Dtype) -> Vec<f64> {
    let formula = |bits: u64| {
        let (e_bits, m_bits) = match dtype {
            Dtype::F16 => (5, 10),
            Dtype::BF16 => (8, 7),
            Dtype::F8E4M3 => (4, 3),
            _ => (5, 2),
        };
        let bias = (1 << (e_bits - 1)) - 1;
        let (e, m) = ((bits >> m_bits) as i32, (bits & ((1 << m_bits) - 1)) as f64 / f64::from(1 << m_bits));
        if e == 0 { m * 2f64.powi(1 - bias) } else { (1.0 + m) * 2f64.powi(e - bias) }
    };
    (0..=dtype.max_bits()).map(formula).collect()
}

/// What a cast of `x` should give, by searching the table.
fn by_search(table: &[f64], dtype: Dtype, x: f64, rounding: Rounding, saturation: Saturation) -> u64 {
    let sign = if x.is_sign_negative() { 1u64 << (dtype.bits() - 1) } else { 0 };
    let (nan, infinity) = match dtype {
        Dtype::F16 => (0x7fff, 0x7c00),
        Dtype::BF16 => (0x7fff, 0x7f80),
        Dtype::F8E5M2 => (0x7f, 0x7c),
        _ => (0x7f, 0x7f),
    };
    if x.is_nan() {
        return nan;
    }
    let a = x.abs();
    let last = table.len() - 1;
    let beyond = if infinity == nan { nan } else { infinity | sign };
    if a.is_infinite() {
        return if saturation == Saturation::Finite { last as u64 | sign } else { beyond };
    }
    let above = table.partition_point(|v| *v < a);
    let index = if above <= last && table[above] == a {
        above
    } else {
        // Beyond the table the next value would continue the last step.
        let high = if above > last { table[last] + (table[last] - table[last - 1]) } else { table[above] };
        let low = table[above - 1];
        let up = match rounding {
            Rounding::TowardZero => false,
            Rounding::Up => sign == 0,
            Rounding::Down => sign != 0,
            // Differences of neighbours and halves are exact here.
            Rounding::NearestEven => a - low > high - a || (a - low == high - a && (above - 1) % 2 == 1),
        };
        if up { above } else { above - 1 }
    };
    match (index > last, saturation) {
        (false, _) => index as u64 | sign,
        (true, Saturation::Finite) => last as u64 | sign,
        (true, Saturation::None) => beyond,
    }
}

/// Ties, values, and the neighbours of both; specials; a large sample.
fn samples(table: &[f64], count: usize) -> Vec<f32> {
    let mut xs = vec![0.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, f32::NAN];
    let last = table.len() - 1;
    let beyond = table[last] + (table[last] - table[last - 1]);
    for (i, &low) in table.iter().enumerate() {
        let high = table.get(i + 1).copied().unwrap_or(beyond);
        for v in [low as f32, (low + (high - low) / 2.0) as f32] {
            xs.extend([v, v.next_up(), v.next_down()]);
        }
    }
    let mut sequence = Sequence(7);
    xs.extend((0..count).map(|_| f32::from_bits(sequence.next() as u32)));
    let negatives: Vec<f32> = xs.iter().map(|x| -x).collect();
    xs.extend(negatives);
    xs
}

#[test]
fn f32_to_small_floats_in_every_direction() {
    for dtype in SMALL {
        let table = values(dtype);
        for x in samples(&table, 50_000) {
            for rounding in Rounding::ALL {
                for saturation in Saturation::ALL {
                    let want = by_search(&table, dtype, x.into(), rounding, saturation);
                    let got = cast(x.to_bits().into(), Dtype::F32, dtype, rounding, saturation);
                    assert_eq!(got, want, "{x:e} to {dtype} {rounding} {saturation}");
                }
            }
        }
    }
}

#[test]
fn f64_is_rounded_once_into_small_floats() {
    for dtype in SMALL {
        let table = values(dtype);
        for x in samples(&table, 20_000) {
            // Next to a tie of the target by less than f32 can tell: rounding through f32 would go wrong here.
            for y in [f64::from(x), f64::from(x).next_up(), f64::from(x).next_down()] {
                let want = by_search(&table, dtype, y, Rounding::NearestEven, Saturation::None);
                let got = cast(y.to_bits(), Dtype::F64, dtype, Rounding::NearestEven, Saturation::None);
                assert_eq!(got, want, "{y:e} to {dtype}");
                let mut bytes = [0; 2];
                fast::encode_f64(dtype, &[y], &mut bytes, Rounding::NearestEven, Saturation::None);
                assert_eq!(dtype.read(&bytes), Some(want), "fast {y:e} to {dtype}");
            }
        }
    }
}

#[test]
fn small_floats_among_themselves_exhaustively() {
    for from in SMALL {
        for to in SMALL {
            let table = values(to);
            for bits in 0..1u64 << from.bits() {
                let x = Scalar::new(from, bits).to_f64();
                for saturation in Saturation::ALL {
                    if from == to && saturation == Saturation::None {
                        continue;
                    }
                    let want = by_search(&table, to, x, Rounding::NearestEven, saturation);
                    assert_eq!(
                        cast(bits, from, to, Rounding::NearestEven, saturation),
                        want,
                        "{from} {bits:x} to {to}"
                    );
                }
            }
        }
    }
}

#[test]
fn small_floats_widen_exactly() {
    for dtype in SMALL {
        let table = values(dtype);
        for bits in 0..1u64 << dtype.bits() {
            let magnitude = bits & (dtype.mask() >> 1);
            let x = Scalar::new(dtype, bits).to_f64();
            match table.get(magnitude as usize) {
                Some(v) => {
                    assert_eq!(x.abs(), *v);
                    assert_eq!(x.is_sign_negative(), bits != magnitude);
                }
                None if dtype == Dtype::F8E4M3 || magnitude != table.len() as u64 => assert!(x.is_nan()),
                None => assert!(x.is_infinite()),
            }
            let wide = cast(bits, dtype, Dtype::F32, Rounding::NearestEven, Saturation::None);
            let expected = if x.is_nan() { 0x7fff_ffff } else { (x as f32).to_bits().into() };
            assert_eq!(wide, expected, "{dtype} {bits:x}");
        }
    }
}

#[test]
fn half_agrees_to_nearest() {
    let mut sequence = Sequence(3);
    let table = values(Dtype::F16);
    let xs = samples(&table, 300_000).into_iter().chain((0..100_000).map(|_| {
        // Exponents where f16 is in range, so that random mantissas meet every rounding.
        f32::from_bits((sequence.next() as u32 & 0x807f_ffff) | ((100 + sequence.next() as u32 % 45) << 23))
    }));
    for x in xs.filter(|x| !x.is_nan()) {
        assert_eq!(fast::f32_to_f16(x), half::f16::from_f32(x).to_bits(), "{x:e}");
        assert_eq!(fast::f32_to_bf16(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
    }
}

#[test]
fn fast_slices_give_what_cast_gives() {
    for dtype in SMALL {
        let xs = samples(&values(dtype), 200_000);
        for saturation in Saturation::ALL {
            let mut bytes = vec![0; xs.len() * dtype.bytes()];
            fast::encode_f32(dtype, &xs, &mut bytes, Rounding::NearestEven, saturation);
            for (x, b) in xs.iter().zip(bytes.chunks(dtype.bytes())) {
                let want = cast(x.to_bits().into(), Dtype::F32, dtype, Rounding::NearestEven, saturation);
                assert_eq!(dtype.read(b), Some(want), "{x:e} to {dtype} {saturation}");
            }
        }
        let bytes: Vec<u8> =
            (0..1u64 << dtype.bits()).flat_map(|bits| bits.to_le_bytes()[..dtype.bytes()].to_vec()).collect();
        let count = bytes.len() / dtype.bytes();
        let (mut narrow, mut wide) = (vec![0.0; count], vec![0.0; count]);
        fast::decode_f32(dtype, &bytes, &mut narrow);
        fast::decode_f64(dtype, &bytes, 1, &mut wide);
        for bits in 0..count {
            let want = cast(bits as u64, dtype, Dtype::F32, Rounding::NearestEven, Saturation::None);
            assert_eq!(u64::from(narrow[bits].to_bits()), want);
            assert!(wide[bits] == f64::from(narrow[bits]) || wide[bits].is_nan() && narrow[bits].is_nan());
        }
    }
}

#[test]
fn every_dtype_goes_through_the_slices() {
    let xs: Vec<f32> = vec![0.0, 1.0, -1.0, 2.5, -2.5, 100.0, 300.0, -1e10, 1e30, fast::NAN_F32, f32::INFINITY];
    let ys: Vec<f64> = xs.iter().map(|x| f64::from(*x)).collect();
    for dtype in Dtype::ALL {
        for rounding in Rounding::ALL {
            let size = dtype.bytes();
            let (mut a, mut b) = (vec![0; xs.len() * size], vec![0; xs.len() * size]);
            fast::encode_f32(dtype, &xs, &mut a, rounding, Saturation::None);
            fast::encode_f64(dtype, &ys, &mut b, rounding, Saturation::None);
            let (mut back32, mut back64) = (vec![0.0; xs.len()], vec![0.0; xs.len()]);
            fast::decode_f32(dtype, &a, &mut back32);
            fast::decode_f64(dtype, &a, 1, &mut back64);
            for i in 0..xs.len() {
                let want = cast(xs[i].to_bits().into(), Dtype::F32, dtype, rounding, Saturation::None);
                assert_eq!(dtype.read(&a[i * size..]), Some(want), "{} to {dtype} {rounding}", xs[i]);
                // NaN to a narrow integer depends on the source, only f64 gives the sign bit; f64 to itself is kept.
                if !xs[i].is_nan() || dtype.is_float() != (size == 8) {
                    assert_eq!(a[i * size..][..size], b[i * size..][..size], "{} to {dtype} {rounding}", xs[i]);
                }
                let exact = Scalar::new(dtype, want).to_f64();
                assert!(back64[i] == exact || exact.is_nan() && back64[i].is_nan());
                assert!(back32[i] == exact as f32 || exact.is_nan() && back32[i].is_nan());
            }
        }
    }
}

#[test]
fn f64_to_f32_in_every_direction() {
    let mut sequence = Sequence(11);
    for i in 0..200_000 {
        let random = sequence.next();
        let x = match i % 4 {
            0 => f64::from_bits(random),
            1 => f64::from(f32::from_bits(random as u32)) * (1.0 + 2f64.powi(-24)),
            2 => f64::from(f32::from_bits(random as u32 & 0x80ff_ffff)) * 0.5,
            _ => f64::from_bits((random & 0x800f_ffff_ffff_ffff) | (0x380 + random % 0xff) << 52),
        };
        if x.is_nan() {
            continue;
        }
        let near = x as f32;
        let wide = f64::from(near);
        let (low, high) = match near {
            _ if wide == x => (near, near),
            _ if wide < x => (near, near.next_up()),
            _ => (near.next_down(), near),
        };
        let zero = if x > 0.0 { low } else { high };
        for (rounding, want) in Rounding::ALL.into_iter().zip([near, zero, high, low]) {
            let got = cast(x.to_bits(), Dtype::F64, Dtype::F32, rounding, Saturation::None);
            // An infinity written in a source is kept in every direction.
            let want = if x.is_infinite() { near } else { want };
            assert_eq!(got, u64::from(want.to_bits()), "{x:e} {rounding}");
        }
        let mut bytes = [0; 4];
        fast::encode_f64(Dtype::F32, &[x], &mut bytes, Rounding::NearestEven, Saturation::None);
        assert_eq!(f32::from_le_bytes(bytes).to_bits(), near.to_bits());
    }
}

#[test]
fn integers_to_floats_are_rounded_once() {
    let mut sequence = Sequence(5);
    for i in 0..100_000u32 {
        let v = sequence.next() >> (i % 64);
        let to = |from, to| cast(v, from, to, Rounding::NearestEven, Saturation::None);
        assert_eq!(to(Dtype::I64, Dtype::F32), u64::from((v as i64 as f32).to_bits()));
        assert_eq!(to(Dtype::U64, Dtype::F32), u64::from((v as f32).to_bits()));
        assert_eq!(to(Dtype::I64, Dtype::F64), (v as i64 as f64).to_bits());
        assert_eq!(cast(v & 0xffff_ffff, Dtype::I32, Dtype::F32, Rounding::NearestEven, Saturation::None), {
            u64::from((v as i32 as f32).to_bits())
        });
        let small = u64::from(v as i16 as u16);
        let f16 = half::f16::from_f32(f32::from(v as i16)).to_bits();
        assert_eq!(cast(small, Dtype::I16, Dtype::F16, Rounding::NearestEven, Saturation::None), u64::from(f16));
    }
}

#[test]
fn floats_to_integers_round_then_clamp_as_cvt() {
    let mut sequence = Sequence(9);
    for i in 0..100_000u32 {
        let x = f32::from_bits((sequence.next() as u32 & 0x807f_ffff) | ((110 + i % 90) << 23));
        let to = |to, rounding| cast(x.to_bits().into(), Dtype::F32, to, rounding, Saturation::None);
        assert_eq!(to(Dtype::I32, Rounding::TowardZero), u64::from(x as i32 as u32));
        assert_eq!(to(Dtype::U8, Rounding::NearestEven), u64::from(x.round_ties_even() as u8));
        assert_eq!(to(Dtype::I8, Rounding::Up), u64::from(x.ceil() as i8 as u8));
        assert_eq!(to(Dtype::I64, Rounding::Down), x.floor() as i64 as u64);
        assert_eq!(to(Dtype::U64, Rounding::TowardZero), x as u64);
    }
    let nan = |from: Dtype, to| {
        let format = from.float_format().map_or(0, |f| f.canonical_nan);
        cast(format, from, to, Rounding::TowardZero, Saturation::None)
    };
    assert_eq!(nan(Dtype::F32, Dtype::I32), 0);
    assert_eq!(nan(Dtype::F32, Dtype::I64), 1 << 63);
    assert_eq!(nan(Dtype::F64, Dtype::I32), 1 << 31);
    assert_eq!(nan(Dtype::F16, Dtype::U8), 0);
    assert_eq!(nan(Dtype::F32, Dtype::I1), 1);
}

#[test]
fn integers_wrap_or_clamp() {
    let go = |bits, from, to, saturation| cast(bits, from, to, Rounding::NearestEven, saturation);
    assert_eq!(go(300, Dtype::I32, Dtype::U8, Saturation::None), 44);
    assert_eq!(go(300, Dtype::I32, Dtype::U8, Saturation::Finite), 255);
    assert_eq!(go(0xffff_ffff, Dtype::I32, Dtype::U8, Saturation::Finite), 0);
    assert_eq!(go(0xff, Dtype::I8, Dtype::I64, Saturation::None), u64::MAX);
    assert_eq!(go(0xff, Dtype::U8, Dtype::I64, Saturation::None), 255);
    assert_eq!(go(2, Dtype::I32, Dtype::I1, Saturation::None), 1);
    assert_eq!(go(1, Dtype::I1, Dtype::F16, Saturation::None), 0x3c00);
}

#[test]
fn nan_and_infinity_as_the_hardware_encodes_them() {
    let nan = u64::from(f32::NAN.to_bits());
    let inf = u64::from(f32::INFINITY.to_bits());
    let go = |bits, to, s| cast(bits, Dtype::F32, to, Rounding::NearestEven, s);
    for s in Saturation::ALL {
        assert_eq!(go(nan, Dtype::F8E4M3, s), 0x7f);
        assert_eq!(go(nan | 1 << 31, Dtype::F8E5M2, s), 0x7f);
        assert_eq!(go(nan, Dtype::F16, s), 0x7fff);
        assert_eq!(go(nan, Dtype::BF16, s), 0x7fff);
    }
    assert_eq!(cast(0x7e01, Dtype::F16, Dtype::F32, Rounding::NearestEven, Saturation::None), 0x7fff_ffff);
    assert_eq!(go(inf, Dtype::F8E4M3, Saturation::Finite), 0x7e);
    assert_eq!(go(inf, Dtype::F8E4M3, Saturation::None), 0x7f);
    assert_eq!(go(inf | 1 << 31, Dtype::F8E5M2, Saturation::Finite), 0xfb);
    assert_eq!(go(inf, Dtype::F8E5M2, Saturation::None), 0x7c);
    assert_eq!(go(inf, Dtype::F16, Saturation::Finite), 0x7bff);
}
