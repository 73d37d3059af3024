"""The command: ``python -m anabranch devices``."""

from __future__ import annotations

import argparse
import sys

from . import AnabranchError, __version__, absent_backends, devices


def main(arguments: list[str] | None = None) -> int:
    """Runs the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="anabranch", description="Queues of GPU work.")
    parser.add_argument("--version", action="version", version=f"anabranch {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("devices", help="list the devices, and what is missing for others")
    parser.parse_args(arguments)
    try:
        for device in devices():
            properties = device.properties
            memory = properties["total_memory"] / 2**30
            print(f"{device.name:8} {properties['name']}, {memory:.1f} GiB")
        for name, absence in absent_backends():
            print(f"{name:8} not available: {absence}")
    except AnabranchError as error:
        print(f"anabranch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
