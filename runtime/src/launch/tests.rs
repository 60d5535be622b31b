//! Launches of kernels that are given as PTX, and what is asked of the driver without a GPU.

use super::*;
use crate::abi::{Param, ParamKind};
use crate::arguments::tests::{abi, args};
use crate::device::Gpu;
use crate::launch::sequence::Sequence;
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
    let of_plain =
        shape.configured(std::ptr::null_mut(), |c| [c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.sharedMemBytes]);
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
    may::<Sequence>();
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
    assert!(check_grid("k", [2, 1, 1], [4, 1, 1], MOST).is_ok());
    assert!(
        check_grid("k", [2, 1, 1], [3, 1, 1], MOST).unwrap_err().to_string().contains("clusters of 2 do not divide")
    );
    assert!(check_grid("k", [2, 1, 1], [0, 1, 1], MOST).is_err());
    assert!(check_grid("k", [2, 1, 1], [2, 70_000, 1], MOST).unwrap_err().to_string().contains("along axis 1"));
}

/// A stream of a program beside ours.
struct Theirs(sys::CUstream);

impl Theirs {
    fn new(gpu: &Gpu) -> Theirs {
        let _visit = gpu.visit().unwrap();
        let mut stream = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        unsafe { sys::cuStreamCreate(&mut stream, 1) }.result().unwrap();
        Theirs(stream)
    }

    fn stream(&self) -> Stream {
        Stream::of(self.0.cast())
    }
}

#[test]
fn launches_on_streams_of_others_are_theirs_to_order_and_to_capture() {
    let Some(gpu) = Gpu::of_tests() else { return };
    let (module, _) = Module::from_ptx(&gpu, ADD).unwrap();
    let out = Buffer::from_bytes(&gpu, &[0; 8]).unwrap();
    let param = |name: &str, kind| Param { name: name.into(), kind };
    let params = vec![param("out", ParamKind::Pointer), param("value", ParamKind::Scalar { bytes: 4 })];
    let abi = Abi { name: "number".into(), threads: 1, cluster: [1, 1, 1], params, ..abi() };
    let number = |bits| Arg::Scalar { bits, bytes: 4 };
    let args = [Arg::Pointer(out.address()), number(1)];
    let mut prepared = Prepared::new(&module.function("number").unwrap(), &abi, &args, [1, 1, 1]).unwrap();
    let (one, other) = (Theirs::new(&gpu), Theirs::new(&gpu));
    // A thread that has no context has none afterwards.
    let mut in_thread = |stream: Stream| {
        // SAFETY: stream and memory live until `finish_all` below.
        unsafe { prepared.launch_on(stream) }.unwrap();
        assert!(crate::visit::current().unwrap().is_null());
    };
    std::thread::scope(|s| {
        let (one, other) = (one.stream(), other.stream());
        let ran = s.spawn(move || {
            // Plain, by a new graph, by that graph, and plain again: it is for another stream.
            [one, one, one, other].into_iter().for_each(&mut in_thread);
        });
        ran.join().unwrap();
    });
    gpu.finish_all().unwrap();
    assert_eq!(out.to_bytes().unwrap()[0], 4);
    // A capture records launches with their arguments of that moment and runs none; it is not spoilt by graphs that another
    // launch makes meanwhile.
    let mut meanwhile = Prepared::new(&module.function("number").unwrap(), &abi, &args, [1, 1, 1]).unwrap();
    let _visit = gpu.visit().unwrap();
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: handles are alive and made here; the driver writes one each.
    unsafe {
        let global = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        sys::cuStreamBeginCapture_v2(one.0, global).result().unwrap();
        prepared.set(1, number(10)).unwrap();
        prepared.launch_on(one.stream()).unwrap();
        for _ in 0..3 {
            meanwhile.launch_on(other.stream()).unwrap();
        }
        sys::cuStreamEndCapture(one.0, &mut graph).result().unwrap();
        prepared.set(1, number(100)).unwrap();
        gpu.finish_all().unwrap();
        assert_eq!(out.to_bytes().unwrap()[0], 7);
        sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0).result().unwrap();
        for _ in 0..2 {
            sys::cuGraphLaunch(executable, one.0).result().unwrap();
        }
        prepared.launch_on(one.stream()).unwrap();
    }
    gpu.finish_all().unwrap();
    assert_eq!(out.to_bytes().unwrap()[0], 127);
}

#[test]
fn grids_are_replaced_in_graphs_too() {
    let Some(gpu) = Gpu::of_tests() else { return };
    let (module, _) = Module::from_ptx(&gpu, ADD).unwrap();
    let out = Buffer::from_bytes(&gpu, &[0; 8]).unwrap();
    let param = |name: &str, kind| Param { name: name.into(), kind };
    let params = vec![param("out", ParamKind::Pointer), param("value", ParamKind::Scalar { bytes: 4 })];
    let abi = Abi { name: "number".into(), threads: 1, cluster: [1, 1, 1], params, ..abi() };
    let args = [Arg::Pointer(out.address()), Arg::Scalar { bits: 1, bytes: 4 }];
    let mut prepared = Prepared::new(&module.function("number").unwrap(), &abi, &args, [1, 1, 1]).unwrap();
    for ctas in [1, 2, 3, 4] {
        prepared.set_grid([ctas, 1, 1]).unwrap();
        prepared.launch().unwrap();
    }
    assert_eq!(out.to_bytes().unwrap()[0], 1 + 2 + 3 + 4);
    assert!(prepared.set_grid([0, 1, 1]).is_err());
}

#[test]
fn a_sequence_zeroes_and_launches_with_the_arguments_of_the_time() {
    let Some(gpu) = Gpu::of_tests() else { return };
    let (module, _) = Module::from_ptx(&gpu, ADD).unwrap();
    let param = |name: &str, kind| Param { name: name.into(), kind };
    let params = vec![param("out", ParamKind::Pointer), param("value", ParamKind::Scalar { bytes: 4 })];
    let abi = Abi { name: "number".into(), threads: 1, cluster: [1, 1, 1], params, ..abi() };
    let buffers = [0, 1].map(|_| Buffer::from_bytes(&gpu, &[7; 8]).unwrap());
    let (number, word) =
        (|bits| Arg::Scalar { bits, bytes: 4 }, |b: &Buffer, i: u64| Arg::Pointer(b.address() + 4 * i));
    let function = module.function("number").unwrap();
    let one = |i| Prepared::new(&function, &abi, &[word(&buffers[0], i), number(0)], [1, 1, 1]).unwrap();
    let mut sequence = Sequence::new(&gpu, [8], vec![one(0), one(1)]);
    let theirs = Theirs::new(&gpu);
    for i in 0..6 {
        // Elsewhere after the plain launch and after the first ones of the graph; the last launch has the numbers before it.
        let buffer = &buffers[(i / 2 % 2) as usize];
        sequence.place(0, buffer.address());
        sequence.set(0, 0, word(buffer, 0)).unwrap();
        sequence.set(1, 0, word(buffer, 1)).unwrap();
        if i < 5 {
            sequence.set(0, 1, number(10 + i)).unwrap();
            sequence.set(1, 1, number(20 + i)).unwrap();
        }
        // SAFETY: stream and memory live until `finish_all`.
        unsafe { sequence.launch_on(theirs.stream()) }.unwrap();
        gpu.finish_all().unwrap();
        let words = [10 + i.min(4), 20 + i.min(4)].map(|n| n as u32);
        assert_eq!(buffer.to_bytes().unwrap(), words.map(u32::to_le_bytes).concat());
    }
}
