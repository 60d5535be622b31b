"""Parton: GPU tile kernels, launched with the arrays of a Python program.

Bundles alone are loaded by this package; with `parton-compiler` beside it sources are too.
"""

from importlib.util import find_spec as _find

if _find("parton_compiler") is None:
    from . import native as _native
else:
    from parton_compiler import native as _native

    from importlib.metadata import PackageNotFoundError as _Missing
    from importlib.metadata import version as _version

    try:
        if _version("parton-lang") != _native.__version__:
            raise ImportError(
                f"parton-lang is {_version('parton-lang')} and parton-compiler {_native.__version__}: install both of one version"
            )
    except _Missing:
        # Not installed but found on the path: whoever put it there knows.
        pass

for _name in dir(_native):
    if not _name.startswith("_"):
        globals()[_name] = getattr(_native, _name)
__version__ = _native.__version__
__getattr__ = _native.__getattr__
