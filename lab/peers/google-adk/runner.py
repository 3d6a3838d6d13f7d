"""A runner of google-adk, with its own services or scratchbook's: `runner.py STORE LOCATION`."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import http_workloads  # noqa: E402
from services import opened  # noqa: E402
from shared.protocol import run, serve  # noqa: E402
from shared.workloads import Workloads  # noqa: E402
from system import GoogleAdk  # noqa: E402


async def main() -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    one = opened(*sys.argv[1:3])
    about = {
        "system": "google-adk",
        "service": type(one.service).__name__,
        "version": version(one.package),
        "store": one.store,
        "configuration": one.configuration,
    }
    workloads = Workloads(GoogleAdk(one)).by_name()
    if one.package == "google-adk":
        workloads |= http_workloads(one)
    else:
        # Its server is measured without Python.
        about |= {"system": "scratchbook for Python", "service": None}
    await serve(about, workloads)


if __name__ == "__main__":
    run(main)
