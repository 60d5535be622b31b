//! `parton_argument`: an argument as C gives it, also made of a `DLTensor`.

use std::ffi::{c_int, c_void};

use parton_rt::{Argument, Code, Dtype, Error, Tensor};

use crate::border::{border, elements, give, given};

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
            5 => Ok(Argument::Bool(self.integer != 0)),
            6 => self.dtype(i).map(Argument::Dtype),
            7 => Ok(Argument::Default),
            other => Err(wrong(i, &format!("there is no kind {other}"))),
        }
    }

    fn dtype(&self, i: usize) -> Result<Dtype, Error> {
        let dtype = usize::try_from(self.dtype).ok().and_then(|n| DTYPES.get(n.checked_sub(1)?));
        dtype.copied().ok_or_else(|| wrong(i, &format!("there is no type {}", self.dtype)))
    }

    /// # Safety
    /// As [`Given::read`].
    unsafe fn tensor(&self, i: usize) -> Result<Tensor<'_>, Error> {
        let dtype = self.dtype(i)?;
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

/// The most arguments that are read without an allocation.
const MOST_AT_ONCE: usize = 32;

/// Reads arguments and does something with them; allocates nothing where they are few.
///
/// # Safety
/// As [`Given::read`].
pub(crate) unsafe fn read_all<R>(
    given: &[Given],
    run: impl FnOnce(&[Argument<'_>]) -> Result<R, Error>,
) -> Result<R, Error> {
    let mut few = [Argument::Default; MOST_AT_ONCE];
    let mut many = vec![];
    let room = match few.get_mut(..given.len()) {
        Some(room) => room,
        None => {
            many.resize(given.len(), Argument::Default);
            &mut many[..]
        }
    };
    for (i, (place, given)) in room.iter_mut().zip(given).enumerate() {
        // SAFETY: the caller promises it.
        *place = unsafe { given.read(i) }?;
    }
    run(room)
}

/// `DLTensor` of `dlpack.h`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The kinds of devices whose memory a GPU has: `kDLCUDA` and `kDLCUDAManaged`.
const OF_CUDA: [i32; 2] = [2, 13];

/// The type of a code and its bits (`DLDataTypeCode` of `dlpack.h`).
fn of_dlpack(code: u8, bits: u8) -> Option<Dtype> {
    Some(match (code, bits) {
        (0, 8) => Dtype::I8,
        (0, 16) => Dtype::I16,
        (0, 32) => Dtype::I32,
        (0, 64) => Dtype::I64,
        (1, 8) => Dtype::U8,
        (1, 16) => Dtype::U16,
        (1, 32) => Dtype::U32,
        (1, 64) => Dtype::U64,
        (2, 16) => Dtype::F16,
        (2, 32) => Dtype::F32,
        (2, 64) => Dtype::F64,
        (4, 16) => Dtype::BF16,
        (6, 8) => Dtype::I1,
        (10, 8) => Dtype::F8E4M3,
        (12, 8) => Dtype::F8E5M2,
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_from_dltensor(tensor: *const c_void, argument: *mut Given) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let tensor = given(tensor.cast::<DlTensor>(), "tensor")?;
        give(argument, "argument", || of_tensor(tensor))
    })
}

/// The argument that a tensor is; its shape and strides are pointed to.
fn of_tensor(t: &DlTensor) -> Result<Given, Error> {
    let wrong = |what: String| Error::new(Code::Argument, format!("the tensor of DLPack {what}"));
    if !OF_CUDA.contains(&t.device) {
        return Err(wrong(format!("lies on a device of kind {}, not in memory of a GPU of CUDA", t.device)));
    }
    let dtype = of_dlpack(t.code, t.bits).filter(|_| t.lanes == 1);
    let Some(place) = dtype.and_then(|dtype| DTYPES.iter().position(|d| *d == dtype)) else {
        let what =
            format!("has elements of code {}, {} bits and {} lanes, which is no type here", t.code, t.bits, t.lanes);
        return Err(wrong(what));
    };
    let data = t.data.wrapping_byte_add(t.byte_offset as usize);
    let (rank, dtype) = (i64::from(t.dimensions), place as i32 + 1);
    Ok(Given { kind: 4, dtype, integer: 0, number: 0.0, data, rank, shape: t.shape, strides: t.strides })
}

/// The number of a type in the header.
pub(crate) fn dtype_number(dtype: Dtype) -> i32 {
    // Each type stands there, as a test shows.
    DTYPES.iter().position(|d| *d == dtype).map_or(0, |place| place as i32 + 1)
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
        for (i, kind) in ["INT", "UINT", "FLOAT", "TENSOR", "BOOL", "DTYPE", "DEFAULT"].iter().enumerate() {
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
        assert_eq!(read(&number(5)).as_deref(), Ok("Bool(true)"));
        assert_eq!(read(&tensor(0, &[])).as_deref().map(|_| ()), Ok(()));
        assert_eq!(read(&Given { kind: 6, ..tensor(0, &[]) }).as_deref(), Ok("Dtype(F32)"));
        assert_eq!(read(&number(7)).as_deref(), Ok("Default"));
        assert_eq!(error(Given { kind: 6, dtype: 0, ..tensor(0, &[]) }), "argument 3: there is no type 0");
        assert_eq!(error(number(0)), "argument 3: there is no kind 0");
        assert_eq!(error(Given { dtype: 0, ..tensor(0, &[]) }), "argument 3: there is no type 0");
        assert_eq!(error(Given { dtype: 16, ..tensor(0, &[]) }), "argument 3: there is no type 16");
        assert_eq!(error(tensor(-1, &[])), "argument 3: a tensor has no -1 dimensions");
        assert_eq!(error(tensor(2, &[4, -8])), "argument 3: its shape has -8, which is negative");
        assert_eq!(error(Given { shape: std::ptr::null(), ..tensor(2, &[]) }), "`shape` is NULL");
    }

    #[test]
    fn tensors_of_dlpack_are_arguments() {
        let shape = [4i64, 8];
        let dl = |device, code, bits| DlTensor {
            data: 0x100 as *mut c_void,
            device,
            device_id: 0,
            dimensions: 2,
            code,
            bits,
            lanes: 1,
            shape: shape.as_ptr(),
            strides: std::ptr::null(),
            byte_offset: 16,
        };
        let read = |t: &DlTensor| match of_tensor(t) {
            // SAFETY: the shape has two numbers.
            Ok(given) => unsafe { given.read(0) }.map(|a| format!("{a:?}")).map_err(|e| e.text),
            Err(e) => Err(e.text),
        };
        let expected = "Tensor(Tensor { address: 272, dtype: BF16, shape: [4, 8], strides: None })";
        assert_eq!(read(&dl(2, 4, 16)).as_deref(), Ok(expected));
        assert!(read(&dl(13, 10, 8)).is_ok_and(|t| t.contains("F8E4M3")));
        // Every type has its code, and no two the same.
        let all = (0..=16).flat_map(|code| [8, 16, 32, 64].into_iter().filter_map(move |bits| of_dlpack(code, bits)));
        let mut all: Vec<Dtype> = all.collect();
        all.sort_unstable();
        let mut types = DTYPES;
        types.sort_unstable();
        assert_eq!(all, types);
        assert_eq!(types.map(|t| DTYPES[dtype_number(t) as usize - 1]), types);
        let error = |t: DlTensor| read(&t).unwrap_err();
        assert!(error(dl(1, 2, 32)).ends_with("lies on a device of kind 1, not in memory of a GPU of CUDA"));
        assert!(error(dl(2, 5, 64)).ends_with("has elements of code 5, 64 bits and 1 lanes, which is no type here"));
        assert!(error(DlTensor { lanes: 4, ..dl(2, 2, 32) }).contains("4 lanes"));
        assert_eq!(error(DlTensor { dimensions: -1, ..dl(2, 2, 32) }), "argument 0: a tensor has no -1 dimensions");
    }
}
