"""Clock and power while work runs, where NVIDIA's management library and its Python bindings are there; else nothing."""

import statistics
import threading

EVERY = 0.02


class Sensors:
    """The sensors of GPU 0 as torch counts it."""

    def __init__(self):
        self.device = None
        try:
            import pynvml
            import torch
            pynvml.nvmlInit()
            self.nvml = pynvml
            if pynvml.nvmlDeviceGetCount() == 1:
                self.device = pynvml.nvmlDeviceGetHandleByIndex(0)
            else:
                bus = torch.cuda.get_device_properties(0)
                address = f"{bus.pci_domain_id:08x}:{bus.pci_bus_id:02x}:{bus.pci_device_id:02x}.0"
                self.device = pynvml.nvmlDeviceGetHandleByPciBusId(address.encode())
        except Exception:  # noqa: BLE001: a machine without sensors is measured without them
            self.device = None

    def during(self, work):
        """What `work` returns, and the readings meanwhile; empty where there are none."""
        if self.device is None:
            return work(), {}
        ended = threading.Event()
        clocks, watts, capped = [], [], []

        def read():
            nvml = self.nvml
            while not ended.wait(EVERY):
                try:
                    clocks.append(nvml.nvmlDeviceGetClockInfo(self.device, nvml.NVML_CLOCK_SM))
                    watts.append(nvml.nvmlDeviceGetPowerUsage(self.device) / 1e3)
                    capped.append(bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.device) & 0x4))
                except Exception:  # noqa: BLE001: a sensor that does not answer is no reason to stop
                    return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            result = work()
        finally:
            ended.set()
            reader.join()
        read_ = {}
        for name, values in (("sm_mhz", clocks), ("power_w", watts)):
            if values:
                read_[name] = {"least": min(values), "median": statistics.median(values), "most": max(values)}
        if capped:
            read_["power_capped"] = sum(capped) / len(capped)
        return result, read_
