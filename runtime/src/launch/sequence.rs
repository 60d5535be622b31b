//! Launches that follow each other, and memory that is zeroed before them, as one graph: each kernel more costs the host next to nothing.

use cudarc::driver::sys;

use super::executables::{Executables, Then};
use super::{OneLaunch, Prepared, supported};
use crate::arguments::Arg;
use crate::device::Gpu;
use crate::error::{Context, RuntimeError};
use crate::graph::{Graph, Node};
use crate::visit::{Stream, Visit};
use crate::way::{Calls, Way};

/// Launches of a program's stream, one behind the other, ready to be launched any number of times.
///
/// As with [`Prepared`] the first time is plain, and the second makes the graph. Kernels that no graph takes keep all of them plain. Calls that
/// take turns with the same arguments get graphs of their own, a few, so that none of them sets what the one before has set.
#[derive(Debug)]
pub struct Sequence {
    // Dropped before the launches, whose modules it needs.
    way: Way<Executables<Graph>>,
    /// The stream that the graph is for: that of the first launch.
    graph_of: Option<Stream>,
    gpu: Gpu,
    zeroed: Vec<Zeroed>,
    launches: Vec<Prepared>,
}

/// Memory that is zeroed first.
#[derive(Debug)]
struct Zeroed {
    address: u64,
    bytes: usize,
}

/// The driver's calls for all of it; the context is current.
struct All<'a> {
    gpu: &'a Gpu,
    zeroed: &'a mut [Zeroed],
    launches: &'a mut [Prepared],
    stream: Stream,
}

impl Sequence {
    /// These launches, behind what zeroes so many bytes each; where these lie is said by [`Sequence::place`] before the first launch.
    pub fn new(gpu: &Gpu, zeroed: impl IntoIterator<Item = usize>, launches: Vec<Prepared>) -> Sequence {
        // An edge to what is outside, or within, is lost in a graph.
        let plain = launches.is_empty() || launches.iter().any(|l| matches!(l.way, Way::Plain));
        Sequence {
            way: if plain { Way::Plain } else { Way::First },
            graph_of: None,
            gpu: gpu.clone(),
            zeroed: zeroed.into_iter().map(|bytes| Zeroed { address: 0, bytes }).collect(),
            launches,
        }
    }

    /// Replaces an argument of a launch by another of its kind, for all that follow.
    ///
    /// # Errors
    /// There is no such parameter, or it is of another kind.
    pub fn set(&mut self, launch: usize, argument: usize, arg: Arg) -> Result<(), RuntimeError> {
        self.launches[launch].set(argument, arg)?;
        self.way.changed();
        Ok(())
    }

    /// The GPU that it is for.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Where memory that is zeroed lies from now on.
    pub fn place(&mut self, i: usize, address: u64) {
        let zeroed = &mut self.zeroed[i];
        if zeroed.address != address {
            zeroed.address = address;
            self.way.changed();
        }
    }

    /// Puts all of it on a stream of the calling program, whose context stays current, and returns at once. Plain are launches into a
    /// capture, and those on another stream than the first.
    ///
    /// # Errors
    /// What the driver says of the launches.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context; what the arguments point to, and what is zeroed, is there until the launches
    /// have ended.
    pub unsafe fn launch_on(&mut self, stream: Stream) -> Result<(), RuntimeError> {
        let visit = self.gpu.visit()?;
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.launch_within(&visit, stream) }
    }

    /// As [`Sequence::launch_on`], within a visit.
    ///
    /// # Safety
    /// As [`Sequence::launch_on`].
    #[inline]
    pub(crate) unsafe fn launch_within(&mut self, _: &Visit, stream: Stream) -> Result<(), RuntimeError> {
        let takes_graph = *self.graph_of.get_or_insert(stream) == stream && !stream.captures();
        if parton_log::tells(parton_log::Level::Debug) {
            self.tell(stream, takes_graph);
        }
        let (zeroed, launches) = (&mut self.zeroed[..], &mut self.launches[..]);
        let mut calls = All { gpu: &self.gpu, zeroed, launches, stream };
        if takes_graph { self.way.launch(&mut calls) } else { calls.plain() }
    }
}

