"""Messages, which a program can send elsewhere."""

from __future__ import annotations

import linecache
import sys
import warnings
from types import TracebackType
from typing import TextIO, Protocol, runtime_checkable

from .._anabranch import _restoring
from . import config

LOG_DEBUG = 10
"""The level of messages for debugging."""

LOG_INFO = 20
"""The level of information."""

LOG_WARNING = 30
"""The level of warnings."""

LOG_ERROR = 40
"""The level of errors."""


@runtime_checkable
class Logger(Protocol):
    """What receives messages: any object with these four methods. See `set_logger`."""

    def debug(self, message: str) -> None:
        """Receives a message for debugging."""

    def info(self, message: str) -> None:
        """Receives information."""

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        """Receives a warning. `stacklevel` can be passed to ``warnings.warn``."""

    def error(self, message: str) -> None:
        """Receives an error."""


class _Printer:
    """Prints information to the standard output, and the rest to the standard error."""

    def debug(self, message: str) -> None:
        sys.stdout.write(message + "\n")

    def info(self, message: str) -> None:
        sys.stdout.write(message + "\n")

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.warn(message, category, stacklevel=stacklevel)

    def error(self, message: str) -> None:
        sys.stderr.write(f"Warp Error: {message}\n")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = f"Warp {category.__name__}: {message}"
    if config.verbose_warnings:
        source = (linecache.getline(filename, lineno) if line is None else line).strip()
        text += f" ({filename}:{lineno})" + (f"\n  {source}" if source else "")
    sys.stderr.write(text + "\n")


_active: Logger = _Printer()
_METHODS = ("debug", "info", "warning", "error")


def _require_logger(logger: object) -> None:
    if not all(callable(getattr(logger, name, None)) for name in _METHODS):
        raise TypeError(
            "logger must implement the Logger protocol "
            "(debug(message), info(message), warning(message, category, stacklevel), error(message)), "
            f"got {type(logger)!r}"
        )


def set_logger(logger: Logger | None) -> None:
    """Sends messages to another logger, or to the standard streams again if it is ``None``.

    Raises ``TypeError`` for an object that lacks one of the four methods.
    """
    global _active
    if logger is not None:
        _require_logger(logger)
    _active = _Printer() if logger is None else logger


def get_logger() -> Logger:
    """The logger that receives messages."""
    return _active


def log_debug(message: str) -> None:
    """Logs a message for debugging, if the level permits it."""
    if config.log_level <= LOG_DEBUG:
        _active.debug(message)


def log_info(message: str) -> None:
    """Logs information, if the level permits it."""
    if config.log_level <= LOG_INFO:
        _active.info(message)


def log_warning(message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
    """Logs a warning, if the level permits it. A stack level of 1 is that of the caller."""
    if config.log_level <= LOG_WARNING:
        _active.warning(message, category=category, stacklevel=stacklevel + 2)


class ScopedLogger:
    """Sends messages to another logger within ``with``."""

    def __init__(self, logger: Logger | None) -> None:
        """`logger` is as for `set_logger`."""
        if logger is not None:
            _require_logger(logger)
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self.saved = get_logger()
        try:
            set_logger(self.logger)
            return self
        except BaseException:
            # `with` does not call `__exit__` then.
            self.__exit__(None, None, None)
            raise

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        _active = self.saved


class ScopedLogLevel:
    """Changes ``config.log_level`` within ``with``."""

    def __init__(self, log_level: int) -> None:
        """`log_level` is one of the four levels."""
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self.saved = config.log_level
        config.log_level = self.log_level
        return self

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        config.log_level = self.saved
