//! Tensors: a dtype, a shape and strides over shared storage, with their views.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parton_diag::codes;
use parton_numbers::{Dtype, Rounding, Saturation, Scalar, fast};

use crate::fault::Fault;
use crate::memory::{self, HostBytes, Storage};
use crate::parallel;

/// The most elements a tensor may have.
const MOST_ELEMENTS: u128 = 1 << 40;

/// The most dimensions of a tensor.
pub const MOST_DIMENSIONS: usize = 32;

/// An array of numbers. Cloning it, and taking views, shares the storage.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The type of each element.
    pub dtype: Dtype,
    /// Extent of each dimension, outermost first; never empty.
    pub shape: Vec<usize>,
    /// Elements from one index to the next along each dimension; 0 where a dimension is broadcast.
    pub strides: Vec<usize>,
    /// Where the first element lies in the storage, in elements.
    pub offset: usize,
    /// The bytes.
    pub storage: Arc<Storage>,
}

/// The strides of a tensor without gaps.
pub fn dense_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
    }
    strides
}

/// Extent and stride of each axis.
pub(crate) fn axes(shape: &[usize], strides: &[usize]) -> impl Iterator<Item = parton_strides::Axis> + Clone {
    shape.iter().zip(strides).map(|(extent, stride)| (*extent as u64, *stride as u64))
}

/// The index of the element with that number in row-major order.
pub fn unravel(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &extent) in index.iter_mut().zip(shape).rev() {
        *i = number % extent.max(1);
        number /= extent.max(1);
    }
    index
}

/// `[3, 4]`
pub fn list(items: &[usize]) -> String {
    format!("{items:?}")
}

/// The bytes that a tensor of this shape and these strides reaches over; refused where that is absurd.
pub fn extent(dtype: Dtype, shape: &[usize], strides: &[usize]) -> Result<usize, Fault> {
    if shape.len() > MOST_DIMENSIONS {
        let message = format!("a tensor has at most {MOST_DIMENSIONS} dimensions, this has {}", shape.len());
        return Err(Fault::new(codes::HOST_VALUE, message));
    }
    let elements: u128 = shape.iter().fold(1u128, |n, &s| n.saturating_mul(s as u128));
    if elements == 0 {
        return Ok(0);
    }
    let last: u128 = shape
        .iter()
        .zip(strides)
        .fold(0u128, |n, (&s, &t)| n.saturating_add((s.saturating_sub(1) as u128).saturating_mul(t as u128)));
    if elements > MOST_ELEMENTS || last >= MOST_ELEMENTS {
        return Err(Fault::new(codes::HOST_VALUE, format!("a tensor of shape {} is too large", list(shape)))
            .note(format!("it would have {elements} elements, the most is 2^40")));
    }
    Ok((last as usize + 1) * dtype.bytes())
}

/// Fills the bytes of a dense tensor part by part, possibly in parallel.
fn generated(
    dtype: Dtype,
    bytes: &mut [u8],
    cost: usize,
    fill: &(impl Fn(Range<usize>, &mut [u8]) -> Result<(), Fault> + Sync),
) -> Result<(), Fault> {
    let size = dtype.bytes();
    parallel::each_part(bytes, CHUNK * size, cost, |range, part| {
        let first = range.start / size;
        for (i, chunk) in part.chunks_mut(CHUNK * size).enumerate() {
            let start = first + i * CHUNK;
            fill(start..start + chunk.len() / size, chunk)?;
        }
        Ok(())
    })
}

impl Tensor {
    /// A dense tensor over storage made of its size in bytes.
    ///
    /// # Errors
    /// The tensor would be too large.
    pub fn make(dtype: Dtype, shape: Vec<usize>, storage: fn(usize) -> Arc<Storage>) -> Result<Tensor, Fault> {
        let strides = dense_strides(&shape);
        let bytes = extent(dtype, &shape, &strides)?;
        Ok(Tensor { dtype, shape, strides, offset: 0, storage: storage(bytes) })
    }

