"""Takes the place of ``cupy.cuda.compiler``, of which only the error is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

__all__ = ["CompileException"]


class CompileException(Exception):
    """The compiler has rejected its input. The text is the compiler's log."""

    def __init__(self, msg: str, source: str, name: str, options: Sequence[str], backend: str = "nvrtc") -> None:
        self._msg = msg
        self.source = source
        self.name = name
        self.options = options
        self.backend = backend
        super().__init__()

    def __reduce__(self) -> tuple[type[CompileException], tuple[Any, ...]]:
        return type(self), (self._msg, self.source, self.name, self.options, self.backend)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.get_message()

    def get_message(self) -> str:
        """The compiler's log."""
        return self._msg

    def dump(self, f: TextIO) -> None:
        """Writes the log, the options and the source with numbers of lines to a file."""
        lines = self.source.split("\n")
        width = len(str(len(lines)))
        f.write(f"{self.backend.upper()} compilation error: {self}\n-----\n")
        f.write(f"Name: {self.name}\nOptions: {' '.join(self.options)}\nCUDA source:\n")
        f.writelines(f"{number:0{width}d} {line.rstrip()}\n" for number, line in enumerate(lines, 1))
        f.write("-----\n")
        f.flush()
