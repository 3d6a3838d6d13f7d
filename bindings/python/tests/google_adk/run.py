"""google-adk's own tests on our session service: the contract tests on each of our stores, and the tests of runners,
agents, flows and everything else that uses the in-memory service. These run once unchanged and once with our service
instead.

```sh
python run.py --adk CHECKOUT --package FOLDER
```

CHECKOUT is a checkout of google-adk's repository, because the package does not have `tests/`. FOLDER has our package,
unpacked. A virtual environment for the checkout and its requirements, some 2 GB, is made in `--folder`. The exit code
is 0 if `differences.py` lists exactly the tests that fail with our service and not with google-adk's. The contract
tests use the servers that `SCRATCHBOOK_TEST_POSTGRES` and `SCRATCHBOOK_TEST_MYSQL` name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

from differences import DIFFERENCES, KEEPING

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]

CONTRACT = "tests/unittests/sessions/test_session_service.py"

RUNNERS = ("agents", "flows", "runners", "test_runners.py", "workflow")
"""The tests about runs from end to end."""

USERS = ("InMemorySessionService", "InMemoryRunner", "testing_utils")
"""Words in other test files that use the in-memory service, directly or through shared helpers."""

Outcomes = dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adk", type=Path, required=True, help="a checkout of google-adk's repository")
    parser.add_argument("--package", type=Path, default=ROOT / "target/package/site", help="our package, unpacked")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "target/google-adk", help="for the environment and results"
    )
    parser.add_argument("--processes", default="auto", help="how many test at a time")
    options = parser.parse_args()
    adk = options.adk.resolve()
    for needed in (adk / CONTRACT, options.package / "scratchbook"):
        if not needed.exists():
            parser.error(f"there is no {needed}")
    suites = Suites(adk, options.package.resolve(), options.folder.resolve(), options.processes)
    suites.install()
    contract = suites.run("contract", [CONTRACT], "-k", "scratchbook")
    own = suites.run("own", users(adk), "-n", suites.processes)
    swapped = suites.run("swapped", users(adk), "-n", suites.processes)
    keeping = suites.run("swapped-keeping", sorted({name.split("::")[0] for name in KEEPING}))
    problems = contract_problems(contract) + swapped_problems(own, swapped) + keeping_problems(keeping)
    print(f"\ngoogle-adk {suites.version()}\n\n{table(contract, own, swapped)}\n")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems" if problems else "as it should be")
    return 1 if problems else 0


class Suites:
    """The tests of a checkout, in a separate environment."""

    def __init__(self, adk: Path, package: Path, folder: Path, processes: str) -> None:
        self._adk, self._package, self._folder, self.processes = adk, package, folder, processes
        self._python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def install(self) -> None:
        """Installs the checkout as it is and the packages that its tests need; installed ones stay."""
        if not self._python.exists():
            venv.create(self._folder / "venv", with_pip=True, clear=True)
        # pip takes long to choose among this many packages.
        self._call("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "uv")
        self._call(
            *("-m", "uv", "pip", "install", "--quiet", "--python", str(self._python)),
            *("--reinstall-package", "google-adk", f"google-adk[test] @ {self._adk.as_uri()}"),
        )

    def version(self) -> str:
        program = "from google.adk import version; print(version.__version__)"
        return subprocess.run([self._python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()

    def run(self, what: str, tests: list[str], *options: str) -> Outcomes:
        """The outcome of each test."""
        file = self._folder / f"{what}.json"
        file.unlink(missing_ok=True)
        words = ["-m", "pytest", "--quiet", "-W", "ignore", "--tb=short", "-p", "no:cacheprovider"]
        words += ["-p", "scratchbook_suites", f"--scratchbook={what}", f"--outcomes={file}", *options, *tests]
        print(f"\n{what}:", flush=True)
        environment = {"PYTHONPATH": os.pathsep.join([str(HERE), str(self._package)]), "PYTHONDONTWRITEBYTECODE": "1"}
        # Tests may fail here; failures are compared with the list afterwards.
        subprocess.run([self._python, *words], cwd=self._adk, env={**os.environ, **environment}, check=False)
        if not file.exists():
            sys.exit(f"pytest came to no end for '{what}'")
        outcomes: Outcomes = json.loads(file.read_text())
        return outcomes

    def _call(self, *words: str) -> None:
        subprocess.run([self._python, *words], check=True)


def users(adk: Path) -> list[str]:
    """The tests that use the service in memory."""
    tests = adk / "tests/unittests"
    whole = [tests / name for name in RUNNERS]
    others = [
        file
        for file in tests.rglob("test_*.py")
        if not any(file.is_relative_to(path) for path in whole) and any(word in file.read_text() for word in USERS)
    ]
    return [path.relative_to(adk).as_posix() for path in whole + sorted(others)]


def store_of(name: str) -> str:
    return name.partition("[scratchbook-")[2].removesuffix("]")


def failed(outcomes: Outcomes) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == "failed"}


def contract_problems(contract: Outcomes) -> list[str]:
    stores = {store_of(name) for name in contract}
    missing = [f"no contract test ran over {store}" for store in {"memory", "sqlite"} - stores]
    return missing + [f"{name}: fails" for name in sorted(failed(contract))]


def swapped_problems(own: Outcomes, swapped: Outcomes) -> list[str]:
    """The deviations from `differences.py`. A test that this checkout does not have is ignored."""
    problems = [f"{name}: did not run with ours" for name in sorted(own.keys() - swapped.keys())]
    new = failed(swapped) - failed(own)
    for name in sorted(new - DIFFERENCES.keys()):
        problems.append(f"{name}: fails with ours alone, and is no listed difference")
    for name in sorted((DIFFERENCES.keys() & swapped.keys()) - new):
        problems.append(f"{name}: listed as a difference, but fails no more with ours than with google-adk's own")
    return problems


def keeping_problems(keeping: Outcomes) -> list[str]:
    return [f"{name}: fails with keep_repeated_ids" for name in sorted(failed(keeping) & KEEPING)]


def table(contract: Outcomes, own: Outcomes, swapped: Outcomes) -> str:
    """A Markdown table: how many passed and failed with google-adk's own services and with ours."""
    lines = ["| tests | google-adk's own: passed | failed | ours: passed | failed |", "|---|---|---|---|---|"]
    for store in sorted({store_of(name) for name in contract}):
        ours = {name: outcome for name, outcome in contract.items() if store_of(name) == store}
        lines.append(f"| contract tests, {store} | | | {counts(ours)} |")
    for folder in sorted({folder_of(name) for name in own}):
        both = ({n: o for n, o in outcomes.items() if folder_of(n) == folder} for outcomes in (own, swapped))
        lines.append(f"| {folder} | {' | '.join(map(counts, both))} |")
    lines.append(f"| together, without contract tests | {counts(own)} | {counts(swapped)} |")
    return "\n".join(lines)


def folder_of(name: str) -> str:
    return name.removeprefix("tests/unittests/").split("/")[0].split("::")[0]


def counts(outcomes: Outcomes) -> str:
    found = Counter(outcomes.values())
    return f"{found['passed']:,} | {found['failed']:,}"


if __name__ == "__main__":
    sys.exit(main())