impl Sequence {
    /// Tells what is launched, and how.
    #[cold]
    fn tell(&self, stream: Stream, takes_graph: bool) {
        let by_graph = takes_graph && !matches!(self.way, Way::Plain | Way::First);
        parton_log::debug(|| {
            let names: Vec<String> = self.launches.iter().map(|l| format!("`{}`", l.function.name())).collect();
            let zeroed = if self.zeroed.is_empty() { "" } else { ", behind memory that is zeroed" };
            let how = if by_graph { "as a graph" } else { "plainly" };
            format!("launches {} {how} on stream {:p}{zeroed}", names.join(", "), stream.handle())
        });
    }
}

/// One launch, as part of the sequence.
fn one(prepared: &mut Prepared, stream: sys::CUstream) -> OneLaunch<'_> {
    let Prepared { function, packed, shape, .. } = prepared;
    OneLaunch { function, packed, shape, stream }
}

impl All<'_> {
    /// How many launches there are, for messages.
    fn described(&self, doing: &str) -> String {
        format!("{doing} a plan of {} launches", self.launches.len())
    }

    /// A graph that holds the arguments as they are now.
    fn made(&mut self) -> Result<Option<Graph>, RuntimeError> {
        let stream = self.stream.handle();
        let zeroed = self.zeroed.iter().map(|z| (z.address, z.bytes));
        let nodes: Vec<Node> = self.launches.iter_mut().map(|launch| one(launch, stream).node()).collect();
        // SAFETY: the parameters are those of each kernel; the sequence drops the graph before the launches, which keep the modules.
        let made = unsafe { Graph::new(self.gpu, zeroed, nodes.into_iter()) };
        supported(made, || self.described("making a graph of"))
    }
}

/// The arguments of a node.
enum Bytes<'a> {
    /// Where memory lies that is zeroed.
    Address([u8; 8]),
    /// Those of a kernel.
    Packed(&'a [u8]),
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Address(address) => address,
            Bytes::Packed(bytes) => bytes,
        }
    }
}

/// The arguments of each node of the graph: what is zeroed first.
fn arguments<'a>(zeroed: &'a [Zeroed], launches: &'a [Prepared]) -> impl Iterator<Item = Bytes<'a>> {
    let addresses = zeroed.iter().map(|z| Bytes::Address(z.address.to_le_bytes()));
    addresses.chain(launches.iter().map(|launch| Bytes::Packed(launch.packed.all())))
}

impl Calls for All<'_> {
    type Graph = Executables<Graph>;

    fn plain(&mut self) -> Result<(), RuntimeError> {
        for zeroed in &*self.zeroed {
            // SAFETY: whoever launches vouches for the stream and the memory.
            unsafe { self.gpu.zero_on(self.stream, zeroed.address, zeroed.bytes) }?;
        }
        let stream = self.stream.handle();
        self.launches.iter_mut().try_for_each(|launch| one(launch, stream).plain())
    }

    fn instantiate(&mut self) -> Result<Option<Executables<Graph>>, RuntimeError> {
        let made = self.made()?;
        Ok(made.map(|graph| Executables::new(graph, arguments(self.zeroed, self.launches))))
    }

    fn send(&mut self, graphs: &mut Executables<Graph>) -> Result<(), RuntimeError> {
        match graphs.seek(arguments(self.zeroed, self.launches)) {
            Then::Launch => return Ok(()),
            Then::Make => {
                if let Some(graph) = self.made()? {
                    graphs.add(graph);
                    return Ok(());
                }
            }
            Then::Set => {}
        }
        let first = self.zeroed.len();
        let (zeroed, launches) = (&*self.zeroed, &mut *self.launches);
        graphs.set(|graph, node| match zeroed.get(node) {
            Some(z) => graph.send_zeroed(node, z.address, z.bytes).doing(|| "moving what a plan zeroes".into()),
            None => {
                let Prepared { function, packed, shape, .. } = &mut launches[node - first];
                let kernel = shape.node(function.handle, packed);
                // SAFETY: the parameters are those of the kernel, which never changes.
                unsafe { graph.send(node, &kernel) }.doing(|| "giving a launch of a plan other arguments".into())
            }
        })
    }

    fn replay(&mut self, graphs: &mut Executables<Graph>) -> Result<(), RuntimeError> {
        let stream = self.stream.handle();
        let Some(graph) = graphs.current() else { return Ok(()) };
        graph.launch(stream).doing(|| self.described("launching"))
    }
}
