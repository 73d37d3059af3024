"""Takes the place of ``cupy.cuda.driver``, of which only the error is here."""

from ._errors import CUDADriverError

__all__ = ["CUDADriverError"]
