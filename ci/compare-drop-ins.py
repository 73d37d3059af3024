#!/usr/bin/env python3
"""Compares the modules of the Python package that take the place of other libraries with these libraries.

Usage: ci/compare-drop-ins.py NAME, where NAME is "cuda_core", "cupy" or "warp", with a Python that has the package and the library. No GPU is needed.

The page of the module lists members in tables, whose rows say "there", "differs" or "not there". What is "there" must be in both,
with the same parameters and defaults; what "differs" must be in both; and what is "not there" must be in the library only. The page
must list every member of the library that is about streams, as the pattern below says, and of the classes that it lists. A name
that ends with "*" stands for all that begin so.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"


class DropIn(NamedTuple):
    """A module, the library whose place it takes, its page, and the names of the library that the page must list.

    `scopes` are the modules in it whose names the page must list.
    """

    module: str
    library: str
    page: str
    pattern: str
    scopes: tuple[str, ...] = ("",)


DROP_INS = {
    "cuda_core": DropIn("anabranch.cuda_core", "cuda.core", "python-cuda-core.md", r"", ("", "graph", "typing")),
    "cupy": DropIn("anabranch.cupy", "cupy", "python-cupy.md", r"", ("cuda", "cuda.stream", "cuda.runtime")),
    "warp": DropIn(
        "anabranch.warp",
        "warp",
        "python-warp.md",
        r"(?i)stream|event|capture|graph$|timing|timer|synchronize|device(?!_(from|to)_(jax|paddle))|mempool|logger|loglevel|log_",
    ),
}
# Names that the pattern finds, and that are about something else.
OTHER = {
    "cuda_core": {"typing.TYPE_CHECKING"},
    "cupy": {
        # Modules of Python and of CuPy itself that happen to be members.
        *("cuda.annotations", "cuda.common", "cuda.contextlib", "cuda.warnings", "cuda.stream.threading"),
        "cuda.stream.warnings",
    },
    "warp": {"stream_from_paddle"},
}


def rows(page: str, library: Any) -> list[tuple[str, str]]:
    """The names that a page lists, and what it says of each."""
    listed = []
    for line in (DOCS / page).read_text().splitlines():
        row = re.fullmatch(r"\| (`[^|]*`) \| ([a-z ]+) \|.*\|", line)
        if row:
            listed += [(name, row[2]) for name in re.findall(r"`([\w.]+)`", row[1])]
            listed += [(name, row[2]) for start in re.findall(r"`([\w.]+)\*`", row[1]) for name in starting(library, start)]
    return listed


def starting(library: Any, start: str) -> list[str]:
    """The public names that begin so, and those of classes among them."""
    path, _, last = start.rpartition(".")
    owner = member(library, path) if path else library
    found = []
    for name in dir(owner):
        if name.startswith(last) and not name.startswith("_") and not inspect.ismodule(getattr(owner, name)):
            full = f"{path}.{name}" if path else name
            found.append(full)
            if inspect.isclass(getattr(owner, name)):
                found += [f"{full}.{public}" for public in vars(getattr(owner, name)) if not public.startswith("_")]
    # Nothing begins so: the name itself is said not to be there.
    return found or [start]


def member(module: Any, name: str) -> Any:
    """The member of a module or of one of its classes. An attribute that methods assign is `None`."""
    owner = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    if hasattr(owner, last) or not inspect.isclass(owner):
        return getattr(owner, last)
    if any(says_attribute(base, last) for base in owner.__mro__ if base is not object):
        return None
    raise AttributeError(name)


def says_attribute(of: type, name: str) -> bool:
    """Whether a class has an attribute that methods assign: its code says that, or its documentation."""
    try:
        source = inspect.getsource(of)
    except (OSError, TypeError):
        source = ""
    return bool(re.search(rf"\b(self|instance)\.{name}\b", source) or re.search(rf"~\w+\.{name}\b", of.__doc__ or ""))


def has(module: Any, name: str) -> bool:
    """Whether there is such a member."""
    try:
        member(module, name)
    except AttributeError:
        return False
    return True


def parameters(of: Any) -> list[str] | None:
    """The parameters with their defaults. `None` if it is not called."""
    if inspect.isclass(of):
        if issubclass(of, Enum) or getattr(of, "_is_protocol", False):
            return None
        if issubclass(of, tuple) and hasattr(of, "_fields"):
            return list(of._fields)
        if not hasattr(of.__init__, "__code__"):
            return parameters_of_text(of)
        of = of.__init__
    if not callable(of) or isinstance(of, property) or not hasattr(of, "__code__"):
        return parameters_of_text(of)
    shown = []
    for parameter in inspect.signature(of).parameters.values():
        default = parameter.default
        default = default.value if isinstance(default, Enum) else default
        shown.append(str(parameter.replace(annotation=parameter.empty, default=default)))
    return [parameter for parameter in shown if parameter not in ("self", "cls")]


def parameters_of_text(of: Any) -> list[str] | None:
    """The parameters by the first line of the documentation, where Cython writes them with types of C."""
    name = getattr(of, "__name__", "")
    first = re.match(rf"(?:\w+\.)*{re.escape(name)}\((.*?)\)(?: ->.*)?$", (of.__doc__ or "").strip().split("\n")[0])
    if not name or first is None:
        return None
    shown = []
    # Commas within brackets are of types.
    for part in re.split(r",(?![^\[]*\])", first[1]) if first[1] else ():
        declared, _, default = (side.strip() for side in part.partition("="))
        declared = declared.partition(":")[0].split()[-1]
        if re.fullmatch(r"(?:runtime\.)?(cuda|stream)\w+", default):
            # Cython writes constants by their names.
            default = str(getattr(sys.modules["cupy.cuda"].runtime, default.split(".")[-1]))
        shown.append(f"{declared}={default}" if default else declared)
    return [parameter for parameter in shown if parameter not in ("self", "cls", "*")]


def value(of: Any) -> Any:
    """What a constant or an enumeration is."""
    if inspect.isclass(of) and issubclass(of, Enum):
        return [(item.name, item.value) for item in of]
    return of if isinstance(of, (int, float, str)) else None


def compare(name: str) -> int:
    """Prints what is not as the page says. Returns how much that is."""
    drop_in = DROP_INS[name]
    ours, theirs = importlib.import_module(drop_in.module), importlib.import_module(drop_in.library)
    found = 0

    def complain(text: str) -> None:
        nonlocal found
        found += 1
        print(text)

    listed = rows(drop_in.page, theirs)
    for row, says in listed:
        if not has(theirs, row):
            complain(f"{row}: not in {drop_in.library}")
            continue
        if has(ours, row) != (says != "not there"):
            complain(f"{row}: listed as {says}")
            continue
        if says != "there":
            continue
        mine, original = member(ours, row), member(theirs, row)
        for view in (parameters, value):
            # Nobody says the parameters of some members of Cython.
            if view(original) is not None and view(mine) != view(original):
                complain(f"{row}: {view(mine)} here, {view(original)} in {drop_in.library}")
    names = {row for row, _ in listed}
    wanted = set()
    for scope in drop_in.scopes:
        for public in dir(member(theirs, scope) if scope else theirs):
            if not public.startswith("_") and re.search(drop_in.pattern, public):
                wanted.add(f"{scope}.{public}" if scope else public)
    for row, says in listed:
        is_in_scope = row.rpartition(".")[0] in ("", *drop_in.scopes)
        original = member(theirs, row) if says != "not there" and is_in_scope and has(theirs, row) else None
        if inspect.isclass(original) and not getattr(original, "_is_protocol", False) and not issubclass(original, Enum):
            wanted |= {f"{row}.{public}" for public in vars(original) if not public.startswith("_")}
    for public in sorted(wanted - names - OTHER.get(name, set())):
        if not has(theirs, public) or not inspect.ismodule(member(theirs, public)):
            complain(f"{public}: not on the page")
    print(f"{drop_in.module}: {len(names)} members compared with {drop_in.library}, {found} differences")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in DROP_INS:
        sys.exit(f"usage: ci/compare-drop-ins.py {'|'.join(DROP_INS)}")
    sys.exit(1 if compare(sys.argv[1]) else 0)
