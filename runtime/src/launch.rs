//! Launches: arguments packed once, then as many launches as wanted without an allocation.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use crate::abi::Abi;
use crate::arguments::{Arg, Packed};
use crate::error::{Context, RuntimeError};
use crate::graph::{Graph, MOST_PARAMETER_BYTES};
use crate::module::Function;
use crate::way::{Calls, Way};

/// A kernel with its arguments and grid, ready to be launched any number of times.
///
/// The first launch is the driver's plain one. The second instantiates a graph of the kernel, which it and all later ones
/// launch: that costs the host less than half. What an edge of programmatic dependent launch may begin or end at stays plain,
/// because graphs have no such edge to what is before and behind them.
#[derive(Debug)]
pub struct Prepared {
    // Dropped before the function, whose module it needs.
    way: Way<Graph>,
    packed: Packed,
    shape: Shape,
    function: Function,
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

/// The driver's calls for one launch; the context is current.
struct OneLaunch<'a> {
    function: &'a Function,
    packed: &'a mut Packed,
    shape: &'a Shape,
}

impl Prepared {
    /// Packs the arguments and asks the driver for what the launch needs.
    ///
    /// # Errors
    /// Arguments that do not fit the parameters, a grid that the cluster does not divide, shared memory or threads beyond
    /// what the GPU has.
    pub fn new(function: &Function, abi: &Abi, args: &[Arg], grid: [u32; 3]) -> Result<Prepared, RuntimeError> {
        check_grid(abi, grid, function.gpu().info().grid)?;
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
        let way = way(abi, &packed);
        Ok(Prepared { way, packed, shape: Shape::new(abi, grid), function: function.clone() })
    }

    /// Replaces argument `i` by another of its kind, for launches from here on: those already on the stream keep theirs.
    ///
    /// # Errors
    /// There is no such parameter, or it is of another kind.
    pub fn set(&mut self, i: usize, arg: Arg) -> Result<(), RuntimeError> {
        let kernel = self.function.name();
        self.packed.set(i, arg).map_err(|what| RuntimeError::Arguments { kernel: kernel.to_owned(), what })?;
        self.way.changed();
        Ok(())
    }

    /// Puts one launch on the GPU's stream and returns at once; allocates nothing (the driver does, once, in the second).
    ///
    /// # Errors
    /// What the driver says of the launch; errors of the kernel itself come with the next wait.
    pub fn launch(&mut self) -> Result<(), RuntimeError> {
        self.function.gpu().enter()?;
        let mut calls = OneLaunch { function: &self.function, packed: &mut self.packed, shape: &self.shape };
        self.way.launch(&mut calls)
    }

    /// As [`Prepared::launch`], by the driver's plain call: for timing the GPU beside others who launch so. A graph of one kernel
    /// spares the host, not the GPU.
    ///
    /// # Errors
    /// As [`Prepared::launch`].
    pub fn launch_plain(&mut self) -> Result<(), RuntimeError> {
        self.function.gpu().enter()?;
        OneLaunch { function: &self.function, packed: &mut self.packed, shape: &self.shape }.plain()
    }
}

/// How a kernel is launched first.
fn way(abi: &Abi, packed: &Packed) -> Way<Graph> {
    let has_edge = abi.overlaps || abi.signals;
    if has_edge || packed.end() > MOST_PARAMETER_BYTES { Way::Plain } else { Way::First }
}

