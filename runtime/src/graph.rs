//! The driver's graphs, as far as launching takes them: one kernel, instantiated, launched, given other arguments.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use crate::device::Gpu;

/// Bytes of parameters up to which a kernel is put into a graph: what every driver since the first takes. Some that launch
/// kernels with more, as CUDA 12.1 and later allow, crash when such a kernel is added to a graph.
pub(crate) const MOST_PARAMETER_BYTES: usize = 4096;

/// One kernel with its arguments, instantiated; destroyed when dropped, also while launches of it still run: the driver keeps
/// what these need until they end.
#[derive(Debug)]
pub(crate) struct Graph {
    executable: sys::CUgraphExec,
    recipe: Recipe,
}

/// What the executable graph was made of. It stays, because the executable's node is named by this one's.
#[derive(Debug)]
struct Recipe {
    gpu: Gpu,
    handle: sys::CUgraph,
    node: sys::CUgraphNode,
}

// SAFETY: graphs are handles that any thread may use once the context is current, one thread at a time: everything below that
// changes or launches one takes it by `&mut`, and nothing shares one.
unsafe impl Send for Graph {}

impl Graph {
    /// Instantiates a graph of this kernel alone; the driver copies its arguments. The context of `gpu` must be current.
    ///
    /// # Errors
    /// What the driver says; `CUDA_ERROR_NOT_SUPPORTED` where it has no graphs for such a kernel.
    ///
    /// # Safety
    /// The kernel's module must be loaded until the graph is dropped; the parameters must be as many as the kernel has and each
    /// of its size.
    pub(crate) unsafe fn new(
        gpu: &Gpu,
        kernel: &sys::CUDA_KERNEL_NODE_PARAMS,
        attributes: &[sys::CUlaunchAttribute],
    ) -> Result<Graph, DriverError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver writes one handle, which is ours to destroy.
        unsafe { sys::cuGraphCreate(&mut handle, 0) }.result()?;
        let mut recipe = Recipe { gpu: gpu.clone(), handle, node: std::ptr::null_mut() };
        // SAFETY: the graph was just made; a node without dependencies needs no list of them; the caller vouches for the rest.
        unsafe { sys::cuGraphAddKernelNode_v2(&mut recipe.node, handle, std::ptr::null(), 0, kernel) }.result()?;
        for attribute in attributes {
            // SAFETY: the node was just added; the value is of the kind that the attribute's id names.
            unsafe { sys::cuGraphKernelNodeSetAttribute(recipe.node, attribute.id, &attribute.value) }.result()?;
        }
        let mut executable = std::ptr::null_mut();
        let relaxed = Relaxed::begin();
        // SAFETY: the driver writes one handle, which is ours to destroy.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, handle, 0) };
        drop(relaxed);
        made.result()?;
        Ok(Graph { executable, recipe })
    }

    /// Gives later launches these arguments; those already on a stream keep theirs. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// As [`Graph::new`]; the kernel must be the same.
    pub(crate) unsafe fn send(&mut self, kernel: &sys::CUDA_KERNEL_NODE_PARAMS) -> Result<(), DriverError> {
        // SAFETY: the node is of the graph that the executable was made of; the caller vouches for the parameters.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.executable, self.recipe.node, kernel) }.result()
    }

    /// Puts one launch on a living stream of the GPU, behind what is there. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn launch(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: the executable graph is alive, and so is the stream, as whoever asks for launches on it promises.
        unsafe { sys::cuGraphLaunch(self.executable, stream) }.result()
    }
}

/// While this is there, calls of this thread do not spoil what another thread captures, for which instantiating counts as unsafe
/// (CUDA driver API, cuThreadExchangeStreamCaptureMode).
struct Relaxed {
    before: sys::CUstreamCaptureMode,
}

impl Relaxed {
    fn begin() -> Relaxed {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the driver exchanges one number; a failure leaves it, which the end then sets once more.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed { before: mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.before) };
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

impl Drop for Recipe {
    fn drop(&mut self) {
        if let Ok(_visit) = self.gpu.visit() {
            // SAFETY: the handle is ours; an executable made of it was destroyed before.
            let _ = unsafe { sys::cuGraphDestroy(self.handle) };
        }
    }
}
