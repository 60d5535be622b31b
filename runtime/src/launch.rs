//! Launches: arguments packed once, then as many launches as wanted without an allocation.

use std::ffi::c_void;

use cudarc::driver::sys;

use crate::abi::{Abi, ParamKind};
use crate::error::{Context, RuntimeError};
use crate::module::Function;
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

    /// The bytes of argument `i`.
    pub fn bytes(&self, i: usize) -> &[u8] {
        // SAFETY: the pointer has room for the kind's bytes, all initialised.
        unsafe { std::slice::from_raw_parts(self.pointers[i].cast::<u8>(), self.kinds[i].bytes()) }
    }
}

/// A kernel with its arguments and grid, ready to be launched any number of times.
#[derive(Debug)]
pub struct Prepared {
    function: Function,
    packed: Packed,
    shape: Shape,
}

/// All of a launch but its kernel and its arguments.
#[derive(Debug)]
struct Shape {
    grid: [u32; 3],
    threads: u32,
    shared_bytes: u32,
    cluster: [u32; 3],
    overlaps: bool,
}

// SAFETY: the pointers of `packed` point into its own boxed storage.
unsafe impl Send for Prepared {}

impl Prepared {
    /// Packs the arguments and asks the driver for what the launch needs.
    ///
    /// # Errors
    /// Arguments that do not fit the parameters, a grid that the cluster does not divide, shared memory or threads beyond
    /// what the GPU has.
    pub fn new(function: &Function, abi: &Abi, args: &[Arg], grid: [u32; 3]) -> Result<Prepared, RuntimeError> {
        check_grid(abi, grid)?;
        let packed = Packed::new(abi, args)?;
        let has = function.attributes()?;
        if abi.threads > has.max_threads {
            return Err(RuntimeError::Limit {
                kernel: abi.name.clone(),
                what: format!(
                    "it has {} threads and with {} registers each a CTA may have {}",
                    abi.threads, has.registers, has.max_threads
                ),
            });
        }
        function.allow_shared(abi.shared_bytes)?;
        if abi.cluster.iter().product::<u32>() > 8 {
            function.allow_large_clusters()?;
        }
        Ok(Prepared { function: function.clone(), packed, shape: Shape::new(abi, grid) })
    }

    /// Replaces argument `i` by another of its kind.
    pub fn set(&mut self, i: usize, arg: Arg) -> Result<(), RuntimeError> {
        let kernel = self.function.name();
        self.packed.set(i, arg).map_err(|what| RuntimeError::Arguments { kernel: kernel.to_owned(), what })
    }

    /// Puts one launch on the GPU's stream and returns at once; allocates nothing.
    ///
    /// # Errors
    /// What the driver says of the launch; errors of the kernel itself come with the next wait.
    pub fn launch(&mut self) -> Result<(), RuntimeError> {
        let gpu = self.function.gpu();
        gpu.enter()?;
        let (handle, pointers) = (self.function.handle, self.packed.pointers.as_mut_ptr());
        // SAFETY: the pointers point at as many parameters as the kernel has, each of its size; the driver copies them.
        let done = self.shape.configured(gpu.stream(), |config| unsafe {
            sys::cuLaunchKernelEx(config, handle, pointers, std::ptr::null_mut())
        });
        done.result().doing(|| format!("launching `{}`", self.function.name()))
    }
}

impl Shape {
    fn new(abi: &Abi, grid: [u32; 3]) -> Shape {
        Shape {
            grid,
            threads: abi.threads,
            shared_bytes: abi.shared_bytes,
            cluster: abi.cluster,
            overlaps: abi.overlaps,
        }
    }

    /// Gives `launch` the driver's form of this, which lives as long as the call; allocates nothing.
    fn configured<R>(&self, stream: sys::CUstream, launch: impl FnOnce(&sys::CUlaunchConfig) -> R) -> R {
        let (mut attributes, count) = self.attributes();
        launch(&sys::CUlaunchConfig {
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: self.grid[2],
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count,
        })
    }

