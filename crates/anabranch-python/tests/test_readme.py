"""The examples of the README."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_examples_run_without_a_gpu(capsys):
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, str(README), "exec"), {"__name__": "__main__"})
        expected = re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
