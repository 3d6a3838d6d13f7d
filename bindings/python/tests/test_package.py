"""The contents of the package."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import scratchbook


def test_it_has_types_a_licence_and_no_tests() -> None:
    package = metadata.distribution("scratchbook")
    if package.files is None:
        pytest.skip("only a wheel lists its files: `cargo xtask full --step wheel`")
    files = [str(file) for file in package.files]
    assert {"scratchbook/py.typed", "scratchbook/_scratchbook.pyi", "scratchbook/adk.py"} <= set(files)
    assert any(file.endswith("licenses/LICENSE") for file in files)
    assert not any("test" in file or "bench" in file for file in files)
    # A bill of materials would contain the name of the build folder.
    assert not any("sbom" in file for file in files)


def test_it_describes_itself() -> None:
    package = metadata.distribution("scratchbook")
    assert package.metadata["License-Expression"] == "Apache-2.0"
    description = package.metadata.get_payload()
    assert description.startswith("# scratchbook for Python")  # type: ignore[union-attr]
    # Relative links are broken on a package index.
    assert "](../" not in description  # type: ignore[operator]
    assert package.version == scratchbook.__version__ == scratchbook._scratchbook.__version__
    # No dependency: programs install google-adk themselves.
    assert all("extra ==" in line for line in package.requires or [])


def test_it_has_the_command() -> None:
    [script] = metadata.distribution("scratchbook").entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("scratchbook", "scratchbook.__main__:main")
    asked = subprocess.run([sys.executable, "-m", "scratchbook", "--version"], capture_output=True, text=True)
    # These tests run on a package that was built without the command, and on the shipped package.
    without = asked.returncode == 1 and "was built without the command" in asked.stderr
    assert without or asked.stdout == f"scratchbook {scratchbook.__version__}\n", asked


def test_everything_that_is_public_is_there_and_documented() -> None:
    for name in scratchbook.__all__:
        public = getattr(scratchbook, name)
        assert isinstance(public, str) or public.__doc__, name
