"""What the tests of the drop-in for cuda.core share."""

from __future__ import annotations

import os
from pathlib import Path

# The drop-in numbers the devices of the back end of the default device.
os.environ.setdefault("ANABRANCH_DEVICE", os.environ.get("ANABRANCH_TEST_DEVICE", "host"))

HERE = Path(__file__).parent
KERNELS = HERE / "kernels.ptx"
CONDITIONAL = HERE / "conditional.ptx"
