"""Imports the data of google-adk's services."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from . import _url
from ._appends import with_own_id
from ._errors import CLASSES, AlreadyExistsError, InvalidArgumentError, PayloadTooLargeError, ScratchbookError
from ._json import dumps
from ._scratchbook import REMOVED, Store, waits
from .results import Imported

logger = logging.getLogger("scratchbook")

IMPORTER = "scratchbook-import"
"""The author of changes that no event of the source contains."""


async def import_adk(core: Store, source: Any, app_name: str | None, keeps_repeated_ids: bool, limits: str) -> Imported:
    """Writes the sessions of a source into a store, each in one commit. `limits` are the limits in the parameters of
    the store's URL."""
    done: Imported = {"sessions": 0, "events": 0, "skipped": 0, "refused": []}
    async with aclosing(_records(source, app_name)) as records:
        async for record in records:
            if record["type"] == "refused":
                del record["type"]
                _refuse(done, record)
            elif app_name is not None and record["app"] != app_name:
                continue
            elif record["type"] == "state":
                await _shared(core, record, done)
            else:
                if keeps_repeated_ids:
                    record["events"] = _unlike(record["events"])
                await _session(core, record, done, limits)
    return done


async def _records(source: Any, app_name: str | None) -> AsyncGenerator[dict[str, Any], None]:
    if hasattr(source, "list_sessions"):
        if app_name is None:
            raise InvalidArgumentError("a service lists the sessions of one app; name the app_name")
        from ._read_adk import records

        async for record in records(source, [app_name]):
            yield record
        return
    if waits():
        raise RuntimeError("a database is read in a process of its own, which takes a running event loop: asyncio.run")
    url = _url.text_of(source)
    if "://" not in url:
        raise InvalidArgumentError(
            f"{_url.what_is_wrong(url)}; a source is the URL of google-adk's database, or a service"
        )
    # The URL is sent to standard input, since it contains a password and everybody can see arguments.
    reader = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scratchbook._read_adk",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 31,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert reader.stdin and reader.stdout and reader.stderr
    failed: ScratchbookError | None = None
    try:
        reader.stdin.write(url.encode())
        reader.stdin.close()
        errors = asyncio.ensure_future(reader.stderr.read())
        async for line in reader.stdout:
            record = json.loads(line)
            if record["type"] == "failed":
                failed = CLASSES[record["kind"]](f"the source cannot be read: {record['reason']}")
            else:
                yield record
        if await reader.wait() != 0:
            last = (await errors).decode(errors="replace").strip().splitlines()[-1:]
            raise ScratchbookError(f"the source cannot be read: {''.join(last)}")
        if failed is not None:
            raise failed
    finally:
        if reader.returncode is None:
            reader.kill()
            await reader.wait()


# Errors about a single session or key, which is then left out. After any other error, such as that of a full disk or of
# a database that cannot be reached, the import ends. It can be repeated.
_OF_ONE = (AlreadyExistsError, InvalidArgumentError, PayloadTooLargeError)


async def _session(core: Store, record: dict[str, Any], done: Imported, limits: str) -> None:
    address = (record["app"], record["user"], record["id"])
    try:
        await _create(core, record)
    except _OF_ONE as error:
        # This error can also mean that an event's id occurs twice in the source.
        if isinstance(error, AlreadyExistsError) and await core.get(address, 0) is not None:
            done["skipped"] += 1
            return
        of_a_part = isinstance(error, (InvalidArgumentError, PayloadTooLargeError))
        left_out = await _leave_out(record, limits) if of_a_part else []
        for refusal in left_out:
            _refuse(done, {"session": "/".join(address), **refusal})
        if left_out:
            await _session(core, record, done, limits)
        else:
            _refuse(done, {"session": "/".join(address), "reason": str(error)})
    else:
        done["sessions"] += 1
        done["events"] += len(record["events"])


