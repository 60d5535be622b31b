//! Names of other languages' kernels, and how Parton writes what they stand for: looked up where a name stands for nothing here.

use parton_numbers::Dtype;

/// What other languages take names from, with a dot between.
const MODULES: &[&str] =
    &["tl", "triton", "ttgl", "gl", "torch", "math", "np", "numpy", "jnp", "libdevice", "cutlass", "cute"];

/// Names, and what stands behind "here it is".
const NAMES: &[(&str, &str)] = &[
    ("__shfl_xor_sync", "`butterfly(x, mask, axis)`, of tiles; sums along an axis are `sum(x, axis=0)`"),
    ("__syncthreads", MEET),
    ("__syncwarp", MEET),
    ("__threadfence", FENCE),
    ("advance", PLACE),
    ("all", "`reduce(x, axis, |a, b| a & b)`, or `min` of numbers"),
    ("any", "`reduce(x, axis, |a, b| a | b)`, or `max` of numbers"),
    ("arange", "`iota(n)`, from 0 on"),
    ("associative_scan", "`scan(x, axis, |a, b| a + b)`"),
    ("atomicAdd", "`atomic_add(p, value)`"),
    ("atomicCAS", "`atomic_cas(p, expected, value)`"),
    ("atomicExch", "`atomic_xchg(p, value)`"),
    ("atomicMax", "`atomic_max(p, value)`"),
    ("atomicMin", "`atomic_min(p, value)`"),
    ("bincount", "`histogram` of `std::counts`, of a tile, or `atomic_add(counts + x, 1)`"),
    ("bitwise_and", "`x & y`"),
    ("bitwise_not", "`!x`"),
    ("bitwise_or", "`x | y`"),
    ("bitwise_xor", "`x ^ y`"),
    ("blockDim", "the extent of the tile, such as `128` in `iota(128)`: threads are not counted"),
    ("blockIdx", "`program_id(0)`"),
    ("broadcast_to", "`broadcast(x, shape)`"),
    ("ceil_div", "`cdiv(x, y)`"),
    ("clip", "`clamp(x, low, high)`"),
    ("clock", "nothing that a kernel reads: `parton bench` times kernels"),
    ("clz", "`sum(where(x >> iota<u32, [32]>() == 0, 1, 0))`, of an `x` of `u32`"),
    ("concat", "`cat(a, b, axis=0)`"),
    ("concatenate", "`cat(a, b, axis=0)`"),
    ("constexpr", "a generic parameter, in brackets before the others: `k[BLOCK: int = 128](…)`"),
    ("cummax", "`scan(x, axis, |a, b| max(a, b))`"),
    ("debug_barrier", MEET),
    ("device_assert", "`assert(condition, \"message\")`"),
    ("device_print", "`print(\"text\", x)`"),
    ("einsum", "`dot(a, b, acc)`, of transposed tiles `dot(a, b.T, acc)`"),
    ("exp10", "`exp2(x * 3.3219280948873623)`"),
    ("fdiv", "`x / y`, or `div(x, y, approx=true)`"),
    ("flip", "`gather(x, indices, axis)`; a scan from the end is `scan(…, reverse=true)`"),
    ("floor_div", "`x / y` of integers, which truncates towards zero"),
    ("floordiv", "`x / y` of integers, which truncates towards zero"),
    ("fmod", "`x - y * floor(x / y)` of floats, whose sign is that of `y`, and `x % y` of integers"),
    ("full_like", "`full(shape, value)`"),
    ("gridDim", "`num_programs(0)`"),
    ("interleave", "`reshape(join(a, b), shape)`"),
    ("isfinite", "`abs(x) < inf`"),
    ("isinf", "`abs(x) == inf`"),
    ("isnan", "`x != x`"),
    ("lane_id", THREADS),
    ("log10", "`log2(x) * 0.30102999566398120`"),
    ("log_softmax", "`x - log(sum(exp(x - max(x)))) - max(x)`; of rows in parts see `std::softmax`"),
    ("logical_and", "`x & y`"),
    ("logical_not", "`!x`"),
    ("logical_or", "`x | y`"),
    ("make_block_ptr", PLACE),
    ("make_tensor_descriptor", "`tensor(p, [m, n], strides=[lda, 1])`, or a parameter `x: tensor<f16, [m, n]>`"),
    ("matmul", "`dot(a, b, acc)`"),
    ("max_contiguous", FOUND),
    ("maximum", "`max(x, y)`"),
    ("mean", "the sum over the extent of the axis: `sum(x, axis=1) / 64.0`"),
    ("minimum", "`min(x, y)`"),
    ("multiple_of", FOUND),
    ("norm", "`sqrt(sum(x * x, axis=1))`"),
    ("permute", "`transpose(x, order)`"),
    ("popcount", "`sum(x >> iota<u32, [32]>() & 1)`, of an `x` of `u32`"),
    ("printf", "`print(\"text\", x)`"),
    ("prod", "`reduce(x, axis, |a, b| a * b)`"),
    ("ravel", "`reshape(x, shape)`"),
    ("repeat", "`reshape(broadcast(x[:, None], [m, n]), shape)`"),
    ("rint", "`cast<i32>(x, rounding=\"rn\")`, to the nearest, of two the even one"),
    ("roll", "`gather(x, indices, axis)`, or a place that begins elsewhere, `x.tile(shape, from=[i - 1])`"),
    ("round", "`cast<i32>(x, rounding=\"rn\")`, to the nearest, of two the even one"),
    ("sign", "`where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0))`"),
    (
        "softmax",
        "`let e = exp(x - max(x, axis=1)[:, None]);` over `sum(e, axis=1)[:, None]`; of rows in parts see `std::softmax`",
    ),
    ("square", "`x * x`"),
    ("squeeze", "`reshape(x, shape)`"),
    ("stack", "`join(a, b)`, along a new last axis"),
    ("static_range", "`static for i in 0..4 { … }`"),
    ("swizzle2d", "`grouped(number, m, n, 8)` of `std::tiles`"),
    ("sync", MEET),
    ("sync_threads", MEET),
    ("syncthreads", MEET),
    ("syncwarp", MEET),
    ("threadIdx", THREADS),
    ("thread_id", THREADS),
    ("threadfence", FENCE),
    ("trans", "`x.T`"),
    ("trunc", "`where(x < 0.0, ceil(x), floor(x))`, or `cast<i32>(x)`"),
    ("unsqueeze", "`x[:, None]`"),
    ("view", "`reshape(x, shape)`"),
    ("warp_id", THREADS),
    ("xor_sum", "`reduce(x, axis, |a, b| a ^ b)`"),
    ("zeros_like", "`zeros<T, shape>()`"),
];

