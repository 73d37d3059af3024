"""Errors of the library with the beginning that Warp gives them."""

from __future__ import annotations

from .._errors import AnabranchError


def described(message: str, error: AnabranchError, separator: str = ": ") -> AnabranchError:
    """The same error, whose text begins with a message. It is a ``RuntimeError``, which Warp raises."""
    return type(error)(f"{message}{separator}{error}", error._details)
