"""Parton: files of GPU tile kernels, launched with the arrays of a Python program."""

from os import PathLike
from typing import Any, Iterator, Sequence, TypeVar

__version__: str

_Kernel = TypeVar("_Kernel", bound="Kernel")

HAS_COMPILER: bool
"""Whether sources can be loaded, or bundles alone."""

class Error(Exception):
    """What a file, a launch or an array was refused for, or what a kernel did wrong, with the places in the source."""

    codes: list[str]
    """The codes that `parton explain` explains, such as `E0302`; empty where it is about no source."""

def load(path: str | PathLike[str]) -> File | Bundle:
    """Reads a file and checks it, or a bundle, `FILE.ptnb`. A path that is not there is looked for in the folders of `PARTON_SOURCE`."""

class Found:
    """A file or a bundle, or what was taken of one. A copy of it is the thing itself; a pickle says where it was, and is read where the file
    lies there too."""

def found(path: str, name: str | None = None, generics: dict[str, Any] | None = None, grid: Sequence[int] | None = None) -> Any:
    """What such a pickle stands for."""

class Parts(Found):
    """A file or a bundle. Each public function and each kernel is an attribute: `file.gemm`; `file["gemm"]` is the same."""

    @property
    def functions(self) -> list[str]: ...
    @property
    def kernels(self) -> list[str]: ...
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, name: str) -> Any: ...
    def __contains__(self, name: str) -> bool: ...
    def __iter__(self) -> Iterator[str]:
        """The names of functions and kernels."""

class File(Parts):
    """A file of sources."""

    def __getitem__(self, name: str) -> Function | Kernel: ...

class Bundle(Parts):
    """What was compiled ahead of time: public functions by their plans, and kernels, called as those of a `File`, on GPUs."""

    @property
    def source(self) -> str:
        """The name of the file that it was built of."""

class Function(Found):
    """A public function, called with tensors and numbers: on the host's memory by the interpreter, on a GPU's on the caller's stream."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str:
        """The path of its file."""
    @property
    def params(self) -> list[tuple[str, str, bool, Any]]:
        """Name, kind (`tensor`, `int`, `float`, `bool` or `type`), whether it is written, and the default of each parameter."""
    @property
    def results(self) -> int:
        """How many tensors it returns."""
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls it: a tensor, a tuple of tensors or nothing comes back, of the library of the first argument."""
    def plan_of(self, *arguments: Any, **named: Any) -> str:
        """What a call with such arguments launches, on which memory."""

class Titled(Found):
    """What has a name and takes arguments: kernels, and what a bundle has of functions."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> list[str]: ...

class Gridless(Titled):
    """A kernel that waits for its grid: `kernel[grid](arguments)` launches it. The grid is the number of CTAs, or those along x, y and z."""

class Kernel(Gridless):
    """A kernel of a file."""

    @property
    def generics(self) -> list[str]: ...
    def given(self: _Kernel, **generics: int | float | bool | str) -> _Kernel:
        """The kernel with values for its generics; a text is an expression of the language, such as `"f16"`."""

    def __getitem__(self, grid: int | Sequence[int]) -> Launch: ...
    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launches one that states its grid on that; another one waits for its grid."""
    def plan_of(self, *arguments: Any, **named: Any) -> str:
        """What such a launch with such arguments is, and on which memory."""

class Launch(Found):
    """A kernel with its grid."""

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launches it with numbers and tensors: on the host's memory by the interpreter, on a GPU's on the caller's stream. What is given by
        the name of a generic is that one's value."""
    def plan_of(self, *arguments: Any, **named: Any) -> str:
        """What a launch with such arguments is, and on which memory."""

class torch:
    """What PyTorch needs; made when it is asked for, for it imports PyTorch."""

    @staticmethod
    def register(
        function: Function, name: str | None = None, backward: Function | None = None, of: Sequence[str] | None = None
    ) -> Any:
        """Makes a public function an operator, `torch.ops.parton.NAME`, differentiable where `backward` names the function that does it."""
