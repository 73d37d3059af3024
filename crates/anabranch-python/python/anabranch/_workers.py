"""Threads that call functions in stream order.

They are threads of Python, started one for each call that runs at the same time as others, and wait for more calls after that. The
interpreter does not wait for them when it ends.
"""

from __future__ import annotations

import _thread

from ._anabranch import _next_call


def start() -> None:
    """Starts a thread that waits for calls."""
    _thread.start_new_thread(_work, ())


def _work() -> None:
    while True:
        call = _next_call()
        if call.is_last:
            try:
                start()
            except RuntimeError:
                # There can be no more threads. Other calls wait for this one.
                pass
        try:
            call.function(*call.arguments, **call.keywords)
        except BaseException as error:
            # This function is none of the caller's business.
            call.end(error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None))
        else:
            call.end(None)
        del call
