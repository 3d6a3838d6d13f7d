"""Loops, threads, interrupts and forks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scratchbook import SessionService, wait


def run(program: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs a program in a separate Python, since forks and signals affect whole processes."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


async def count(service: Any, app: str, times: int) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    await asyncio.gather(*(service.increment(session, "app:n") for _ in range(times)))


def test_one_service_serves_several_loops_one_after_the_other_and_at_once(uri: str, app: str) -> None:
    service = SessionService(uri)
    for _ in range(3):
        asyncio.run(count(service, app, 10))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(count(service, app, 20)), range(8)))
        session = wait(service.create_session(app_name=app, user_id="u"))
        address = (app, "u", session["id"])
        list(threads.map(lambda _: wait(service.increment(address, "app:n")), range(20)))
    assert wait(service.get_app_state(app_name=app)) == {"n": 30 + 160 + 20}
    wait(service.close())


def test_calls_start_no_threads(uri: str, app: str) -> None:
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("counts threads in /proc")
    service = SessionService(uri)

    async def work() -> tuple[int, int]:
        await count(service, app, 1)
        before = len(os.listdir("/proc/self/task"))
        running = asyncio.gather(*(count(service, app, 10) for _ in range(50)))
        most = before
        while not running.done():
            most = max(most, len(os.listdir("/proc/self/task")))
            await asyncio.sleep(0)
        await running
        return before, most

    before, most = asyncio.run(work())
    # There are as many threads as connections, or readers of a file, and not one per call.
    assert most - before <= 8
    wait(service.close())


def test_other_threads_run_while_one_waits(tmp_path: Path) -> None:
    service = SessionService(f"sqlite:///{tmp_path}/a.db")
    wait(service.open())
    stop, turns = threading.Event(), 0

    def spin() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1

    async def nothing() -> None:
        await service._core.pause(0.3)

    thread = threading.Thread(target=spin)
    thread.start()
    before = turns
    wait(nothing())
    assert turns - before > 1000
    stop.set()
    thread.join()
    wait(service.close())


def test_a_call_that_was_cancelled_harms_no_later_one(uri: str, app: str) -> None:
    service = SessionService(uri)

    async def work() -> None:
        session = await service.create_session(app_name=app, user_id="u")
        for _ in range(20):
            task = asyncio.ensure_future(service.increment((app, "u", session["id"]), "n"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # It is unknown which of these calls were carried out, but none was carried out in part.
        number = await service.increment((app, "u", session["id"]), "n")
        assert 1 <= number <= 21
        verified = await service.verify(session)
        assert 1 <= verified["events"] <= 21

    asyncio.run(work())
    wait(service.close())


def test_uvloop_is_an_event_loop_like_any_other(uri: str, app: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    service = SessionService(uri)
    uvloop.run(count(service, app, 50))
    assert wait(service.get_app_state(app_name=app)) == {"n": 50}
    wait(service.close())


def test_wait_refuses_a_coroutine_that_awaits_something_else() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        wait(asyncio.sleep(0.01))


def test_a_call_that_no_loop_awaits_is_not_begun(tmp_path: Path) -> None:
    service = SessionService(f"sqlite:///{tmp_path}/a.db")
    session = wait(service.create_session(app_name="a", user_id="u"))
    with pytest.raises(RuntimeError, match="loop"):
        service.increment(session, "n").send(None)
    verified = wait(service.verify(session))
    assert (verified["events"], verified["keys"]) == (0, 0)
    wait(service.close())


WAITING = """
import asyncio, signal, sys
from scratchbook import SessionService, wait

# A shell has what it runs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

service = SessionService("sqlite:///" + sys.argv[2])
if sys.argv[1] == "async":
    async def main():
        watch = await service.watch(app_name="a").start()
        print("waits", flush=True)
        await anext(watch)
    main = lambda work=main: asyncio.run(work())
else:
    async def pause():
        await service._core.pause(60)
    def main():
        print("waits", flush=True)
        wait(pause())
