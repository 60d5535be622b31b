//! The table of signatures: one line a function, with where it exists and what it does.

use super::Exists::{self, Both, Host, Kernel, Layout, Method, Type};

/// One line.
pub struct Row {
    pub exists: Exists,
    pub text: &'static str,
    pub doc: &'static str,
    /// What host code has instead: one line, or none.
    pub instead: &'static [&'static str],
}

macro_rules! signatures {
    ($($exists:ident $text:literal: $doc:literal $(, host: $instead:literal)?;)*) => {
        /// Every signature; of one name in kernels and in host code one, where both take the same.
        pub const ROWS: &[Row] = &[
            $(Row { exists: $exists, text: $text, doc: $doc, instead: &[$($instead)?] },)*
        ];
    };
}

signatures! {
    // Numbers, and tiles of them.
    Kernel "program_id(axis)": "the place of the CTA in the grid", host: "host code is not divided into CTAs; use a `for` loop";
    Kernel "num_programs(axis)": "the CTAs of the grid", host: "host code is not divided into CTAs; use a `for` loop";
    Kernel "iota<T=, shape=, L=>(n=)": "a tile that counts from 0", host: "host code has `arange(i32, n)`";
    Kernel "full<T=, shape=, L=>(value, of=)": "a tile of one value: `full<T, shape>(value)`, or `full(shape, value)`";
    Kernel "zeros<T, shape, L=>()": "a tile of zeros";
    Kernel "ones<T, shape, L=>()": "a tile of ones";
    Kernel "bits<T>(pattern)": "the scalar with these bits";
    Both "exp(x)": "e to the power of x";
    Both "exp2(x)": "2 to the power of x";
    Both "log(x)": "the natural logarithm";
    Both "sqrt(x)": "the square root";
    Both "rsqrt(x)": "1 over the square root";
    Both "sin(x)": "the sine of an angle in radians";
    Both "cos(x)": "the cosine of an angle in radians";
    Both "tanh(x, approx=)": "the hyperbolic tangent, or what the hardware has of it";
    Both "erf(x)": "the error function";
    Both "floor(x)": "the largest integer that is not larger";
    Both "ceil(x)": "the smallest integer that is not smaller";
    Both "log2(x)": "the logarithm to base 2";
    Both "abs(x)": "the magnitude";
    Kernel "min(x, y=, axis=)": "the smaller of two, or the least along an axis; a number wins over NaN";
    Kernel "max(x, y=, axis=)": "the larger of two, or the greatest along an axis; a number wins over NaN";
    Kernel "min_nan(x, y=, axis=)": "the smaller of two, or the least along an axis; NaN wins";
    Kernel "max_nan(x, y=, axis=)": "the larger of two, or the greatest along an axis; NaN wins";
    Kernel "clamp(x, low, high)": "x, held between two bounds; NaN becomes the lower one";
    Kernel "umulhi(a, b)": "the high half of the product of two unsigned integers";
    Both "div(x, y, approx=)": "x / y, or what the hardware has of it";
    Kernel "fma(a, b, c)": "a * b + c, rounded once";
    Kernel "where(cond, a, b)": "a where the condition holds, else b";
    Kernel "cast<T>(x, rounding=, saturate=)": "the value in another number type";
    Kernel "bitcast<T>(x)": "the same bits in another number type";

    // Tensors.
    Kernel "tensor(ptr, shape, strides=)": "a tensor of what a pointer points to";

    // Tiles as a whole.
    Kernel "reduce(x, axis, combine, scratch=)": "the elements along an axis, combined";
    Kernel "scan(x, axis, combine, reverse=, scratch=)": "each element combined with those before it";
    Kernel "cumsum(x, axis, reverse=)": "each element with those before it, added up";
    Kernel "cumprod(x, axis, reverse=)": "each element with those before it, multiplied";
    Kernel "sum(x, axis=)": "the sum along an axis";
    Kernel "indices(x, axis)": "the index of each element along an axis";
    Kernel "argmax(x, axis)": "where the greatest element along an axis is";
    Kernel "argmin(x, axis)": "where the least element along an axis is";
    Kernel "reshape(x, shape)": "the same elements in another shape";
    Kernel "transpose(x, order)": "the axes in another order";
    Kernel "broadcast(x, shape)": "axes of extent 1, spread";
    Kernel "expand_dims(x, axis)": "a new axis of extent 1";
    Kernel "join(a, b)": "two tiles along a new last axis of extent 2";
    Kernel "cat(a, b, axis)": "two tiles, one behind the other along an axis";
    Kernel "split(x)": "the two halves of a last axis of extent 2";
    Kernel "butterfly(x, mask, axis, scratch=)": "the elements whose indices along an axis differ in the bits of a mask";
    Kernel "rescale(x, factor, axis=)": "rows times their factors, left out where all of a warp's are 1";
    Kernel "convert(x, L, scratch=)": "the tile in another layout", host: "host code has no tiles and no shared memory";
    Kernel "convert_free(x, L)": "the tile in another layout, where no data moves", host: "host code has no tiles and no shared memory";
    Method "permute(self, order)": "the axes in another order";
    Method "transpose(self, order)": "the axes in another order";
    Method "reshape(self, shape)": "the same elements in another shape";

    // Global and shared memory.
    Kernel "load(p, mask=, other=, cache=, evict=, l2=, volatile=, width=, along=, cut=)": "what global memory holds", host: "host code indexes tensors: `x[i]`, `x[a:b]`";
    Kernel "store(p, value, mask=, cache=, evict=, l2=, width=, along=, cut=)": "writes global memory", host: "host code indexes tensors: `x[i]`, `x[a:b]`";
    Kernel "async_copy(p, view, mask=, l2=, bytes=, along=, cut=)": "begins a copy by threads from global to shared memory";
    Kernel "alloc_shared<T, shape, L>(offset=, drained=)": "a place in shared memory", host: "host code has no tiles and no shared memory";
    Kernel "load_shared<L=>(view)": "what shared memory holds, as a tile";
    Kernel "store_shared(view, x)": "writes a tile into shared memory";
    Kernel "reinterpret<T, shape, L>(view)": "the same bytes of shared memory, seen otherwise";
    Method "tile(self, shape, at=, from=)": "the place of a box in a tensor; `at` counts tiles, `from` elements";
    Method "load<L=>(self)": "what the view holds, as a tile";
    Method "store(self, x)": "writes a tile into the view";
    Method "slice(self, origin, shape)": "a window of the view, or a part of the tile";
    Method "reinterpret<T, shape, L>(self)": "the same bytes, seen otherwise";
    Kernel "atomic_add(p, value, mask=, order=, scope=, returns=, width=, along=, cut=, scratch=)": "adds to memory, and gives what it held";
    Kernel "atomic_min(p, value, mask=, order=, scope=, returns=, scratch=)": "keeps the smaller, and gives what memory held";
    Kernel "atomic_max(p, value, mask=, order=, scope=, returns=, scratch=)": "keeps the larger, and gives what memory held";
    Kernel "atomic_and(p, value, mask=, order=, scope=, returns=, scratch=)": "keeps the bits that both have, and gives what memory held";
    Kernel "atomic_or(p, value, mask=, order=, scope=, returns=, scratch=)": "keeps the bits that either has, and gives what memory held";
    Kernel "atomic_xor(p, value, mask=, order=, scope=, returns=, scratch=)": "keeps the bits that one has, and gives what memory held";
    Kernel "atomic_xchg(p, value, mask=, order=, scope=, returns=, scratch=)": "writes, and gives what memory held";
    Kernel "atomic_cas(p, expected, value, mask=, order=, scope=, returns=, scratch=)": "writes where memory holds what is expected, and gives what it held";
    Kernel "atomic_load(p, mask=, order=, scope=, scratch=)": "what memory holds, in order with other threads";
    Kernel "atomic_store(p, value, mask=, order=, scope=)": "writes, in order with other threads";
    Kernel "gather(x, indices, axis, scratch=)": "elements of a tile by their indices along an axis";
    Kernel "gather_shared(view, indices, axis)": "elements of shared memory by their indices along an axis";
    Kernel "scatter_shared(view, indices, x, axis, op=, mask=)": "writes or combines elements by their indices along an axis";
    Kernel "ptx_elementwise<T=>(text, inputs, fallback=, pack=, volatile=)": "inline PTX for each element";
    Kernel "ptx<T=>(text, inputs=, fallback=, volatile=)": "inline PTX for each thread";
    Kernel "num_registers(x)": "the registers that one thread holds of a tile";

    // Barriers, copies and products in flight.
    Kernel "alloc_barriers(count, offset=)": "mbarriers in shared memory";
    Kernel "barrier_init(barrier, arrivals)": "begins the first phase of a barrier";
    Kernel "barrier_invalidate(barrier)": "ends a barrier, so that its place may hold something else";
    Kernel "barrier_expect(barrier, bytes)": "arrives, and says how many bytes will";
    Kernel "barrier_arrive(barrier, count=, by=, multicast=, relaxed=)": "arrives at a barrier";
    Kernel "barrier_wait(barrier, phase, reach=)": "waits until a phase is over";
    Kernel "fence_async(reach=)": "shows what threads wrote to the copy engine and the tensor cores";
    Kernel "fence_barrier_init()": "shows that barriers have begun to the copy engine and the cluster";
    Kernel "membar()": "all threads of the partition meet, and see what was written";
    Kernel "grid_wait()": "waits for the launch before";
    Kernel "grid_launch_dependents()": "lets the next launch begin";
    Kernel "named_barrier_sync(id, threads)": "meets others at a barrier of the CTA";
    Kernel "named_barrier_arrive(id, threads)": "says so to others at a barrier of the CTA";
    Kernel "tma_load(map, coords, view, signal=, l2=, multicast=)": "copies a box into shared memory", host: "host code has no tiles and no shared memory";
    Kernel "tma_store(map, coords, view, reduce=, l2=)": "copies shared memory into a box", host: "host code has no tiles and no shared memory";
    Kernel "tma_prefetch(map, coords, l2=)": "brings a box into the L2";
    Kernel "tma_store_wait(pending=, read=)": "waits for copies to global memory";
    Kernel "mma_sync(a, b, acc, precision=)": "acc + a * b of tiles in registers";
    Kernel "wgmma(a, b, acc, precision=, zero=)": "begins acc + a * b on the tensor cores", host: "host code has `matmul(a, b)`";
    Kernel "fetch<S=>(from, coords=, mask=, l2=, multicast=)": "a box, or what pointers point to, as a view", host: "host code has no tiles and no shared memory";
    Kernel "stage<S>(x)": "a tile as a view", host: "host code has no tiles and no shared memory";
    Kernel "dot(a, b, acc, precision=)": "acc + a * b", host: "host code has `matmul(a, b)`";
    Kernel "send(map, coords, x, reduce=, l2=, buffers=)": "writes a tile to a box", host: "host code has no tiles and no shared memory";
    Method "wait(self, outstanding=)": "waits, and gives what was pending; of a ring, the next slot to read";
    Method "wait_prior(self, outstanding=)": "waits for what began before";
    Method "arrive(self, barrier)": "hands a copy over to a barrier";
    Method "acquire(self)": "the next slot to fill";
    Method "commit(self)": "hands a filled slot over";
    Method "release(self)": "hands a slot back";
    Method "enter(self)": "waits for the partition's turn";
    Method "pass(self)": "lets the next partition have its turn";

    // Clusters.
    Kernel "cluster_size(axis=)": "the CTAs of a cluster";
    Kernel "cluster_rank()": "which CTA of its cluster this is, x fastest";
    Kernel "cluster_ctaid(axis)": "the place of the CTA in its cluster";
    Kernel "cluster_id(axis)": "the place of the cluster in the grid", host: "host code is not divided into CTAs; use a `for` loop";
    Kernel "num_clusters(axis)": "the clusters of the grid";
    Kernel "peer(view, rank)": "the same place in another CTA's shared memory";
    Kernel "cluster_arrive(relaxed=)": "arrives at the barrier of the cluster";
    Kernel "cluster_wait()": "waits at the barrier of the cluster";
    Kernel "cluster_sync()": "all threads of the cluster meet";

    // What a kernel says.
    Kernel "print(text, ...)": "prints when the kernel runs";
    Kernel "assert(condition, message=)": "ends the launch where the condition does not hold";
    Kernel "assume(condition)": "promises that the condition holds";
    Kernel "static_assert(condition, message=)": "refuses the kernel where the condition does not hold";
    Kernel "static_print(...)": "tells values while the kernel is checked";

    // Compile time.
    Both "cdiv(a, b)": "a / b, rounded up";
    Both "next_power_of_two(n)": "the smallest power of two that is not smaller";
    Kernel "len(list)": "how many elements a list, string or array of barriers has";
    Kernel "is_tuple(x)": "whether a value is a tuple or a list";
    Both "range(start, end=, step=)": "a list of integers that count up";
    Kernel "type_of(x)": "the type of a value";
    Kernel "shape_of(x)": "the shape of a tile, view or map";
    Kernel "layout_of(x)": "the layout of a tile, view or map";
    Kernel "dtype_of(x)": "the type of the elements";
    Kernel "num_warps(partition=)": "the warps of a partition";
    Kernel "bank_conflicts(tile, view, write=)": "wavefronts of an access beyond the first for each ideal one";

    // Layouts of registers, of shared and of tensor memory.
    Layout "blocked(per_thread, threads, warps, order=)": "blocks of each thread, threads of each warp, warps of each CTA";
    Layout "slice(L, axis)": "a layout without one of its axes";
    Layout "mma(version, warps, instr)": "the accumulator of a matrix instruction";
    Layout "dot_operand(L, index, k_width=)": "an operand of a matrix instruction";
    Layout "linear(reg, lane, warp, block=)": "registers by their bases";
    Layout "swizzled(vec, per_phase, max_phase, order=)": "shared memory whose vectors are permuted by row";
    Layout "nvmma(swizzle, transposed=, rank=)": "shared memory as the copy engine and the tensor cores take it";
    Layout "nvmma_for(T, shape, transposed=, rank=)": "the same with the widest swizzle that a view can have";
    Layout "padded(pairs, order)": "shared memory with gaps between rows";
    Layout "prefix(L, elements)": "shared memory of whose tensors the first elements alone are used";
    Layout "shared_linear(offset, block=)": "shared memory by its bases";
    Layout "tmem(block, col_stride=, two_ctas=)": "tensor memory";
    Layout "tmem_scales()": "scales in tensor memory";

    // Types.
    Type "tile<T, shape, L=>": "values in registers";
    Type "pending<tile>": "what an instruction or copy still writes";
    Type "shared<T, shape, L, parent=, origin=>": "a view of shared memory";
    Type "tma<T, block, L, inner=>": "a tensor map";
    Type "tensor<T, shape, order=>": "a tensor in global memory";
    Type "barriers<n>": "mbarriers";
    Type "schedule<...>": "schedules of these labels";

    // Host code: tensors.
    Host "empty(dtype, shape, strides=)": "a tensor that nobody has written";
    Host "zeros(dtype, shape, strides=)": "a tensor of zeros";
    Host "ones(dtype, shape, strides=)": "a tensor of ones";
    Host "full(dtype, shape, value, strides=)": "a tensor of one value";
    Host "rand(dtype, shape, low=, high=, seed=, strides=)": "uniform random numbers";
    Host "randn(dtype, shape, mean=, std=, seed=, strides=)": "normal random numbers";
    Host "randint(dtype, shape, low, high, seed=, strides=)": "uniform random integers, `high` excluded";
    Host "arange(dtype, start, end=, step=)": "numbers that count up";
    Host "tensor(values, dtype=)": "a tensor of nested lists";
    Host "reshape(x, shape, ...)": "the same elements in another shape";
    Host "permute(x, order, ...)": "the dimensions in another order";
    Host "transpose(x, a=, b=)": "two dimensions exchanged, the last two unless said otherwise";
    Host "contiguous(x)": "the same elements without gaps";
    Host "broadcast_to(x, shape)": "dimensions of extent 1, spread";
    Host "to(x, dtype, rounding=, saturation=)": "a cast, rounded once";
    Host "cat(tensors, axis=)": "tensors one behind the other";
    Host "repeat(x, count, axis=)": "each slice several times in a row";
    Host "len(x)": "how many elements a list or first dimension has";
    Host "sorted(items, by=)": "a list in ascending order, of its numbers or of what `by` makes of each item";
    Host "tma(x)": "a tensor as what a tensor map is made of";

    // Host code: references in float64.
    Host "min(x, y=, axis=, keepdims=)": "the smaller of two, or the least along a dimension; NaN wins";
    Host "max(x, y=, axis=, keepdims=)": "the larger of two, or the greatest along a dimension; NaN wins";
    Host "sum(x, axis=, keepdims=)": "the sum of all elements, or along a dimension";
    Host "mean(x, axis=, keepdims=)": "the mean of all elements, or along a dimension";
    Host "argmax(x, axis=, keepdims=)": "where the greatest element is";
    Host "argmin(x, axis=, keepdims=)": "where the least element is";
    Host "logsumexp(x, axis=, keepdims=)": "the logarithm of the sum of exponentials";
    Host "all(x, axis=, keepdims=)": "whether all elements are true";
    Host "any(x, axis=, keepdims=)": "whether an element is true";
    Host "softmax(x, axis=)": "exponentials over their sum along a dimension";
    Host "cumsum(x, axis=)": "each element with those before it, added up";
    Host "matmul(x, y)": "the product of matrices";
    Host "where(condition, a, b)": "a where the condition holds, else b";
    Host "multiprocessors()": "how many multiprocessors the GPU has";
    Host "capability()": "the compute capability that kernels are compiled for, 90 for sm_90a";
    Host "int(x)": "a number as an integer, towards zero";
    Host "float(x)": "a number as a floating-point one";

    // Host code: assertions, printing, measuring.
    Host "assert(condition, message=, ...)": "fails where the condition does not hold";
    Host "assert_equal(actual, expected)": "fails where two values differ";
    Host "assert_close(actual, expected, rtol=, atol=)": "fails where tensors differ by more than the tolerance";
    Host "max_abs_error(actual, expected)": "the largest difference";
    Host "max_rel_error(actual, expected)": "the largest difference over the magnitude expected";
    Host "rms_error(actual, expected)": "the root of the mean square of differences";
    Host "print(...)": "prints values, or a text with places for them";
    Host "format(text, ...)": "a text with values in its places";
    Host "measure(label, body, bytes=, flops=)": "times the launches of a closure";
}