async def _create(core: Store, record: dict[str, Any]) -> None:
    """Creates a session with all its events, whose final state is the source's."""
    state, events = record["state"], record["events"]
    folded: dict[str, Any] = {}
    for event in events:
        folded.update(event.get("actions", {}).get("stateDelta", {}))
    folded = {key: value for key, value in folded.items() if not key.startswith(("app:", "user:", "temp:"))}
    # A key that no event changes existed from the beginning.
    initial = {key: value for key, value in state.items() if key not in folded}
    wrong = {key: state.get(key, REMOVED) for key in folded if key not in state or not _same(state[key], folded[key])}
    if wrong:
        why = {IMPORTER: "the state that the source had, where its events lead to another"}
        events = [
            *events,
            {
                "id": f"{IMPORTER}-state",
                "author": IMPORTER,
                "timestamp": record["time"],
                "customMetadata": why,
                "actions": {"stateDelta": wrong},
            },
        ]
    config = {"session_id": record["id"], "state": initial, "events": events, "shared_keys": "left"}
    if not events:
        config["create_time"] = record["time"]
    await core.create(record["app"], record["user"], dumps(config))


async def _leave_out(record: dict[str, Any], limits: str) -> list[dict[str, str]]:
    """Removes from a session the keys of its state and the events that no store with these limits can hold. Returns
    them with the reasons."""
    with tempfile.TemporaryDirectory() as folder:
        # Each of them is tried on a temporary store. Only the URL of a database has limits.
        apart = Store(f"sqlite://{folder}/apart.db?synchronous=normal&{limits}" if limits else "memory:")
        try:
            return await _try_each(apart, record)
        finally:
            await apart.close()


async def _try_each(apart: Store, record: dict[str, Any]) -> list[dict[str, str]]:
    left_out = []
    for key, value in list(record["state"].items()):
        reason = await _why_not(apart, {"state": {key: value}})
        if reason is not None:
            del record["state"][key]
            left_out.append({"key": key, "reason": reason})
    events, record["events"] = record["events"], []
    for event in events:
        reason = await _why_not(apart, {"events": [event]})
        if reason is None:
            record["events"].append(event)
        else:
            left_out.append({"event": event["id"], "reason": reason})
    return left_out


async def _why_not(store: Store, config: dict[str, Any]) -> str | None:
    """The reason why a session cannot be created in this way; `None` if it can."""
    try:
        await store.create("app", "user", dumps(config))
    except ScratchbookError as error:
        return str(error)
    return None


def _refuse(done: Imported, refusal: dict[str, str]) -> None:
    """Records and logs something that is not imported."""
    done["refused"].append(refusal)
    what = " ".join(f"{name} {value!r}" for name, value in refusal.items() if name != "reason")
    logger.warning("import_adk leaves out %s: %s", what, refusal["reason"])


def _unlike(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events with unique ids; a repeated event is left out, like a retry."""
    known: dict[str, dict[str, Any]] = {}
    for event in events:
        event_id = event["id"]
        if event_id in known and event != known[event_id]:
            event = json.loads(with_own_id(dumps(event), event_id))
        known.setdefault(event["id"], event)
    return list(known.values())


async def _shared(core: Store, record: dict[str, Any], done: Imported) -> None:
    """Writes keys of a user or an app, unless they were ever written here. Keys that were changed or removed here since
    the last import are therefore not overwritten."""
    for key, value in record["state"].items():
        try:
            if await core.was_written(record["app"], record["user"], key):
                continue
            await core.put_state(record["app"], record["user"], dumps({key: [{"setIfAbsent": value}]}), IMPORTER)
        except _OF_ONE as error:
            owner = record["app"] if record["user"] is None else f"{record['app']}/{record['user']}"
            _refuse(done, {"key": f"{owner}: {key}", "reason": str(error)})


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal. The sign of a zero does not count: google-adk's file loses it in the state."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and bool(a == b)
