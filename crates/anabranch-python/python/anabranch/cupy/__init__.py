"""Takes the place of CuPy where programs use its streams: ``import anabranch.cupy as cupy``.

`cuda` has streams, events, graphs, devices, memory pools and the functions of the runtime, and `RawKernel` and `RawModule` are
kernels in CUDA C++ or PTX. All of it runs on GPUs, and on the software device if there is no GPU. There are no arrays:
kernels take `anabranch.Buffer` and arrays of other libraries, CuPy's included.

Importing this module imports no other library, and loads no driver.
"""

from . import cuda
from ._raw import RawKernel, RawModule

__all__ = ["RawKernel", "RawModule", "cuda"]
