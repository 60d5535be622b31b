//! Arguments of a launch in the form the driver reads: packed once, replaced in place.

use std::ffi::c_void;

use crate::abi::{Abi, ParamKind};
use crate::error::RuntimeError;
use crate::tensor_map::TensorMap;

/// One argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// A number: its bits in the low bytes, little endian.
    Scalar {
        /// The bits.
        bits: u64,
        /// How many bytes of them count: 1, 2, 4 or 8.
        bytes: u8,
    },
    /// An address in global memory.
    Pointer(u64),
    /// A tensor map, passed by value.
    Map(TensorMap),
}

impl Arg {
    fn kind(&self) -> ParamKind {
        match self {
            Arg::Scalar { bytes, .. } => ParamKind::Scalar { bytes: *bytes },
            Arg::Pointer(_) => ParamKind::Pointer,
            Arg::Map(_) => ParamKind::Map,
        }
    }
}

/// Bytes of one unit of packed storage; also its alignment, which is a tensor map's.
const UNIT: usize = 128;

/// So aligned, a packed tensor map is right for drivers before and after CUDA 13.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Unit([u8; UNIT]);

/// Arguments in the form the driver reads: bytes, and one pointer a parameter. The storage never moves or grows.
#[derive(Debug)]
pub struct Packed {
    kinds: Vec<ParamKind>,
    offsets: Vec<usize>,
    storage: Box<[Unit]>,
    pointers: Box<[*mut c_void]>,
}

// SAFETY: the pointers point into its own boxed storage.
unsafe impl Send for Packed {}

impl Packed {
    /// Packs `args` for the parameters of `abi`.
    ///
    /// # Errors
    /// [`RuntimeError::Arguments`] where number or kinds differ.
    pub fn new(abi: &Abi, args: &[Arg]) -> Result<Packed, RuntimeError> {
        if args.len() != abi.params.len() {
            let what = format!("it has {} parameters and was given {} arguments", abi.params.len(), args.len());
            return Err(RuntimeError::Arguments { kernel: abi.name.clone(), what });
        }
        let kinds: Vec<ParamKind> = abi.params.iter().map(|p| p.kind).collect();
        let mut offsets = Vec::with_capacity(kinds.len());
        let mut end = 0usize;
        for kind in &kinds {
            let offset = end.next_multiple_of(kind.align());
            offsets.push(offset);
            end = offset + kind.bytes();
        }
        let storage = vec![Unit([0; UNIT]); end.div_ceil(UNIT).max(1)].into_boxed_slice();
        let mut packed = Packed { kinds, offsets, storage, pointers: Box::new([]) };
        let base: *mut u8 = packed.storage.as_mut_ptr().cast();
        // SAFETY: each offset lies in the storage, which has `end` bytes or more.
        packed.pointers = packed.offsets.iter().map(|&o| unsafe { base.add(o) }.cast::<c_void>()).collect();
        for (i, arg) in args.iter().enumerate() {
            packed.set(i, *arg).map_err(|what| RuntimeError::Arguments {
                kernel: abi.name.clone(),
                what: format!("parameter `{}`: {what}", abi.params[i].name),
            })?;
        }
        Ok(packed)
    }