try:
    main()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_an_interrupt_ends_a_wait(kind: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, kind, str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    time.sleep(0.1)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == "interrupted\n"
    assert process.wait(10) == 0 and time.monotonic() - begun < 5


def test_a_process_that_ends_amid_calls_ends_quietly(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from scratchbook import SessionService
service = SessionService("sqlite:///" + sys.argv[1])
async def main():
    session = await service.create_session(app_name="a", user_id="u")
    for _ in range(200):
        asyncio.ensure_future(service.increment(("a", "u", session["id"]), "n"))
    await asyncio.sleep(0)
asyncio.run(main())
"""
    assert run(program, str(tmp_path / "a.db")).stderr == ""


ENDS = """
import asyncio, atexit, sys
service = None
# Called after the package's own, since it was there before.
atexit.register(lambda: asyncio.run(service.close()))
from scratchbook import SessionService
service = SessionService(sys.argv[1])
async def main():
    session = await service.create_session(app_name="a", user_id="u")
    await service.increment(session, "n")
asyncio.run(main())
"""


def test_an_interpreter_ends_while_threads_have_just_woken_it(shared_uri: str) -> None:
    # Chance decides whether the end or the wake-up comes first: run many at once, so that processors are scarce.
    with ThreadPoolExecutor(8) as threads:
        assert {done.stderr for done in threads.map(lambda _: run(ENDS, shared_uri), range(48))} == {""}


DAEMONS = """
import asyncio, sys, threading, time
from scratchbook import SessionService, wait
service = SessionService(sys.argv[1])
session = wait(service.create_session(app_name="a", user_id="u"))
address = ("a", "u", session["id"])
def waits():
    while True:
        wait(service.increment(address, "n"))
        try:
            wait(service.state_at(address, "no such event"))
        except ValueError:
            pass
def loops():
    async def work():
        while True:
            await asyncio.gather(*(service.get_user_state(app_name="a", user_id="u") for _ in range(5)))
    asyncio.run(work())
for _ in range(4):
    threading.Thread(target=waits, daemon=True).start()
    threading.Thread(target=loops, daemon=True).start()
time.sleep(0.05)
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_an_interpreter_ends_while_daemon_threads_call(store: str, tmp_path: Path) -> None:
    def end(number: int) -> tuple[int, str]:
        uri = "memory:" if store == "memory" else f"sqlite:///{tmp_path}/{number}.db"
        done = subprocess.run([sys.executable, "-c", DAEMONS, uri], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(end, range(40))) == {(0, "")}


def test_a_handler_at_exit_waits_no_longer_than_it_says_and_its_other_tasks_go_on(tmp_path: Path) -> None:
    program = """
import asyncio, atexit, sys
async def stop():
    session = await service.create_session(app_name="a", user_id="u")
    watch = await service.watch(session).start()
    try:
        await asyncio.wait_for(anext(watch), 0.2)
    except asyncio.TimeoutError:
        print("timeout")
    waits = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.01)
    await service.increment(session, "n")
    print((await waits)["type"])
    await service.close()
# Called after the package's own, since it was there before.
atexit.register(lambda: asyncio.run(stop()))
from scratchbook import SessionService
service = SessionService("sqlite:///" + sys.argv[1])
"""
    assert run(program, str(tmp_path / "a.db"), timeout=20).stdout.split() == ["timeout", "event"]


FORK = """
import asyncio, os, sys
from scratchbook import SessionService, wait

uri, mode = sys.argv[1:]
used = SessionService(uri)
session = wait(used.create_session(app_name="forked", user_id="u"))
if mode == "closed":
    wait(used.close())
child = os.fork()
if child == 0:
    try:
        asyncio.run(SessionService(uri).increment(("forked", "u", session["id"]), "n"))
        print("new: good")
    except Exception as error:
        print("new:", type(error).__name__, error)
    try:
        wait(used.increment(("forked", "u", session["id"]), "n"))
        print("used: good")
    except Exception as error:
        print("used:", type(error).__name__, error)
    sys.stdout.flush()
    # With everything that an interpreter does at its end.
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
if mode == "open":
    wait(used.increment(session, "n"))
    print("parent: good")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_after_a_fork_a_store_that_was_open_is_refused_in_the_child_and_goes_on_in_the_parent(shared_uri: str) -> None:
    lines = run(FORK, shared_uri, "open").stdout.splitlines()
    if shared_uri.startswith("sqlite"):
        # SQLite would treat the parent's locks as its own.
        assert lines[0].startswith("new: RuntimeError this process was forked while its parent had a SQLite store open")
    else:
        assert lines[0] == "new: good"
    assert lines[1].startswith("used: RuntimeError this store was opened by process")
    assert lines[2] == "parent: good"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_after_a_fork_a_child_opens_what_its_parent_had_closed(shared_uri: str) -> None:
    assert run(FORK, shared_uri, "closed").stdout.splitlines()[0] == "new: good"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_service_made_before_the_fork_and_first_called_after_it_works(tmp_path: Path) -> None:
    program = """
import os, sys
from scratchbook import SessionService, wait
service = SessionService("sqlite:///" + sys.argv[1])
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        session = wait(service.create_session(app_name="a", user_id="u"))
        for _ in range(25):
            wait(service.increment(session, "app:n"))
        os._exit(0)
    children.append(child)
assert all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)
assert wait(service.get_app_state(app_name="a")) == {"n": 100}
"""
    run(program, str(tmp_path / "a.db"))
