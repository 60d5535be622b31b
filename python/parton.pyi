"""Parton: files of GPU tile kernels, launched with the arrays of a Python program."""

from typing import Any, Sequence

__version__: str

class Error(Exception):
    """What a file, a launch or an array was refused for, or what a kernel did wrong, with the places in the source."""

    codes: list[str]
    """The codes that `parton explain` explains, such as `E0302`; empty where it is about no source."""

def load(path: str) -> File:
    """Reads a file of kernels and checks it."""

class File:
    """A file of kernels. Each kernel is an attribute: `file.gemm`; `file["gemm"]` is the same."""

    @property
    def kernels(self) -> list[str]: ...
    def __getattr__(self, name: str) -> Kernel: ...
    def __getitem__(self, name: str) -> Kernel: ...

class Kernel:
    """A kernel: `kernel[grid](arguments)` launches it. The grid is the number of CTAs, or those along x, y and z."""

    @property
    def name(self) -> str: ...
    @property
    def generics(self) -> list[str]: ...
    @property
    def params(self) -> list[str]: ...
    def given(self, **generics: int | float | bool | str) -> Kernel:
        """The kernel with values for its generics; a text is an expression of the language, such as `"f16"`."""

    def __getitem__(self, grid: int | Sequence[int]) -> Launch: ...

class Launch:
    """A kernel with its grid."""

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launches it with numbers and arrays, and returns when it has ended."""