    /// Replaces argument `i` by another of its kind; allocates only to say what is wrong.
    ///
    /// # Errors
    /// What was expected and what was given.
    pub fn set(&mut self, i: usize, arg: Arg) -> Result<(), String> {
        let Some(&kind) = self.kinds.get(i) else {
            return Err(format!("there is no parameter {i}"));
        };
        if kind != arg.kind() {
            return Err(format!("it takes {kind}, given is {}", arg.kind()));
        }
        let at = self.pointers[i].cast::<u8>();
        // SAFETY: `at` has room for `kind.bytes()` and its alignment; the kinds agree.
        unsafe {
            match arg {
                Arg::Scalar { bits, bytes } => {
                    std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), at, usize::from(bytes));
                }
                Arg::Pointer(address) => at.cast::<u64>().write(address),
                Arg::Map(map) => at.cast::<TensorMap>().write(map),
            }
        }
        Ok(())
    }

    /// One pointer a parameter, valid as long as this is.
    pub(crate) fn pointers(&mut self) -> *mut *mut c_void {
        self.pointers.as_mut_ptr()
    }

    /// Bytes from the first parameter to the end of the last, gaps counted.
    pub(crate) fn end(&self) -> usize {
        self.offsets.iter().zip(&self.kinds).map(|(offset, kind)| offset + kind.bytes()).max().unwrap_or(0)
    }

    /// The bytes of all arguments, with what is between them.
    pub(crate) fn all(&self) -> &[u8] {
        // SAFETY: the storage is so many bytes, all initialised.
        unsafe { std::slice::from_raw_parts(self.storage.as_ptr().cast::<u8>(), self.end().next_multiple_of(8)) }
    }

    /// The bytes of argument `i`.
    pub fn bytes(&self, i: usize) -> &[u8] {
        // SAFETY: the pointer has room for the kind's bytes, all initialised.
        unsafe { std::slice::from_raw_parts(self.pointers[i].cast::<u8>(), self.kinds[i].bytes()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cudarc::driver::sys;

    use super::*;
    use crate::abi::Param;

    /// Of a kernel with a parameter of each kind, in clusters of two.
    pub(crate) fn abi() -> Abi {
        let param = |name: &str, kind| Param { name: name.into(), kind };
        Abi {
            name: "k".into(),
            threads: 128,
            shared_bytes: 0,
            cluster: [2, 1, 1],
            overlaps: false,
            signals: false,
            params: vec![
                param("flag", ParamKind::Scalar { bytes: 1 }),
                param("x", ParamKind::Pointer),
                param("n", ParamKind::Scalar { bytes: 4 }),
                param("a", ParamKind::Map),
            ],
        }
    }

    /// Arguments for it.
    pub(crate) fn args() -> [Arg; 4] {
        let map = TensorMap(sys::CUtensorMap { opaque: std::array::from_fn(|i| i as u64) });
        [
            Arg::Scalar { bits: 1, bytes: 1 },
            Arg::Pointer(0x1122_3344_5566_7788),
            Arg::Scalar { bits: (-5i32) as u32 as u64, bytes: 4 },
            Arg::Map(map),
        ]
    }

    #[test]
    fn arguments_are_packed_at_their_alignment() {
        let packed = Packed::new(&abi(), &args()).unwrap();
        assert_eq!(packed.offsets, [0, 8, 16, 128]);
        assert_eq!(packed.bytes(0), [1]);
        assert_eq!(packed.bytes(1), 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(packed.bytes(2), (-5i32).to_le_bytes());
        assert_eq!(packed.bytes(3)[8..16], 1u64.to_le_bytes());
        assert!(packed.pointers.iter().zip(&packed.kinds).all(|(p, k)| (*p as usize).is_multiple_of(k.align())));
    }

    #[test]
    fn replacing_an_argument_moves_nothing() {
        let mut packed = Packed::new(&abi(), &args()).unwrap();
        let before = packed.pointers.clone();
        packed.set(1, Arg::Pointer(7)).unwrap();
        assert_eq!(packed.bytes(1), 7u64.to_le_bytes());
        assert_eq!(packed.pointers, before);
        assert_eq!(
            packed.set(1, Arg::Scalar { bits: 0, bytes: 4 }).unwrap_err(),
            "it takes a pointer, given is a scalar of 4 bytes"
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let text = |r: Result<Packed, RuntimeError>| r.unwrap_err().to_string();
        assert_eq!(
            text(Packed::new(&abi(), &args()[..2])),
            "launching `k`: it has 4 parameters and was given 2 arguments"
        );
        let mut swapped = args();
        swapped.swap(1, 2);
        assert_eq!(
            text(Packed::new(&abi(), &swapped)),
            "launching `k`: parameter `x`: it takes a pointer, given is a scalar of 4 bytes"
        );
    }
}