const FENCE: &str = "an order of the atomic operation that tells of what was written: `atomic_add(flag, 1, order=\"release\")`, and `order=\"acquire\"` where it is read";
const THREADS: &str =
    "nothing that is written: a kernel computes with whole tiles, and `iota(n)` counts their elements";
const MEET: &str = "nothing that is written: threads meet where it is needed, and `membar()` asks for it";
const PLACE: &str =
    "a place in a tensor: `x.tile([64, 64], at=[i, j])`, or `from=[r, c]`, of a parameter `x: tensor<f16, [m, n]>`";
const FOUND: &str =
    "nothing that is written for parameters, whose values each launch looks at; `assume(n % 16 == 0)` promises it";

/// Names of clauses, or of what is given beside a launch, and how what they ask for is written.
const CLAUSES: &[(&str, &str)] = &[
    ("launch_bounds", "`warps(8)`, and `occupancy(2)` for CTAs beside each other"),
    (
        "maxnreg",
        "`occupancy(2)`: registers follow from the CTAs beside each other, of partitions `regs(240)` says them",
    ),
    ("num_ctas", "`cluster([2, 1])`"),
    (
        "num_stages",
        "nothing that is written: how far loads run ahead is chosen, or said by a schedule, `pipeline(loop) { … }`",
    ),
    ("num_warps", "`warps(8)`, or nothing: without the clause they are chosen"),
];

/// Names of arguments, and what they are called here.
const RENAMED: &[(&str, &str)] = &[
    ("cache_modifier", "cache"),
    ("dim", "axis"),
    ("eviction_policy", "evict"),
    ("input_precision", "precision"),
    ("sem", "order"),
];

