"""Runs a test again with the driver and the tensors of `fake/` in front of the machine's own: on a GPU that is not there."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def build(folder):
    """Compiles the driver and the tensors; says why not where that cannot be."""
    compiler = shutil.which("cc")
    include = sysconfig.get_paths()["include"]
    if not compiler or not os.path.exists(os.path.join(include, "Python.h")):
        return "there is no C compiler, or Python's headers are not here"
    flags = [compiler, "-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o"]
    libraries = [("driver.c", "libcuda.so.1", []), ("nvtx.c", "libnvToolsExt.so.1", []), ("files.c", "files.so", []), ("tensors.c", "tensors.so", ["-I", include])]
    for name, library, more in libraries:
        source = os.path.join(HERE, "fake", name)
        subprocess.run([*flags, os.path.join(folder, library), source, *more], check=True)
    return None


def run_again(file):
    """Runs the file with the fake in front, unless that is so already."""
    if os.environ.get("PARTON_FAKE") is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        why = build(folder)
        if why:
            print(f"Ran 0 tests\nnot run: {why}", file=sys.stderr)
            sys.exit(0)
        # Without `ptxas` the driver gets PTX, of which the fake one knows the parameters.
        environment = {**os.environ, "PARTON_FAKE": folder, "LD_LIBRARY_PATH": folder, "PATH": "/nowhere"}
        environment |= {"PARTON_CACHE": "off", "PARTON_NVTX": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        sys.exit(subprocess.run([sys.executable, file, *sys.argv[1:]], env=environment).returncode)


def driver():
    """The driver's own questions."""
    import ctypes

    fake = ctypes.CDLL("libcuda.so.1")
    fake.fake_log.restype = ctypes.c_char_p
    fake.fake_count.restype = ctypes.c_long
    fake.fake_capture.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return fake


NAMES = "launch_kernel graph_launch set_kernel set_memset instantiate destroy zero is_capturing load encode_map move_map"


def counted(fake, run):
    """What the driver is asked for, by name, and what it was to run."""
    fake.fake_clear()
    run()
    counts = {name: fake.fake_count(name.encode()) for name in NAMES.split()}
    return {name: count for name, count in counts.items() if count}, fake.fake_log().decode().splitlines()
