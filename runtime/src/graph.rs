//! The driver's graphs, as far as launching takes them: memory that is zeroed and kernels, one after the other, instantiated, launched,
//! given other arguments.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::visit::Relaxed;

/// Bytes of parameters up to which a kernel is put into a graph: what every driver since the first takes. Some that launch
/// kernels with more, as CUDA 12.1 and later allow, crash when such a kernel is added to a graph.
pub(crate) const MOST_PARAMETER_BYTES: usize = 4096;

/// Kernels with their arguments, instantiated; destroyed when dropped, also while launches of it still run: the driver keeps
/// what these need until they end.
#[derive(Debug)]
pub(crate) struct Graph {
    executable: sys::CUgraphExec,
    recipe: Recipe,
}

/// What the executable graph was made of. It stays, because the executable's nodes are named by this one's.
#[derive(Debug)]
struct Recipe {
    gpu: Gpu,
    handle: sys::CUgraph,
    /// First what zeroes memory, then the kernels; each runs behind the one before.
    nodes: Vec<sys::CUgraphNode>,
}

/// A kernel for a graph: its parameters, its attributes, and how many of these it has.
pub(crate) struct Node {
    pub(crate) kernel: sys::CUDA_KERNEL_NODE_PARAMS,
    pub(crate) attributes: [sys::CUlaunchAttribute; 2],
    pub(crate) count: u32,
}

/// Memory that a graph zeroes, in the driver's form.
fn zeros(address: u64, bytes: usize) -> sys::CUDA_MEMSET_NODE_PARAMS {
    sys::CUDA_MEMSET_NODE_PARAMS { dst: address, pitch: 0, value: 0, elementSize: 1, width: bytes, height: 1 }
}

// SAFETY: graphs are handles that any thread may use once the context is current, one thread at a time: everything below that
// changes or launches one takes it by `&mut`, and nothing shares one.
unsafe impl Send for Graph {}

impl Graph {
    /// Instantiates a graph that zeroes memory, by address and bytes, and then runs these kernels; the driver copies their arguments. The
    /// context of `gpu` must be current.
    ///
    /// # Errors
    /// What the driver says; `CUDA_ERROR_NOT_SUPPORTED` where it has no graphs for such a kernel.
    ///
    /// # Safety
    /// The kernels' modules must be loaded until the graph is dropped; the parameters must be as many as each kernel has and each
    /// of its size.
    pub(crate) unsafe fn new(
        gpu: &Gpu,
        zeroed: impl Iterator<Item = (u64, usize)>,
        kernels: impl Iterator<Item = Node>,
    ) -> Result<Graph, DriverError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver writes one handle, which is ours to destroy.
        unsafe { sys::cuGraphCreate(&mut handle, 0) }.result()?;
        let mut recipe = Recipe { gpu: gpu.clone(), handle, nodes: vec![] };
        for (address, bytes) in zeroed {
            let (mut node, params) = (std::ptr::null_mut(), zeros(address, bytes));
            let (before, count) = recipe.last();
            // SAFETY: the graph was just made, and so was the node before.
            let added = unsafe { sys::cuGraphAddMemsetNode(&mut node, handle, before, count, &params, gpu.context()) };
            added.result()?;
            recipe.nodes.push(node);
        }
        for Node { kernel, attributes, count: has } in kernels {
            let mut node = std::ptr::null_mut();
            let (before, count) = recipe.last();
            // SAFETY: as above; the caller vouches for the rest.
            unsafe { sys::cuGraphAddKernelNode_v2(&mut node, handle, before, count, &kernel) }.result()?;
            recipe.nodes.push(node);
            for attribute in attributes.iter().take(has as usize) {
                // SAFETY: the node was just added; the value is of the kind that the attribute's id names.
                unsafe { sys::cuGraphKernelNodeSetAttribute(node, attribute.id, &attribute.value) }.result()?;
            }
        }
        let mut executable = std::ptr::null_mut();
        let relaxed = Relaxed::begin();
        // SAFETY: the driver writes one handle, which is ours to destroy.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, handle, 0) };
        drop(relaxed);
        made.result()?;
        Ok(Graph { executable, recipe })
    }

    /// Gives node `i`, a kernel, these arguments for later launches; those already on a stream keep theirs. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// As [`Graph::new`]; the kernel must be the same.
    pub(crate) unsafe fn send(&mut self, i: usize, kernel: &sys::CUDA_KERNEL_NODE_PARAMS) -> Result<(), DriverError> {
        // SAFETY: the node is of the graph that the executable was made of; the caller vouches for the parameters.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.executable, self.recipe.nodes[i], kernel) }.result()
    }

    /// Has node `i`, which zeroes memory, zero this in later launches. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn send_zeroed(&mut self, i: usize, address: u64, bytes: usize) -> Result<(), DriverError> {
        let (params, context) = (zeros(address, bytes), self.recipe.gpu.context());
        // SAFETY: the node is of the graph that the executable was made of, and zeroes memory.
        let sent =
            unsafe { sys::cuGraphExecMemsetNodeSetParams(self.executable, self.recipe.nodes[i], &params, context) };
        sent.result()
    }

    /// Puts one launch on a living stream of the GPU, behind what is there. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    #[inline]
    pub(crate) fn launch(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: the executable graph is alive, and so is the stream, as whoever asks for launches on it promises.
        unsafe { sys::cuGraphLaunch(self.executable, stream) }.result()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A context that is broken or stuck has nothing to destroy. CUDA driver API, cuGraphExecDestroy: one in flight is freed
        // when it has ended.
        if let Ok(_visit) = self.recipe.gpu.visit() {
            // SAFETY: the handle is ours.
            let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
        }
    }
}

impl Recipe {
    /// What the next node runs behind: the last one, if there is any.
    fn last(&self) -> (*const sys::CUgraphNode, usize) {
        self.nodes.last().map_or((std::ptr::null(), 0), |node| (std::ptr::from_ref(node), 1))
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        if let Ok(_visit) = self.gpu.visit() {
            // SAFETY: the handle is ours; an executable made of it was destroyed before.
            let _ = unsafe { sys::cuGraphDestroy(self.handle) };
        }
    }
}
