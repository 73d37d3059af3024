"""Threads that call functions in stream order.

They are threads of Python, started one for each call that runs at the same time as others, and wait for more calls after that. The
interpreter does not wait for them when it ends.
"""

from __future__ import annotations

import _thread
import sys

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
        outcome = None
        try:
            call.function(*call.arguments, **call.keywords)
        except BaseException as error:
            # This function is none of the caller's business. A class of the program may have methods of its own.
            traceback = sys.exc_info()[2]
            outcome = BaseException.with_traceback(error, traceback.tb_next if traceback else None)
            del traceback
        call.end(outcome)
        del call, outcome
