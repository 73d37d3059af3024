"""Threads that call functions in stream order.

They are threads of Python, started one for each call that runs at the same time as others, and wait for more calls after that, for a
while. The interpreter does not wait for them when it ends.
"""

from __future__ import annotations

import _thread
import sys

from ._anabranch import _next_call


def work() -> None:
    """What each thread does: it makes calls until there was none for a while."""
    is_needed = True
    try:
        while is_needed:
            is_needed = _make_next_call()
    finally:
        # Another thread may have raised an exception in this one, which ends with it.
        if is_needed:
            _start()


def _start() -> None:
    _thread.start_new_thread(work, ())


def _make_next_call() -> bool:
    """Waits for a call, and makes it. False if there was none for a while."""
    call = _next_call()
    if call is None:
        return False
    if call.is_last:
        try:
            _start()
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
    return True
