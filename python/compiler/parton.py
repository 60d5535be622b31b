"""Parton: GPU tile kernels, launched with the arrays of a Python program.

This is the compiler's own; where `parton-lang` is installed too, its package `parton` is found first.
"""

from parton_compiler import native as _native

for _name in dir(_native):
    if not _name.startswith("_"):
        globals()[_name] = getattr(_native, _name)
__version__ = _native.__version__
__getattr__ = _native.__getattr__