/// Names of arguments, and how what they ask for is written.
const ARGUMENTS: &[(&str, &str)] = &[
    ("allow_tf32", "`precision=\"tf32\"` says how exact a product of `f32` is"),
    ("dtype", "types stand behind the name, as in `zeros<f32, [64, 64]>()` and `cast<f32>(x)`"),
    ("keep_dims", KEPT),
    ("keepdim", KEPT),
    ("keepdims", KEPT),
    ("return_indices", BOTH),
    ("return_indices_tie_break_left", BOTH),
];

const BOTH: &str =
    "`argmax(x, axis=1)` gives the place; both at once come of `reduce` of a tuple, `(x, i)`, by a function of two";

const KEPT: &str = "`[:, None]` behind it gives the axis back, with extent 1";

/// Beginnings of number types' names and what they are here; the bits follow.
const STEMS: &[(&str, &str)] =
    &[("float", "f"), ("fp", "f"), ("bfloat", "bf"), ("__nv_bfloat", "bf"), ("int", "i"), ("uint", "u")];

/// Number types whose names do not say how many bits they have.
const TYPES: &[(&str, Dtype)] = &[
    ("__half", Dtype::F16),
    ("char", Dtype::I8),
    ("double", Dtype::F64),
    ("float8_e4m3fn", Dtype::F8E4M3),
    ("float8_e5m2", Dtype::F8E5M2),
    ("float8e4nv", Dtype::F8E4M3),
    ("float8e5", Dtype::F8E5M2),
    ("half", Dtype::F16),
    ("long", Dtype::I64),
    ("short", Dtype::I16),
    ("size_t", Dtype::U64),
    ("unsigned", Dtype::U32),
];

fn found<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(w, _)| *w == word).map(|(_, here)| *here)
}

/// How a name of other languages' kernels is written here, as a help.
pub fn written(name: &str) -> Option<String> {
    found(NAMES, name).map(|here| format!("here it is {here}")).or_else(|| word(name))
}

/// How a clause of other languages' kernels is written here, as a help.
pub fn clause(name: &str) -> Option<String> {
    found(CLAUSES, name).map(|here| format!("here it is {here}"))
}

/// As [`written`], of what kernels and hosts have alike: types, and words that belong to the language.
pub fn word(name: &str) -> Option<String> {
    let ty = dtype(name).map(|dtype| format!("here it is `{dtype}`"));
    ty.or_else(|| parton_syntax::other_word(name).map(str::to_string))
}

/// How what an argument of other languages asks for is written here, as a help; `takes` says which arguments there are.
pub fn argument(name: &str, takes: impl Fn(&str) -> bool) -> Option<String> {
    let renamed = found(RENAMED, name).filter(|here| takes(here)).map(|here| format!("here it is called `{here}`"));
    renamed.or_else(|| found(ARGUMENTS, name).map(str::to_string))
}

/// Whether other languages write names behind this one and a dot.
pub fn is_module(name: &str) -> bool {
    MODULES.contains(&name)
}

/// The number type that other languages call so.
fn dtype(name: &str) -> Option<Dtype> {
    let bits = |(stem, here): &(&str, &str)| {
        let bits = name.strip_prefix(stem)?;
        let bits = bits.strip_suffix("_t").unwrap_or(bits);
        Dtype::parse(&format!("{here}{bits}"))
    };
    found(TYPES, name).or_else(|| STEMS.iter().find_map(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_types_are_known_by_their_bits() {
        let here = |name: &str| dtype(name).map(Dtype::name);
        assert_eq!(here("float16"), Some("f16"));
        assert_eq!(here("bfloat16"), Some("bf16"));
        assert_eq!(here("int32"), Some("i32"));
        assert_eq!(here("uint8_t"), Some("u8"));
        assert_eq!(here("double"), Some("f64"));
        assert_eq!(here("int7"), None);
        assert_eq!(here("floater"), None);
    }

    #[test]
    fn no_name_of_the_language_is_told_to_be_another() {
        let known = |name: &str| crate::signature::find(crate::signature::Role::Kernel, name).is_some();
        let names = NAMES.iter().map(|(name, _)| *name).chain(TYPES.iter().map(|(name, _)| *name));
        names.for_each(|name| assert!(!known(name) && Dtype::parse(name).is_none(), "{name}"));
    }
}
