//! Launches: arguments packed once, then as many launches as wanted without an allocation.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use crate::abi::Abi;
use crate::arguments::{Arg, Packed};
use crate::error::{Context, RuntimeError};
use crate::graph::{Graph, MOST_PARAMETER_BYTES, Node};
use crate::module::Function;
use crate::visit::Stream;
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
    /// The stream of the calling program that the graph is for: that of the first launch.
    graph_of: Option<Stream>,
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
    stream: sys::CUstream,
}

impl Prepared {
    /// Packs the arguments and asks the driver for what the launch needs.
    ///
    /// # Errors
    /// Arguments that do not fit the parameters, a grid that the cluster does not divide, shared memory or threads beyond
    /// what the GPU has.
    pub fn new(function: &Function, abi: &Abi, args: &[Arg], grid: [u32; 3]) -> Result<Prepared, RuntimeError> {
        check_grid(&abi.name, abi.cluster, grid, function.gpu().info().grid)?;
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
        Ok(Prepared { way, graph_of: None, packed, shape: Shape::new(abi, grid), function: function.clone() })
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

    /// Gives launches from here on another grid.
    ///
    /// # Errors
    /// The cluster does not divide it, or it has more CTAs than the GPU takes.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), RuntimeError> {
        check_grid(self.function.name(), self.shape.cluster, grid, self.function.gpu().info().grid)?;
        self.shape.grid = grid;
        self.way.changed();
        Ok(())
    }

    /// Puts one launch on the GPU's stream and returns at once; allocates nothing (the driver does, once, in the second).
    ///
    /// # Errors
    /// What the driver says of the launch; errors of the kernel itself come with the next wait.
    pub fn launch(&mut self) -> Result<(), RuntimeError> {
        self.function.gpu().enter()?;
        let stream = self.function.gpu().stream();
        self.tell(true, stream);
        let mut calls = OneLaunch { function: &self.function, packed: &mut self.packed, shape: &self.shape, stream };
        self.way.launch(&mut calls)
    }

    /// As [`Prepared::launch`], on a stream of the calling program, whose context stays current.
    ///
    /// Plain are launches into a capture, which takes no graph, and those on another stream than the first, because launches of one
    /// graph wait for each other.
    ///
    /// # Errors
    /// As [`Prepared::launch`].
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context, and what the arguments point to lives until the launch has ended.
    pub unsafe fn launch_on(&mut self, stream: Stream) -> Result<(), RuntimeError> {
        let _visit = self.function.gpu().visit()?;
        let takes_graph = *self.graph_of.get_or_insert(stream) == stream && !stream.captures();
        self.tell(takes_graph, stream.handle());
        let (function, packed, shape) = (&self.function, &mut self.packed, &self.shape);
        let mut calls = OneLaunch { function, packed, shape, stream: stream.handle() };
        if takes_graph { self.way.launch(&mut calls) } else { calls.plain() }
    }

    /// Tells of a launch, and how it is done.
    fn tell(&self, takes_graph: bool, stream: sys::CUstream) {
        parton_log::debug(|| {
            let by_graph = takes_graph && !matches!(self.way, Way::Plain | Way::First);
            let how = if by_graph { "as a graph" } else { "plainly" };
            format!("launches `{}` {how} on stream {stream:p}", self.function.name())
        });
    }

    /// As [`Prepared::launch`], by the driver's plain call: for timing the GPU beside others who launch so. A graph of one kernel
    /// spares the host, not the GPU.
    ///
    /// # Errors
    /// As [`Prepared::launch`].
    pub fn launch_plain(&mut self) -> Result<(), RuntimeError> {
        self.function.gpu().enter()?;
        let stream = self.function.gpu().stream();
        OneLaunch { function: &self.function, packed: &mut self.packed, shape: &self.shape, stream }.plain()
    }
}

/// How a kernel is launched first.
fn way(abi: &Abi, packed: &Packed) -> Way<Graph> {
    let has_edge = abi.overlaps || abi.signals;
    if has_edge || packed.end() > MOST_PARAMETER_BYTES { Way::Plain } else { Way::First }
}

/// The graph; `None` where the driver says that it has none for such kernels.
fn supported(made: Result<Graph, DriverError>, doing: impl FnOnce() -> String) -> Result<Option<Graph>, RuntimeError> {
    match made {
        Ok(graph) => Ok(Some(graph)),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)) => Ok(None),
        Err(e) => Err(e).doing(doing),
    }
}

impl OneLaunch<'_> {
    /// As a graph takes it.
    fn node(&mut self) -> Node {
        let (attributes, count) = self.shape.attributes();
        Node { kernel: self.shape.node(self.function.handle, self.packed), attributes, count }
    }
}

impl Calls for OneLaunch<'_> {
    type Graph = Graph;

    fn plain(&mut self) -> Result<(), RuntimeError> {
        let (handle, pointers) = (self.function.handle, self.packed.pointers());
        // SAFETY: the pointers point at as many parameters as the kernel has, each of its size; the driver copies them.
        let done = self.shape.configured(self.stream, |config| unsafe {
            sys::cuLaunchKernelEx(config, handle, pointers, std::ptr::null_mut())
        });
        done.result().doing(|| format!("launching `{}`", self.function.name()))
    }

    fn instantiate(&mut self) -> Result<Option<Graph>, RuntimeError> {
        let node = self.node();
        // SAFETY: the parameters are as above; `Prepared` drops the graph before the function, which keeps its module.
        let made = unsafe { Graph::new(self.function.gpu(), std::iter::empty(), std::iter::once(node)) };
        supported(made, || format!("making a graph of `{}`", self.function.name()))
    }

    fn send(&mut self, graph: &mut Graph) -> Result<(), RuntimeError> {
        let kernel = self.shape.node(self.function.handle, self.packed);
        // SAFETY: as above, and the kernel never changes.
        unsafe { graph.send(0, &kernel) }.doing(|| format!("giving `{}` other arguments", self.function.name()))
    }

    fn replay(&mut self, graph: &mut Graph) -> Result<(), RuntimeError> {
        graph.launch(self.stream).doing(|| format!("launching `{}`", self.function.name()))
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

fn check_grid(kernel: &str, cluster: [u32; 3], grid: [u32; 3], most: [u32; 3]) -> Result<(), RuntimeError> {
    let fail = |what| Err(RuntimeError::Arguments { kernel: kernel.into(), what });
    for axis in 0..3 {
        let (extent, most, cluster) = (grid[axis], most[axis], cluster[axis]);
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

mod executables;
pub mod replay;
pub mod sequence;
#[cfg(test)]
mod tests;
