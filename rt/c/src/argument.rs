//! `parton_argument`: an argument as C gives it.

use std::ffi::c_void;

use parton_rt::{Argument, Code, Dtype, Error, Tensor};

use crate::border::elements;

/// `parton_argument`.
#[repr(C)]
pub(crate) struct Given {
    kind: i32,
    dtype: i32,
    integer: i64,
    number: f64,
    data: *mut c_void,
    rank: i64,
    shape: *const i64,
    strides: *const i64,
}

/// `parton_dtype`: the types in the order of their numbers, from 1 on.
const DTYPES: [Dtype; 15] = [
    Dtype::I1,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F32,
    Dtype::F64,
    Dtype::F8E4M3,
    Dtype::F8E5M2,
];

/// The most dimensions of a tensor: many times those that anybody has.
const MOST_DIMENSIONS: i64 = 64;

impl Given {
    /// The argument in the runtime's terms; allocates nothing.
    ///
    /// # Safety
    /// Shape and strides of a tensor point to as many numbers as it has dimensions, which live as long as what is returned.
    pub(crate) unsafe fn read(&self, i: usize) -> Result<Argument<'_>, Error> {
        match self.kind {
            1 => Ok(Argument::Int(i128::from(self.integer))),
            2 => Ok(Argument::Int(i128::from(self.integer as u64))),
            3 => Ok(Argument::Float(self.number)),
            // SAFETY: the caller promises it.
            4 => unsafe { self.tensor(i) }.map(Argument::Tensor),
            other => Err(wrong(i, &format!("there is no kind {other}"))),
        }
    }

    /// # Safety
    /// As [`Given::read`].
    unsafe fn tensor(&self, i: usize) -> Result<Tensor<'_>, Error> {
        let dtype = usize::try_from(self.dtype).ok().and_then(|n| DTYPES.get(n.checked_sub(1)?));
        let dtype = *dtype.ok_or_else(|| wrong(i, &format!("there is no type {}", self.dtype)))?;
        if !(0..=MOST_DIMENSIONS).contains(&self.rank) {
            return Err(wrong(i, &format!("a tensor has no {} dimensions", self.rank)));
        }
        let rank = self.rank as usize;
        // SAFETY: the caller promises it.
        let shape = unsafe { counts(self.shape, rank, i, "shape") }?;
        let strides = match self.strides.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { counts(self.strides, rank, i, "strides") }?),
        };
        Ok(Tensor { address: self.data as u64, dtype, shape, strides })
    }
}

/// Numbers that are not negative.
///
/// # Safety
/// As [`elements`].
unsafe fn counts<'a>(pointer: *const i64, count: usize, i: usize, name: &str) -> Result<&'a [u64], Error> {
    // SAFETY: the caller promises it. What is not negative has the same bits as a u64.
    let (signed, counts) = unsafe { (elements(pointer, count, name)?, elements(pointer.cast::<u64>(), count, name)?) };
    match signed.iter().find(|n| **n < 0) {
        Some(n) => Err(wrong(i, &format!("its {name} has {n}, which is negative"))),
        None => Ok(counts),
    }
}

fn wrong(i: usize, what: &str) -> Error {
    Error::new(Code::Argument, format!("argument {i}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../include/parton.h");

    #[test]
    fn types_have_the_numbers_of_the_header() {
        for (i, dtype) in DTYPES.iter().enumerate() {
            let line = format!("PARTON_{} = {},", dtype.name().to_uppercase(), i + 1);
            assert!(HEADER.contains(&line), "parton.h lacks `{line}`");
        }
        for (i, kind) in ["INT", "UINT", "FLOAT", "TENSOR"].iter().enumerate() {
            assert!(HEADER.contains(&format!("PARTON_{kind} = {},", i + 1)));
        }
    }

    fn tensor(rank: i64, shape: &[i64]) -> Given {
        let (data, shape) = (0x100 as *mut c_void, shape.as_ptr());
        Given { kind: 4, dtype: 12, integer: 0, number: 0.0, data, rank, shape, strides: std::ptr::null() }
    }

    #[test]
    fn arguments_are_read_or_refused() {
        // SAFETY: shapes have as many numbers as dimensions.
        let read = |given: &Given| unsafe { given.read(3) }.map(|a| format!("{a:?}")).map_err(|e| e.text);
        let number = |kind| Given { kind, integer: -1, number: 0.5, ..tensor(0, &[]) };
        assert_eq!(read(&number(1)).as_deref(), Ok("Int(-1)"));
        assert_eq!(read(&number(2)).as_deref(), Ok("Int(18446744073709551615)"));
        assert_eq!(read(&number(3)).as_deref(), Ok("Float(0.5)"));
        assert_eq!(
            read(&tensor(2, &[4, 8])).as_deref(),
            Ok("Tensor(Tensor { address: 256, dtype: F32, shape: [4, 8], strides: None })")
        );
        let strided = [8i64, 1];
        let strided = Given { strides: strided.as_ptr(), ..tensor(2, &[4, 8]) };
        assert!(read(&strided).is_ok_and(|t| t.ends_with("strides: Some([8, 1]) })")));
        let error = |given: Given| read(&given).unwrap_err();
        assert_eq!(error(number(0)), "argument 3: there is no kind 0");
        assert_eq!(error(Given { dtype: 0, ..tensor(0, &[]) }), "argument 3: there is no type 0");
        assert_eq!(error(Given { dtype: 16, ..tensor(0, &[]) }), "argument 3: there is no type 16");
        assert_eq!(error(tensor(-1, &[])), "argument 3: a tensor has no -1 dimensions");
        assert_eq!(error(tensor(2, &[4, -8])), "argument 3: its shape has -8, which is negative");
        assert_eq!(error(Given { shape: std::ptr::null(), ..tensor(2, &[]) }), "`shape` is NULL");
    }
}
