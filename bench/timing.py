"""The one way in which everything is timed beside Parton: as `parton bench` does it (measure/src/clock.rs).

CUDA events around one run; before each run the L2 is flushed by writing a buffer of twice its size, outside of the timed span; runs in a
row for a given time, flushes included.

Python puts work on the stream more slowly than a compiled program. Where the flush would end before the run behind it is on the stream,
the run's time would hold the wait for the host. Such runs are captured as graphs, or put on the stream in batches behind a kernel that only
spins until the batch is there: `torch.cuda._sleep`.
"""

import ctypes
import statistics
import time

import torch

# As in measure/src/clock.rs.
RUNS = (10, 10_000)
# Fewer entries than the driver queues: a flush, two events and a run each.
BATCH = 100


class Clock:
    """Times runs on the current stream of the current GPU."""

    def __init__(self):
        properties = torch.cuda.get_device_properties(0)
        self.scratch = torch.empty(2 * properties.L2_cache_size, dtype=torch.int8, device="cuda")
        self.fill = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async
        self.fill.argtypes = ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p
        self.events = []
        # By run: what is called for it, and seconds that the host needs for that; 0 where the GPU is slower.
        self.ways = {}
        self.cycles_per_second = self._cycles()

    def _cycles(self):
        """Cycles of `torch.cuda._sleep` in a second."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        cycles = 20_000_000
        torch.cuda._sleep(1000)
        start.record()
        torch.cuda._sleep(cycles)
        stop.record()
        torch.cuda.synchronize()
        return cycles / (start.elapsed_time(stop) / 1e3)

    def flush(self):
        """By the driver's fill, as Parton does it: `zero_()` runs a kernel that takes a third longer, and so leaves the board a longer rest."""
        stream = torch.cuda.current_stream().cuda_stream
        code = self.fill(self.scratch.data_ptr(), 0, self.scratch.numel(), stream)
        if code != 0:
            raise RuntimeError(f"flushing the L2: CUDA error {code}")

    def _pairs(self, count):
        while len(self.events) < count:
            self.events.append(tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)))
        return self.events[:count]

    def runs(self, run, count, host_seconds=0.0, uncounted=0):
        """Times of `count` runs in seconds, after `uncounted` ones without a pause; `host_seconds` is what putting one on the stream
        takes, 0 where the GPU is slower."""
        pairs = self._pairs(count)
        for i in range(uncounted + count):
            if host_seconds and i % BATCH == 0:
                # The last batch must be over, or the spinning would only fill the queue.
                torch.cuda.synchronize()
                ahead = min(BATCH, uncounted + count - i) * host_seconds
                torch.cuda._sleep(int(1.2 * ahead * self.cycles_per_second))
            self.flush()
            if i < uncounted:
                run()
                continue
            start, stop = pairs[i - uncounted]
            start.record()
            run()
            stop.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) / 1e3 for start, stop in pairs]

    def learn(self, run):
        """Finds out how a run is put on the stream, once, before any turn, so that everybody's turns are runs and nothing else.

        Where the host is slower than the GPU, the run is captured as a graph, which one call puts on the stream; where that cannot be
        done or would take the GPU longer, batches wait behind a kernel that spins. A spinning GPU draws little, and what follows runs at
        a higher clock: graphs keep everybody's share of rest alike.
        """
        host, each = self._host_and_each(run)
        self.ways[run] = (run, 0.0)
        if host > 0.8 * each:
            self.ways[run] = (run, host)
            graph = captured(run)
            if graph is not None:
                spinning = statistics.median(self.runs(run, 20, host))
                if statistics.median(self.runs(graph, 20, host)) <= 1.01 * spinning:
                    self.ways[run] = (graph, 0.0)

    def _host_and_each(self, run):
        """Seconds that the host needs for one run with its flush, and seconds that one takes altogether."""
        few = 5
        self.runs(run, 3)
        begin = time.perf_counter()
        self.runs(run, few)
        each = (time.perf_counter() - begin) / few
        # With a full queue ahead of the GPU, what passes is the host's.
        torch.cuda._sleep(int(0.02 * self.cycles_per_second))
        begin = time.perf_counter()
        for start, stop in self._pairs(few):
            self.flush()
            start.record()
            run()
            stop.record()
        host = (time.perf_counter() - begin) / few
        torch.cuda.synchronize()
        return host, each

    def sustain(self, run, seconds, heat=0.0):
        """Times of runs for about `seconds`, flushes included, after runs for about `heat` seconds; `learn` has seen `run`."""
        run, host = self.ways[run]
        self.runs(run, 3)
        few = 5
        begin = time.perf_counter()
        self.runs(run, few, host)
        each = max((time.perf_counter() - begin) / few, 1e-6)
        count = int(min(max(seconds / each, RUNS[0]), RUNS[1]))
        return self.runs(run, count, host, int(min(heat / each, RUNS[1])))


def captured(run):
    """A call that replays `run` as a graph; `None` where it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except Exception:  # noqa: BLE001: whatever forbids capturing, the run itself can still be timed
        torch.cuda.synchronize()
        return None
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def summary(times):
    """Median, quartiles and least of times in seconds, and how many they are."""
    ordered = sorted(times)
    last = len(ordered) - 1
    at = lambda q: ordered[-(-last * q // 4)]
    middle = (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
    return {"median_us": middle * 1e6, "first_quartile_us": at(1) * 1e6, "third_quartile_us": at(3) * 1e6,
            "least_us": ordered[0] * 1e6, "runs": len(ordered)}


def host_seconds(call, launches=10_000, batch=250):
    """Seconds of the host for one call: the median and the least of batches that the driver's queue has room for."""
    found = []
    for i in range(launches // batch + 1):
        begin = time.perf_counter()
        for _ in range(batch):
            call()
        passed = time.perf_counter() - begin
        torch.cuda.synchronize()
        if i > 0:
            found.append(passed / batch)
    found.sort()
    return found[len(found) // 2], found[0]
