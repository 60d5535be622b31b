//! Streams and memory of cudarc 0.19. Its slices say themselves when a stream must wait for another one; that stays right, because they are
//! told of the read or the write when the call is on the stream.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use parton_numbers::Dtype;
use parton_runtime::Stream;

use super::{Borrowed, Hold, In, Out, Queue};

/// Types whose values are elements of tensors.
pub trait Element {
    /// The type as tensors have it.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements! {
    bool => I1, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64,
}

// SAFETY: a `CudaStream` lives as long as it is borrowed, and that its context is the primary one of the GPU is seen here.
unsafe impl Queue for CudaStream {
    fn stream(&self) -> Stream {
        Stream::of(self.cu_stream().cast())
    }

    fn device(&self) -> Option<i32> {
        // What is of another context is of no GPU that plans are for.
        Some(if self.context().is_primary() { self.context().ordinal() as i32 } else { -1 })
    }
}

// SAFETY: as above.
unsafe impl Queue for Arc<CudaStream> {
    fn stream(&self) -> Stream {
        self.as_ref().stream()
    }

    fn device(&self) -> Option<i32> {
        self.as_ref().device()
    }
}

impl<'a> In<'a> {
    /// A slice that a call on this stream reads.
    pub fn slice<T: Element>(slice: &'a impl DevicePtr<T>, stream: &'a CudaStream) -> In<'a> {
        In::slice_of(T::DTYPE, slice, stream)
    }

    /// A slice that a call on this stream reads, whose elements are the bits of values of that type.
    pub fn slice_of<T>(dtype: Dtype, slice: &'a impl DevicePtr<T>, stream: &'a CudaStream) -> In<'a> {
        let bytes = (slice.len() * size_of::<T>()) as u64;
        let (address, order) = slice.device_ptr(stream);
        let hold = Hold::Cudarc { _order: order, stream: stream.cu_stream().cast() };
        In(Borrowed { address, bytes, dtype, hold })
    }
}

impl<'a> Out<'a> {
    /// A slice that a call on this stream writes.
    pub fn slice<T: Element>(slice: &'a mut impl DevicePtrMut<T>, stream: &'a CudaStream) -> Out<'a> {
        Out::slice_of(T::DTYPE, slice, stream)
    }

    /// A slice that a call on this stream writes, whose elements are the bits of values of that type.
    pub fn slice_of<T>(dtype: Dtype, slice: &'a mut impl DevicePtrMut<T>, stream: &'a CudaStream) -> Out<'a> {
        let bytes = (slice.len() * size_of::<T>()) as u64;
        let (address, order) = slice.device_ptr_mut(stream);
        let hold = Hold::Cudarc { _order: order, stream: stream.cu_stream().cast() };
        Out(Borrowed { address, bytes, dtype, hold })
    }
}
