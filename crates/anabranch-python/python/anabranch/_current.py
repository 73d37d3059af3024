"""The current stream: of a thread, or of a task of asyncio, and of each context."""

from __future__ import annotations

# The streams that `with` has entered, outermost first: set by the methods of `Stream`.
from ._anabranch import _ENTERED

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._anabranch import Context, Stream


def current_stream(context: Context | None = None) -> Stream | None:
    """The stream that was entered last by ``with stream:``, of a context or of any. ``None`` if there is none.

    A task of asyncio begins with the streams of whoever has created it, and its own ``with`` concerns itself only. A new
    thread begins with none, before Python 3.14 at least.
    """
    for stream in reversed(_ENTERED.get()):
        if context is None or stream.context == context:
            return stream
    return None