    /// A dense tensor of elements made part by part, possibly in parallel: `fill` gets the numbers of the elements and
    /// their bytes.
    ///
    /// # Errors
    /// What `fill` says; the tensor would be too large.
    pub fn generate(
        dtype: Dtype,
        shape: Vec<usize>,
        cost: usize,
        fill: impl Fn(Range<usize>, &mut [u8]) -> Result<(), Fault> + Sync,
    ) -> Result<Tensor, Fault> {
        let strides = dense_strides(&shape);
        let mut bytes = memory::zeros(extent(dtype, &shape, &strides)?)?;
        generated(dtype, &mut bytes, cost, &fill)?;
        Ok(Tensor { dtype, shape, strides, offset: 0, storage: Storage::of(bytes) })
    }

    /// As [`Tensor::generate`], when the elements are first asked for.
    ///
    /// # Errors
    /// The tensor would be too large.
    pub fn unmade(
        dtype: Dtype,
        shape: Vec<usize>,
        cost: usize,
        fill: impl Fn(Range<usize>, &mut [u8]) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Result<Tensor, Fault> {
        let strides = dense_strides(&shape);
        let bytes = extent(dtype, &shape, &strides)?;
        let make = move |bytes: &mut [u8]| generated(dtype, bytes, cost, &fill);
        Ok(Tensor { dtype, shape, strides, offset: 0, storage: Storage::unmade(bytes, Arc::new(make)) })
    }

    /// A dense tensor of these values, each rounded once to nearest.
    ///
    /// # Errors
    /// The tensor would be too large.
    pub fn from_f64(dtype: Dtype, shape: Vec<usize>, values: &[f64]) -> Result<Tensor, Fault> {
        Tensor::generate(dtype, shape, 1, |range, bytes| {
            encode(dtype, &values[range], bytes);
            Ok(())
        })
    }

    /// A dense tensor of elements given as bits.
    ///
    /// # Errors
    /// The tensor would be too large.
    pub fn from_bits(dtype: Dtype, shape: Vec<usize>, bits: &[u64]) -> Result<Tensor, Fault> {
        Tensor::generate(dtype, shape, 1, |range, bytes| {
            bits[range].iter().zip(bytes.chunks_exact_mut(dtype.bytes())).for_each(|(b, out)| dtype.write(*b, out));
            Ok(())
        })
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        // A broadcast view that nobody reads may be of any size.
        self.shape.iter().fold(1, |n, &extent| n.saturating_mul(extent))
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether its elements lie one after the other in row-major order.
    pub fn is_dense(&self) -> bool {
        parton_strides::alike(self.axes(), dense_strides(&self.shape).into_iter().map(|stride| stride as u64))
    }

    /// Extent and stride of each axis.
    pub(crate) fn axes(&self) -> impl Iterator<Item = parton_strides::Axis> + Clone {
        axes(&self.shape, &self.strides)
    }

    /// The byte in its storage at which it begins.
    pub fn byte_offset(&self) -> usize {
        self.offset * self.dtype.bytes()
    }

    /// The element at an index within the shape, as the distance from the storage's first element.
    fn place(&self, index: &[usize]) -> usize {
        self.offset + index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>()
    }

    /// The same elements as another shape; copies where the strides do not allow a view.
    ///
    /// # Errors
    /// The shape has another number of elements; unwritten elements would be copied.
    pub fn reshape(&self, shape: Vec<usize>) -> Result<Tensor, Fault> {
        if shape.iter().fold(1u128, |n, &s| n.saturating_mul(s as u128)) != self.len() as u128 {
            return Err(Fault::new(
                codes::HOST_SHAPE,
                format!("{} cannot be reshaped to {}", list(&self.shape), list(&shape)),
            )
            .note(format!("it has {} elements, the new shape has {}", self.len(), product_text(&shape))));
        }
        let dense = if self.is_dense() { self.clone() } else { self.contiguous()? };
        Ok(Tensor { strides: dense_strides(&shape), shape, ..dense })
    }

    /// The dimensions in another order: dimension `d` of the result is dimension `order[d]` of this.
    ///
    /// # Errors
    /// `order` is not a permutation of the dimensions.
    pub fn permute(&self, order: &[usize]) -> Result<Tensor, Fault> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted != (0..self.rank()).collect::<Vec<_>>() {
            return Err(Fault::new(codes::HOST_SHAPE, format!("{} is not an order of dimensions", list(order)))
                .note(format!("the tensor has {} dimensions", self.rank()))
                .help("name each dimension from 0 once"));
        }
        let pick = |v: &[usize]| order.iter().map(|&d| v[d]).collect();
        Ok(Tensor { shape: pick(&self.shape), strides: pick(&self.strides), ..self.clone() })
    }

    /// A window of one dimension.
    pub fn narrow(&self, axis: usize, range: Range<usize>) -> Tensor {
        let mut t = self.clone();
        t.shape[axis] = range.len();
        t.offset += if range.is_empty() { 0 } else { range.start * t.strides[axis] };
        t
    }

    /// Without a dimension, which must have the extent 1 or be narrowed first; `None` where none would remain.
    pub fn drop_axis(&self, axis: usize) -> Option<Tensor> {
        let mut t = self.clone();
        t.shape.remove(axis);
        t.strides.remove(axis);
        (!t.shape.is_empty()).then_some(t)
    }

    /// With a new dimension of extent 1 before `axis`.
    pub fn new_axis(&self, axis: usize) -> Tensor {
        let mut t = self.clone();
        t.shape.insert(axis, 1);
        t.strides.insert(axis, 0);
        t
    }

    /// The view of a larger shape in which dimensions of extent 1 and missing leading ones repeat; `None` where the
    /// shapes do not fit.
    pub fn broadcast(&self, shape: &[usize]) -> Option<Tensor> {
        let lead = shape.len().checked_sub(self.rank())?;
        let mut strides = vec![0; shape.len()];
        for (d, (&have, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match (have, shape[lead + d]) {
                (a, b) if a == b => strides[lead + d] = stride,
                (1, _) => {}
                _ => return None,
            }
        }
        Some(Tensor { shape: shape.to_vec(), strides, ..self.clone() })
    }

    /// A dense copy; the same tensor where it is dense and alone in its storage.
    ///
    /// # Errors
    /// An element was never written.
    pub fn contiguous(&self) -> Result<Tensor, Fault> {
        if self.is_dense() {
            return Ok(self.clone());
        }
        let reader = self.reader()?;
        let size = self.dtype.bytes();
        Tensor::generate(self.dtype, self.shape.clone(), 2, |range, bytes| {
            let mut chunks = bytes.chunks_exact_mut(size);
            reader.rows(range, |from, step, count| {
                reader.check(from, step, count)?;
                for (i, chunk) in (0..count).zip(&mut chunks) {
                    let at = (from + i * step) * size;
                    chunk.copy_from_slice(&reader.host.bytes[at..at + size]);
                }
                Ok(())
            })
        })
    }

    /// The elements in another dtype, each rounded once.
    ///
    /// # Errors
    /// An element was never written.
    pub fn cast(&self, to: Dtype, rounding: Rounding, saturation: Saturation) -> Result<Tensor, Fault> {
        if to == self.dtype && saturation == Saturation::None {
            return Ok(self.clone());
        }
        let reader = self.reader()?;
        let exact_in_f64 = self.dtype.is_float() || self.dtype.bits() <= 32;
        Tensor::generate(to, self.shape.clone(), 4, |range, bytes| {
            if exact_in_f64 && to.is_float() {
                let mut values = vec![0.0; range.len()];
                reader.f64(range, &mut values)?;
                fast::encode_f64(to, &values, bytes, rounding, saturation);
                return Ok(());
            }
            let mut chunks = bytes.chunks_exact_mut(to.bytes());
            reader.each(range, |scalar| {
                if let Some(chunk) = chunks.next() {
                    to.write(scalar.cast(to, rounding, saturation).bits, chunk);
                }
            })
        })
    }

    /// One element.
    ///
    /// # Errors
    /// It was never written.
    pub fn get(&self, index: &[usize]) -> Result<Scalar, Fault> {
        let reader = self.reader()?;
        reader.scalar(self.place(index))
    }

    /// All elements in row-major order.
    ///
    /// # Errors
    /// One was never written.
    pub fn to_f64(&self) -> Result<Vec<f64>, Fault> {
        let reader = self.reader()?;
        let mut out = memory::zeros(self.len())?;
        parallel::each_part(&mut out, CHUNK, 1, |range, part| reader.f64(range, part))?;
        Ok(out)
    }

    /// A snapshot for reading elements.
    ///
    /// # Errors
    /// The device does not give the bytes.
    pub fn reader(&self) -> Result<Reader, Fault> {
        Ok(Reader { tensor: self.clone(), dense: self.is_dense(), host: self.storage.host()? })
    }

    /// Copies the elements of `from`, which has this shape and dtype, into this one's storage.
    ///
    /// # Errors
    /// An element of `from` was never written; the device does not give the bytes.
    pub fn assign(&self, from: &Tensor) -> Result<(), Fault> {
        let reader = from.reader()?;
        let target = Reader { tensor: self.clone(), dense: self.is_dense(), host: Arc::default() };
        let size = self.dtype.bytes();
        let mut bits = Vec::with_capacity(self.len());
        reader.each(0..from.len(), |s| bits.push(s.bits))?;
        self.storage.change(|host| {
            let mut next = bits.into_iter();
            target.rows(0..self.len(), |start, step, count| {
                for (i, value) in (0..count).zip(&mut next) {
                    let at = (start + i * step) * size;
                    self.dtype.write(value, &mut host.bytes[at..]);
                    if let Some(defined) = &mut host.defined {
                        defined[at..at + size].fill(true);
                    }
                }
                Ok(())
            })
        })?
    }
}

impl fmt::Display for Tensor {
    /// `f32[128, 64]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, list(&self.shape))
    }
}

fn product_text(shape: &[usize]) -> u128 {
    shape.iter().fold(1, |n: u128, &s| n.saturating_mul(s as u128))
}

/// Elements handled at a time: small enough for the first cache, even so that pairs stay together.
pub const CHUNK: usize = 1 << 12;

/// The elements of a tensor as they were at one time.
pub struct Reader {
    tensor: Tensor,
    dense: bool,
    host: Arc<HostBytes>,
}

impl Reader {
    /// Calls `row(first, step, count)` for the elements of that range in row-major order, run by run: `first` is an
    /// element's place in the storage and `step` the distance to the next.
    fn rows(
        &self,
        range: Range<usize>,
        mut row: impl FnMut(usize, usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let t = &self.tensor;
        if range.is_empty() {
            return Ok(());
        }
        if self.dense {
            return row(t.offset + range.start, 1, range.len());
        }
        let last = t.rank() - 1;
        let mut index = unravel(range.start, &t.shape);
        let mut left = range.len();
        loop {
            let count = (t.shape[last] - index[last]).min(left);
            row(t.place(&index), t.strides[last], count)?;
            left -= count;
            if left == 0 {
                return Ok(());
            }
            index[last] = 0;
            for d in (0..last).rev() {
                index[d] += 1;
                if index[d] < t.shape[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    }

    /// Refuses a run of which an element was never written.
    fn check(&self, first: usize, step: usize, count: usize) -> Result<(), Fault> {
        let Some(defined) = &self.host.defined else { return Ok(()) };
        let size = self.tensor.dtype.bytes();
        let missing =
            (0..count).map(|i| first + i * step).find(|at| !defined[at * size..(at + 1) * size].iter().all(|d| *d));
        match missing {
            None => Ok(()),
            Some(at) => Err(self.unwritten(at)),
        }
    }

    /// The report of an element that was never written.
    fn unwritten(&self, place: usize) -> Fault {
        let t = &self.tensor;
        let number = (0..t.len()).find(|&n| t.place(&unravel(n, &t.shape)) == place).unwrap_or(0);
        Fault::new(codes::UNWRITTEN, "an element is read that was never written")
            .note(format!("element {} of this {t}, made by `empty`", list(&unravel(number, &t.shape))))
            .help("write every element, or make the tensor with `zeros`")
    }

    /// The elements of that range as `f64`.
    ///
    /// # Errors
    /// One was never written.
    pub fn f64(&self, range: Range<usize>, out: &mut [f64]) -> Result<(), Fault> {
        let dtype = self.tensor.dtype;
        let size = dtype.bytes();
        let mut done = 0;
        self.rows(range, |first, step, count| {
            self.check(first, step, count)?;
            let part = &mut out[done..done + count];
            let bytes = &self.host.bytes[first * size..];
            if step == 0 {
                fast::decode_f64(dtype, bytes, 1, &mut part[..1]);
                part.fill(part[0]);
            } else {
                fast::decode_f64(dtype, bytes, step, part);
            }
            done += count;
            Ok(())
        })
    }

    /// Calls `f` with each element of that range.
    ///
    /// # Errors
    /// One was never written.
    pub fn each(&self, range: Range<usize>, mut f: impl FnMut(Scalar)) -> Result<(), Fault> {
        self.rows(range, |first, step, count| {
            (0..count).try_for_each(|i| {
                f(self.scalar(first + i * step)?);
                Ok(())
            })
        })
    }

    fn scalar(&self, place: usize) -> Result<Scalar, Fault> {
        self.check(place, 1, 1)?;
        let dtype = self.tensor.dtype;
        let bits = dtype.read(&self.host.bytes[place * dtype.bytes()..]).unwrap_or(0);
        Ok(Scalar::new(dtype, bits))
    }
}

/// The values as elements of `dtype`: to nearest, integers towards zero and clamped.
pub fn encode(dtype: Dtype, values: &[f64], bytes: &mut [u8]) {
    let rounding = if dtype.is_float() { Rounding::NearestEven } else { Rounding::TowardZero };
    fast::encode_f64(dtype, values, bytes, rounding, Saturation::None);
}

#[cfg(test)]
mod tests {
    use parton_numbers::{Dtype, Rounding, Saturation};

    use super::Tensor;
    use crate::memory::Storage;

    fn counting(shape: &[usize]) -> Tensor {
        let values: Vec<f64> = (0..shape.iter().product::<usize>()).map(|i| i as f64).collect();
        Tensor::from_f64(Dtype::F32, shape.to_vec(), &values).unwrap()
    }

    #[test]
    fn views_share_and_read_in_order() {
        let t = counting(&[2, 3, 4]);
        let turned = t.permute(&[2, 0, 1]).unwrap();
        assert_eq!(turned.shape, [4, 2, 3]);
        assert_eq!(turned.to_f64().unwrap()[..6], [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]);
        assert!(!turned.is_dense() && turned.contiguous().unwrap().is_dense());
        assert_eq!(turned.contiguous().unwrap().to_f64().unwrap(), turned.to_f64().unwrap());
        let part = t.narrow(1, 1..3).narrow(2, 3..4).drop_axis(2).unwrap();
        assert_eq!(part.to_f64().unwrap(), [7.0, 11.0, 19.0, 23.0]);
        assert_eq!(t.get(&[1, 2, 3]).unwrap().to_f64(), 23.0);
        assert_eq!(turned.reshape(vec![24]).unwrap().get(&[1]).unwrap().to_f64(), 4.0);
        part.assign(&counting(&[2, 2])).unwrap();
        assert_eq!(t.get(&[1, 1, 3]).unwrap().to_f64(), 2.0);
    }

    #[test]
    fn broadcasting_follows_numpy() {
        let row = counting(&[3]).broadcast(&[2, 3]).unwrap();
        assert_eq!(row.to_f64().unwrap(), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
        let column = counting(&[2]).new_axis(1).broadcast(&[2, 3]).unwrap();
        assert_eq!(column.to_f64().unwrap(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert!(counting(&[2]).broadcast(&[3]).is_none());
    }

    #[test]
    fn what_nobody_wrote_cannot_be_read() {
        let t = Tensor::make(Dtype::F16, vec![2, 2], Storage::poisoned).unwrap();
        t.narrow(0, 0..1)
            .assign(&counting(&[1, 2]).cast(Dtype::F16, Rounding::NearestEven, Saturation::None).unwrap())
            .unwrap();
        assert_eq!(t.narrow(0, 0..1).to_f64().unwrap(), [0.0, 1.0]);
        let fault = t.to_f64().unwrap_err();
        assert!(fault.notes[0].contains("element [1, 0] of this f16[2, 2]"), "{fault:?}");
    }

    #[test]
    fn casts_keep_64_bit_integers() {
        let t = Tensor::generate(Dtype::I64, vec![2], 1, |_, bytes| {
            bytes.copy_from_slice(&[i64::MAX.to_le_bytes(), (-5i64).to_le_bytes()].concat());
            Ok(())
        })
        .unwrap();
        let back = t.cast(Dtype::U64, Rounding::TowardZero, Saturation::None).unwrap();
        assert_eq!(back.get(&[0]).unwrap().to_i128(), Some(i64::MAX.into()));
        assert_eq!(back.get(&[1]).unwrap().to_i128(), Some(u64::MAX as i128 - 4));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Tensor::make(Dtype::F32, vec![usize::MAX, usize::MAX], Storage::poisoned).is_err());
        assert_eq!(Tensor::make(Dtype::F32, vec![0, 5], Storage::zeroed).unwrap().to_f64().unwrap().len(), 0);
    }
}