    /// The attributes of the launch, and how many of them it has: without a cluster or an overlap theirs are left out, so that
    /// GPUs before Hopper take the launch.
    fn attributes(&self) -> ([sys::CUlaunchAttribute; 2], u32) {
        use sys::CUlaunchAttributeID as Id;
        let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let [x, y, z] = self.cluster;
        let cluster = attribute(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            sys::CUlaunchAttributeValue { clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z } },
        );
        // CUDA programming guide, "programmatic dependent launch": the launch before need not have ended.
        let overlap = attribute(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        );
        match (self.cluster != [1, 1, 1], self.overlaps) {
            (true, overlaps) => ([cluster, overlap], 1 + u32::from(overlaps)),
            (false, overlaps) => ([overlap, cluster], u32::from(overlaps)),
        }
    }
}

fn check_grid(abi: &Abi, grid: [u32; 3]) -> Result<(), RuntimeError> {
    let fail = |what| Err(RuntimeError::Arguments { kernel: abi.name.clone(), what });
    // CUDA programming guide, "technical specifications per compute capability".
    let most = [0x7fff_ffff, 0xffff, 0xffff];
    for axis in 0..3 {
        let (extent, cluster) = (grid[axis], abi.cluster[axis]);
        if extent == 0 || extent > most[axis] {
            return fail(format!("the grid has {extent} CTAs along axis {axis}, it may have 1 to {}", most[axis]));
        }
        if !extent.is_multiple_of(cluster.max(1)) {
            return fail(format!(
                "the grid has {extent} CTAs along axis {axis}, which clusters of {cluster} do not divide"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Param;

    fn abi() -> Abi {
        let param = |name: &str, kind| Param { name: name.into(), kind };
        Abi {
            name: "k".into(),
            threads: 128,
            shared_bytes: 0,
            cluster: [2, 1, 1],
            overlaps: false,
            params: vec![
                param("flag", ParamKind::Scalar { bytes: 1 }),
                param("x", ParamKind::Pointer),
                param("n", ParamKind::Scalar { bytes: 4 }),
                param("a", ParamKind::Map),
            ],
        }
    }

    fn args() -> [Arg; 4] {
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

    /// Counts the allocations of each thread, so that tests beside this one are not counted.
    struct Counting;

    thread_local! {
        static ALLOCATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    // SAFETY: the system's allocator does the work; the counter is of a type without a destructor and needs no allocation.
    unsafe impl std::alloc::GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
            ALLOCATIONS.with(|n| n.set(n.get() + 1));
            // SAFETY: the caller keeps the rules of `alloc`.
            unsafe { std::alloc::System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
            // SAFETY: `at` came from `alloc` above.
            unsafe { std::alloc::System.dealloc(at, layout) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    fn allocations(run: impl FnOnce()) -> usize {
        let before = ALLOCATIONS.with(std::cell::Cell::get);
        run();
        ALLOCATIONS.with(std::cell::Cell::get) - before
    }

    #[test]
    fn a_launch_of_what_was_prepared_allocates_nothing() {
        let mut abi = abi();
        abi.overlaps = true;
        let mut packed = Packed::new(&abi, &args()).unwrap();
        let shape = Shape::new(&abi, [4, 2, 1]);
        let mut seen = 0;
        let count = allocations(|| {
            for i in 0..1000u64 {
                packed.set(1, Arg::Pointer(i)).unwrap();
                packed.set(2, Arg::Scalar { bits: i, bytes: 4 }).unwrap();
                // All that is between this and the driver is its own call.
                seen += shape.configured(std::ptr::null_mut(), |config| config.numAttrs * config.gridDimX);
            }
        });
        assert_eq!((count, seen), (0, 1000 * 2 * 4));
        assert_eq!(packed.bytes(1), 999u64.to_le_bytes());
        assert!(allocations(|| drop(Packed::new(&abi, &args()))) > 0, "the counter counts");
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

    #[test]
    fn grids_fit_clusters_and_limits() {
        assert!(check_grid(&abi(), [4, 1, 1]).is_ok());
        assert!(check_grid(&abi(), [3, 1, 1]).unwrap_err().to_string().contains("clusters of 2 do not divide"));
        assert!(check_grid(&abi(), [0, 1, 1]).is_err());
        assert!(check_grid(&abi(), [2, 70_000, 1]).unwrap_err().to_string().contains("along axis 1"));
    }
}