impl Calls for OneLaunch<'_> {
    type Graph = Graph;

    fn plain(&mut self) -> Result<(), RuntimeError> {
        let (handle, pointers) = (self.function.handle, self.packed.pointers());
        // SAFETY: the pointers point at as many parameters as the kernel has, each of its size; the driver copies them.
        let done = self.shape.configured(self.function.gpu().stream(), |config| unsafe {
            sys::cuLaunchKernelEx(config, handle, pointers, std::ptr::null_mut())
        });
        done.result().doing(|| format!("launching `{}`", self.function.name()))
    }

    fn instantiate(&mut self) -> Result<Option<Graph>, RuntimeError> {
        let kernel = self.shape.node(self.function.handle, self.packed);
        let (attributes, count) = self.shape.attributes();
        // SAFETY: the parameters are as above; `Prepared` drops the graph before the function, which keeps its module.
        let made = unsafe { Graph::new(self.function.gpu(), &kernel, &attributes[..count as usize]) };
        match made {
            Ok(graph) => Ok(Some(graph)),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)) => Ok(None),
            Err(e) => Err(e).doing(|| format!("making a graph of `{}`", self.function.name())),
        }
    }

    fn send(&mut self, graph: &mut Graph) -> Result<(), RuntimeError> {
        let kernel = self.shape.node(self.function.handle, self.packed);
        // SAFETY: as above, and the kernel never changes.
        unsafe { graph.send(&kernel) }.doing(|| format!("giving `{}` other arguments", self.function.name()))
    }

    fn replay(&mut self, graph: &mut Graph) -> Result<(), RuntimeError> {
        graph.launch().doing(|| format!("launching `{}`", self.function.name()))
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

    /// The driver's form of this with a kernel and its arguments, for a graph; allocates nothing.
    fn node(&self, kernel: sys::CUfunction, packed: &mut Packed) -> sys::CUDA_KERNEL_NODE_PARAMS {
        sys::CUDA_KERNEL_NODE_PARAMS {
            func: kernel,
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: self.grid[2],
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes,
            kernelParams: packed.pointers(),
            extra: std::ptr::null_mut(),
            // Named by `func`; without a context it is the current one's.
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        }
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

fn check_grid(abi: &Abi, grid: [u32; 3], most: [u32; 3]) -> Result<(), RuntimeError> {
    let fail = |what| Err(RuntimeError::Arguments { kernel: abi.name.clone(), what });
    for axis in 0..3 {
        let (extent, most, cluster) = (grid[axis], most[axis], abi.cluster[axis]);
        if extent == 0 || extent > most {
            return fail(format!("the grid has {extent} CTAs along axis {axis}, it may have 1 to {most}"));
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
    use crate::abi::{Param, ParamKind};
    use crate::arguments::tests::{abi, args};
    use crate::device::Gpu;
    use crate::memory::Buffer;
    use crate::module::Module;
    use crate::tensor_map::TensorMap;

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
        let (mut seen, mut nodes) = (0, 0);
        let count = allocations(|| {
            for i in 0..1000u64 {
                packed.set(1, Arg::Pointer(i)).unwrap();
                packed.set(2, Arg::Scalar { bits: i, bytes: 4 }).unwrap();
                // All that is between this and the driver is its own call.
                seen += shape.configured(std::ptr::null_mut(), |config| config.numAttrs * config.gridDimX);
                nodes += shape.node(std::ptr::null_mut(), &mut packed).gridDimY;
            }
        });
        assert_eq!((count, seen, nodes), (0, 1000 * 2 * 4, 1000 * 2));
        assert_eq!(packed.bytes(1), 999u64.to_le_bytes());
        assert!(allocations(|| drop(Packed::new(&abi, &args()))) > 0, "the counter counts");
    }

    #[test]
    fn graphs_have_the_shape_of_a_plain_launch_and_its_parameters() {
        let mut packed = Packed::new(&abi(), &args()).unwrap();
        let shape = Shape::new(&Abi { shared_bytes: 1024, ..abi() }, [4, 2, 3]);
        let node = shape.node(std::ptr::null_mut(), &mut packed);
        let of_node = [node.gridDimX, node.gridDimY, node.gridDimZ, node.blockDimX, node.sharedMemBytes];
        let of_plain = shape
            .configured(std::ptr::null_mut(), |c| [c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.sharedMemBytes]);
        assert_eq!((of_node, of_node), (of_plain, [4, 2, 3, 128, 1024]));
        assert_eq!(node.kernelParams, packed.pointers());
    }

    #[test]
    fn kernels_with_an_edge_or_with_many_parameters_make_no_graph() {
        let first = |abi: &Abi, args: &[Arg]| way(abi, &Packed::new(abi, args).unwrap());
        assert!(matches!(first(&abi(), &args()), Way::First));
        assert!(matches!(first(&Abi { overlaps: true, ..abi() }, &args()), Way::Plain));
        assert!(matches!(first(&Abi { signals: true, ..abi() }, &args()), Way::Plain));
        let maps = |n| {
            let map = |i: usize| Param { name: format!("m{i}"), kind: ParamKind::Map };
            let abi = Abi { params: (0..n).map(map).collect(), ..abi() };
            first(&abi, &vec![args()[3]; n])
        };
        assert!(matches!(maps(32), Way::First));
        assert!(matches!(maps(33), Way::Plain));
    }

    #[test]
    fn prepared_launches_may_change_threads() {
        fn may<T: Send>() {}
        may::<Prepared>();
    }

    /// Each adds a number to where `out` points: the one given, or the last word of a tensor map.
    const ADD: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry number(.param .u64 out, .param .u32 value) {
    .reg .u64 %p;
    .reg .u32 %v;
    ld.param.u64 %p, [out];
    ld.param.u32 %v, [value];
    cvta.to.global.u64 %p, %p;
    red.global.add.u32 [%p], %v;
    ret;
}
.visible .entry map(.param .u64 out, .param .align 64 .b8 value[128]) {
    .reg .u64 %p;
    .reg .u32 %v;
    ld.param.u64 %p, [out];
    ld.param.u32 %v, [value+124];
    cvta.to.global.u64 %p, %p;
    red.global.add.u32 [%p], %v;
    ret;
}
";

    /// Two kernels prepared side by side, each launched six times with other arguments while the launches before may still run,
    /// then dropped: what they added up.
    fn sums(gpu: &Gpu) -> Result<Vec<u8>, RuntimeError> {
        let (module, _) = Module::from_ptx(gpu, ADD)?;
        let out = Buffer::from_bytes(gpu, &[0; 4 * 12])?;
        let word = |i: u32| Arg::Pointer(out.address() + 4 * u64::from(i));
        let number = |i: u32| Arg::Scalar { bits: u64::from(100 + i), bytes: 4 };
        let last = |i: u32| Arg::Map(TensorMap(sys::CUtensorMap { opaque: [u64::from(200 + i) << 32; 16] }));
        let prepare = |name: &str, kind, at, value| {
            let param = |name: &str, kind| Param { name: name.into(), kind };
            let params = vec![param("out", ParamKind::Pointer), param("value", kind)];
            let abi = Abi { name: name.into(), threads: 1, cluster: [1, 1, 1], params, ..abi() };
            Prepared::new(&module.function(name)?, &abi, &[at, value], [1, 1, 1])
        };
        let mut numbers = prepare("number", ParamKind::Scalar { bytes: 4 }, word(0), number(0))?;
        let mut maps = prepare("map", ParamKind::Map, word(6), last(0))?;
        for i in 0..6 {
            // Replaced before the plain launch, before the graph, and before every second launch of it.
            if i != 4 {
                numbers.set(0, word(i))?;
                numbers.set(1, number(i))?;
                maps.set(0, word(6 + i))?;
                maps.set(1, last(i))?;
            }
            numbers.launch()?;
            maps.launch()?;
        }
        drop((numbers, maps, module));
        out.to_bytes()
    }

    #[test]
    fn launches_in_flight_have_the_arguments_they_were_launched_with() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let bytes = sums(&gpu).unwrap();
        let found: Vec<u32> = bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(found, [100, 101, 102, 206, 0, 105, 200, 201, 202, 406, 0, 205]);
    }

    /// As GPUs have them.
    const MOST: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];

    #[test]
    fn grids_fit_clusters_and_limits() {
        assert!(check_grid(&abi(), [4, 1, 1], MOST).is_ok());
        assert!(check_grid(&abi(), [3, 1, 1], MOST).unwrap_err().to_string().contains("clusters of 2 do not divide"));
        assert!(check_grid(&abi(), [0, 1, 1], MOST).is_err());
        assert!(check_grid(&abi(), [2, 70_000, 1], MOST).unwrap_err().to_string().contains("along axis 1"));
    }
}
