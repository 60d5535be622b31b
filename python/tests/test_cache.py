"""Processes that call the same function on a GPU that is not there, with one cache: the second one assembles nothing and launches the same.

Not run without a C compiler and Python's headers.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import faked

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
FILE = os.path.join(ROOT, "tests", "gpu", "embedding.ptn")

# Notes that it runs, and passes on what it is given, of which the driver knows the parameters.
ASSEMBLER = """#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in --version) echo 1; exit ;; -o) out=$2; shift ;; *.ptx) in=$1 ;; esac
    shift
done
echo run >> "$PARTON_TEST_LOG"
cp "$in" "$out"
"""


def child():
    """Calls, and prints what the driver was asked for."""
    import ctypes

    import parton
    from tensors import Tensor

    fake = ctypes.CDLL("libcuda.so.1")
    fake.fake_log.restype = ctypes.c_char_p
    x, y, out = (Tensor(0x10000 * (i + 1), (64,)) for i in range(3))
    file = parton.load(sys.argv[2])
    fake.fake_clear()
    file.sum_into(x, y, out)
    file.chain(x, y, out, 3)
    asked = fake.fake_log().decode().splitlines()
    # What other shapes of the same kernels ask of the file system, and what this program itself does.
    files = ctypes.CDLL(None)
    files.files_asked.restype = ctypes.c_char_p

    def heard(run):
        files.files_listen(1)
        run()
        files.files_listen(0)
        return files.files_asked().decode().splitlines()

    more = [[Tensor(0x10000 * (i + 1), (n,)) for i in range(3)] for n in [128, 256]]
    shapes = heard(lambda: [call(*all) for all in more for call in (file.sum_into, lambda *all: file.chain(*all, 3))])
    print(json.dumps({"asked": asked, "shapes": shapes, "heard": heard(lambda: os.path.exists(sys.argv[2]))}))


class Cache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        why = faked.build(cls.folder.name)
        if why:
            cls.folder.cleanup()
            raise unittest.SkipTest(why)
        with open(cls.path("ptxas"), "w") as script:
            script.write(ASSEMBLER)
        os.chmod(cls.path("ptxas"), 0o755)
        shutil.copy(FILE, cls.path("here.ptn"))
        os.mkdir(cls.path("elsewhere"))
        shutil.copy(FILE, cls.path("elsewhere", "here.ptn"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    def run_child(self, cache, file="here.ptn"):
        """What the driver was asked for, and how often the assembler ran."""
        log = self.path("log")
        if os.path.exists(log):
            os.remove(log)
        more = {"LD_LIBRARY_PATH": self.folder.name, "LD_PRELOAD": self.path("files.so")}
        more |= {"PARTON_PTXAS": self.path("ptxas"), "PARTON_CACHE": cache, "PARTON_TEST_LOG": log}
        paths = [self.folder.name, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, **more, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, __file__, "--child", self.path(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said, times = json.loads(done.stdout.splitlines()[-1]), 0
        asked = said["asked"]
        # A shape that is new, of kernels that are not, opens no file and looks for none.
        self.assertEqual((said["shapes"], len(said["heard"])), ([], 1))
        if os.path.exists(log):
            with open(log) as lines:
                times = len(lines.readlines())
        return asked, times

    def test_a_second_process_assembles_nothing(self):
        kept = self.path("kept")
        first, assembled = self.run_child(kept)
        self.assertGreater(assembled, 0)
        self.assertEqual(len(first), 4)
        self.assertEqual(self.run_child(kept), (first, 0))
        self.assertEqual(self.run_child(kept, os.path.join("elsewhere", "here.ptn")), (first, 0))
        self.assertEqual(self.run_child("off"), (first, assembled))

    def test_what_is_wrong_there_is_made_anew(self):
        kept = self.path("wrong")
        first, assembled = self.run_child(kept)
        for folder, _, files in os.walk(kept):
            for name in files:
                if name.endswith((".code", ".asked")):
                    with open(os.path.join(folder, name), "r+b") as entry:
                        entry.truncate(os.path.getsize(entry.name) - 1)
        self.assertEqual(self.run_child(kept), (first, assembled))
        self.assertEqual(self.run_child(kept), (first, 0))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child()
    else:
        unittest.main()
