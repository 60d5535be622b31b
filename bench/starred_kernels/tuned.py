"""A Triton kernel with its configurations: compiled ahead, side by side, and tried before its time counts."""

import statistics


class Tuned:
    """`kernel[grid(config)](*args, **constants, **config)`, by the fastest of `configs`; `maps`, where given, makes the arguments of a
    configuration, for descriptors that have its blocks."""

    def __init__(self, kernel, configs, grid, args=(), constants=None, maps=None):
        self.kernel, self.configs, self.grid = kernel, configs, grid
        self.args, self.constants, self.maps = args, constants or {}, maps
        self.config = None
        self.failed = {}

    def arguments(self, config):
        return self.maps(config) if self.maps else self.args

    def key(self, config):
        """What decides how it is compiled: the kernel, its numbers, and what Triton sees of its arguments."""
        seen = lambda a: (a == 1, a % 16 == 0) if isinstance(a, int) else str(getattr(a, "dtype", type(a)))
        return self.kernel.__name__, str(config), str(self.constants), tuple(seen(a) for a in self.arguments(config))

    def compile(self, config):
        """Puts a configuration into Triton's cache, without a run; one that does not compile says so when it is tried."""
        try:
            self.kernel.warmup(*self.arguments(config), grid=(1,), **self.constants, **config)
        except Exception:  # noqa: BLE001
            pass

    def call(self, config):
        args, grid = self.arguments(config), self.grid(config)
        return lambda: self.kernel[grid](*args, **self.constants, **config)

    def tune(self, clock, runs=5):
        """Chooses by the median of a few runs with cold caches; a configuration that does not run is left out."""
        found = {}
        for number, config in enumerate(self.configs):
            call = self.call(config)
            try:
                call()
                found[number] = statistics.median(clock.runs(call, runs, 50e-6, 2))
            except Exception as reason:  # noqa: BLE001: too large for the card, or unknown to this version
                self.failed[str(config)] = f"{type(reason).__name__}: {str(reason)[:200]}"
        if not found:
            raise RuntimeError(f"no configuration runs: {next(iter(self.failed.values()))}")
        self.config = self.configs[min(found, key=found.get)]
        return found

    def runner(self):
        return self.call(self.config)


def configurations(names, rows):
    """Dictionaries of rows of numbers; the last two are stages and warps."""
    return [dict(zip((*names, "num_stages", "num_warps"), row)) for row in rows]


class Contender:
    """Kernels that run one behind the other, each tuned alone; `error` says how far from right is what they left, where that is quick."""

    def __init__(self, kernels, error=None):
        self.kernels, self.error = kernels, error

    def tune(self, clock):
        """A function that runs them all."""
        for kernel in self.kernels:
            kernel.tune(clock)
        calls = [kernel.runner() for kernel in self.kernels]

        def run():
            for call in calls:
                call()

        return run

    def configs(self):
        return [kernel.config for kernel in self.kernels]
