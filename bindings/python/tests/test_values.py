"""Values that are read back unchanged, and those that are refused."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

import scratchbook
from scratchbook import REMOVED
from scratchbook.adk import ScratchbookSessionService

EXACT: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.1,
    -0.0,
    1.0,
    5e-324,
    1.7976931348623157e308,
    1795194011.5900567,
    "",
    "\u0000",
    "a\u0000b",
    "\U0001f600",
    "\u00e9",
    "e\u0301",
    "x" * 1_000_000,
    [],
    {},
    [[], {"": [None, {}]}],
    {"b": 1, "a": 2, "": 3},
]


class Point(BaseModel):
    x: int
    y: float = 0.5


def keyed(delta: dict[str, Any]) -> Event:
    return Event(author="agent", invocation_id="inv", actions=EventActions(state_delta=delta))


async def stored(service: Any, app: str) -> dict[str, Any]:
    found = await service.get_session(app_name=app, user_id="u", session_id="s")
    state: dict[str, Any] = found.state
    return state


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.copysign(1, a) == math.copysign(1, b) and a == b
    return type(a) is type(b) and a == b


async def test_values_come_back_exactly(service: Any, app: str) -> None:
    state = {f"k{n}": value for n, value in enumerate(EXACT)}
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state=state)
    assert all(same(session.state[key], value) for key, value in state.items())
    more = {f"{scope}{key}": value for scope in ("user:", "app:", "e") for key, value in state.items()}
    await service.append_event(session, keyed(more))
    found = await stored(service, app)
    assert found.keys() == state.keys() | more.keys()
    assert all(same(found[key], value) for key, value in {**state, **more}.items())
    assert list(found["k23"]) == ["b", "a", ""]


async def test_what_is_no_json_becomes_what_google_adk_makes_of_it(service: Any, app: str) -> None:
    given = {
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
        "date": datetime.date(2026, 1, 2),
        "span": datetime.timedelta(hours=1),
        "set": {3},
        "tuple": (1, "a"),
        "bytes": b"text",
        "model": Point(x=1),
        "models": [Point(x=2)],
        "nested": {"when": datetime.date(2026, 1, 2)},
    }
    converted = to_jsonable_python(given)
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state=given)
    assert session.state == converted
    await service.append_event(session, keyed({f"e_{key}": value for key, value in given.items()}))
    # The caller's session keeps the caller's values.
    assert session.state["e_set"] == {3}
    assert await stored(service, app) == {**converted, **{f"e_{key}": value for key, value in converted.items()}}


async def test_what_has_no_json_at_all_is_refused_at_creation_and_its_repr_appended(
    service: Any, app: str, caplog: pytest.LogCaptureFixture
) -> None:
    for value in (len, object(), b"\xff", {"\ud83d": 1}):
        with pytest.raises(scratchbook.InvalidArgumentError, match="what is set as 'f' has no form in JSON"):
            await service.create_session(app_name=app, user_id="u", session_id="s", state={"f": value, "n": 1})
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state={"n": 1})
    await service.append_event(session, keyed({"g": len}))
    assert "'g' has no JSON" in caplog.text and "Traceback" not in caplog.text
    assert await stored(service, app) == {"g": repr(len), "n": 1}


async def test_key_with_half_of_a_surrogate_pair_is_refused_everywhere(service: Any, app: str) -> None:
    halves: dict[str, Any] = dict.fromkeys(["cut \ud83d", "cut \ud83e"], 1)
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state={"ok \ufffd": 1})
    response = types.FunctionResponse(name="f", response={"deep": halves})
    metadata = Event(author="agent", custom_metadata=halves)
    events = [
        keyed(halves),
        keyed({"temp:\ud83d": 1}),
        keyed({"a": [halves]}),
        metadata,
        Event(author="agent", actions=EventActions(artifact_delta=halves)),
        Event(author="agent", content=types.Content(parts=[types.Part(function_response=response)])),
    ]
    for event in events:
        with pytest.raises(scratchbook.InvalidArgumentError):
            await service.append_event(session, event)
    plain = scratchbook.SessionService("memory:")
    copy = await plain.create_session(app_name=app, user_id="u")
    for call in (
        lambda: service.create_session(app_name=app, user_id="u", state=halves),
        lambda: service.put_state(halves, app_name=app, user_id="u", author="x"),
        lambda: service.increment(session, "\ud83d"),
        lambda: plain.create_session(app_name=app, user_id="u", state=halves),
        lambda: plain.append_event(copy, {"author": "a", "actions": {"stateDelta": {"k": halves}}}),
    ):
        with pytest.raises(scratchbook.InvalidArgumentError):
            await call()
    assert session.events == [] and await stored(service, app) == {"ok \ufffd": 1}


NUMBERS = {"nan": math.nan, "inf": [-math.inf], "big": {"n": 2**70}, "low": -(2**63) - 1, "fits": 2**64 - 1, "f": 1e22}
AS_ADK = {
    "nan": None, "inf": [None], "big": {"n": "1180591620717411303424"}, "low": "-9223372036854775809",
    "fits": 2**64 - 1, "f": 1e22,
}  # fmt: skip


async def test_numbers_that_no_store_can_hold_are_refused_or_stored_as_null_and_digits(app: str) -> None:
    strict = ScratchbookSessionService("memory:")
    response = types.FunctionResponse(name="f", response=NUMBERS)
    event = Event(author="agent", content=types.Content(parts=[types.Part(function_response=response)]))
    for name, number in NUMBERS.items():
        session = await strict.create_session(app_name=app, user_id="u")
        for call in (
            lambda: strict.create_session(app_name=app, user_id="u", state={name: number}),  # noqa: B023
            lambda: strict.append_event(session, keyed({name: number})),  # noqa: B023
        ):
            if name in ("fits", "f"):
                await call()
                continue
            with pytest.raises(scratchbook.InvalidArgumentError, match='numbers="adk"'):
                await call()
    service = ScratchbookSessionService("memory:", numbers="adk")
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state=NUMBERS)
    assert session.state == AS_ADK
    await service.append_event(session, event)
    await service.append_event(session, keyed({f"user:{name}": number for name, number in NUMBERS.items()}))
    found = await service.get_session(app_name=app, user_id="u", session_id="s")
    assert found is not None and found.state == {**AS_ADK, **{f"user:{name}": item for name, item in AS_ADK.items()}}
    part = found.events[0].content.parts[0]  # type: ignore[union-attr,index]
    assert part.function_response and part.function_response.response == AS_ADK
    with pytest.raises(ValueError, match="'strict' or 'adk', not 'exact'"):
        ScratchbookSessionService("memory:", numbers="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_nan_and_infinities_are_a_value_error_that_says_where(service: Any, app: str, number: float) -> None:
    with pytest.raises(ValueError, match="state.a"):
        await service.create_session(app_name=app, user_id="u", session_id="s", state={"a": number})
    session = await service.create_session(app_name=app, user_id="u", session_id="s")
    response = types.FunctionResponse(name="f", response={"r": number})
    bad = [
        keyed({"a": [1, {"b": number}]}),
        Event(author="agent", content=types.Content(parts=[types.Part(function_response=response)])),
    ]
    for event in bad:
        with pytest.raises(ValueError, match="NaN or infinite"):
            await service.append_event(session, event)
    assert session.events == [] and session.state == {} and await stored(service, app) == {}


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", [[[[]]]] * 1])
async def test_what_no_store_could_give_back_is_a_value_error(service: Any, app: str, value: Any) -> None:
    session = await service.create_session(app_name=app, user_id="u", session_id="s")
    if isinstance(value, list):
        for _ in range(200):
            value = [value]
    with pytest.raises(ValueError):
        await service.append_event(session, keyed({"a": value}))
    assert session.events == [] and session.state == {}


async def test_keys_and_ids_no_store_could_hold_are_a_value_error(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", session_id="s")
    for key in ("a\u0000b", "k" * 1025):
        with pytest.raises(ValueError):
            await service.append_event(session, keyed({key: 1}))
    odd = keyed({})
    odd.actions.state_delta = {1: "one"}  # type: ignore[dict-item]
    with pytest.raises(scratchbook.InvalidArgumentError, match="string, not 1"):
        await service.append_event(session, odd)
    with pytest.raises(scratchbook.InvalidArgumentError, match="string, not 1"):
        await service.create_session(app_name=app, user_id="u", state={1: "one"})
    with pytest.raises(ValueError, match="control character"):
        await service.create_session(app_name=app, user_id="u\n")
    with pytest.raises(ValueError, match="milliseconds"):
        await service.append_event(session, Event(author="a", timestamp=1_795_194_011_590.0))


async def test_a_removed_key_leaves_the_callers_state_too(service: Any, app: str) -> None:
    session = await service.create_session(
        app_name=app, user_id="u", session_id="s", state={"a": 1, "user:b": 2, "c": 3}
    )
    await service.append_event(session, keyed({"a": REMOVED, "user:b": REMOVED, "never": REMOVED}))
    assert session.state == {"c": 3} == await stored(service, app)
    await service.remove(session, "c")
    assert session.state == {} == await stored(service, app)
    # REMOVED is not allowed as an initial value.
    with pytest.raises(scratchbook.InvalidArgumentError):
        await service.create_session(app_name=app, user_id="u", state={"a": REMOVED})


async def test_what_is_read_is_what_all_of_pydantics_validators_make_of_it() -> None:
    from google.adk.sessions.session import Session

    from scratchbook import _model

    parts = [
        types.Part(text="hi", thought=True, thought_signature=b"\x00\xff"),
        types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png"),
        types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": 1.5, "none": None})),
        types.Part(function_response=types.FunctionResponse(id="c", name="f", response={"metadata": [True]})),
    ]
    event = Event(author="agent", invocation_id="inv", content=types.Content(role="model", parts=parts))
    event.custom_metadata = {"type": "function-before", "custom_init": True, "metadata": {}}
    event.usage_metadata = types.GenerateContentResponseUsageMetadata(
        prompt_tokens_details=[types.ModalityTokenCount(modality=types.MediaModality.TEXT, token_count=3)]
    )
    event.finish_reason = types.FinishReason.STOP
    event.actions = EventActions(state_delta={"metadata": None}, artifact_delta={"f": 1}, agent_state={"a": 1})
    session = Session(id="s", app_name="a", user_id="u", events=[event, Event(author="user")], state={"x": [1]})
    text = session.model_dump_json(by_alias=True, exclude_none=True).encode()
    assert _model.read(Session, text) == Session.model_validate_json(text)
    assert _model.read(Event, b'{"author": "a"}').id
    with pytest.raises(ValueError, match="author"):
        _model.read(Event, b'{"author": 1}')
    # This pydantic's schemas are understood: none of the skipped functions is called.
    reader = _model._reader(Session)
    assert reader != Session.model_validate_json
    schema = repr(_model.without(Session.__pydantic_core_schema__))
    assert not any(name in schema for name in _model.LEFT_OUT) and "'custom_init': True" not in schema


def test_a_model_whose_schema_is_another_is_read_as_pydantic_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from scratchbook import _model

    def fails(schema: Any) -> Any:
        raise KeyError("schema")

    monkeypatch.setattr(_model, "without", fails)
    assert _model._reader.__wrapped__(Point)(b'{"x": 1}') == Point(x=1)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def endless() -> Any:
    value: dict[str, Any] = {}
    value["a"] = value["b"] = value
    return value


@pytest.mark.parametrize("make", [endless, lambda: deep(5000), lambda: "\ud800", lambda: b"\xff"])
async def test_what_has_no_end_or_no_form_in_json_is_refused_at_once(service: Any, app: str, make: Any) -> None:
    session = await service.create_session(app_name=app, user_id="u", session_id="s")
    event = keyed({"a": make()})
    text = await service.increment(session, "n")
    with pytest.raises(scratchbook.InvalidArgumentError):
        await service.append_event(session, event)
    for call in (service.append_to, service.merge):
        with pytest.raises(scratchbook.InvalidArgumentError):
            await call(session, "l", make())
    with pytest.raises(scratchbook.InvalidArgumentError):
        await service.put_state({"a": make()}, app_name=app, user_id="u", author="x")
    plain = scratchbook.SessionService("memory:")
    copy = await plain.create_session(app_name=app, user_id="u")
    with pytest.raises(scratchbook.InvalidArgumentError):
        await plain.append_event(copy, {"author": "a", "actions": {"stateDelta": {"k": make()}}})
    assert len(session.events) == text == 1 and session.state == {"n": 1} and await stored(service, app) == {"n": 1}


@pytest.mark.parametrize("key", ["user:n", "app:n", "temp:n"])
async def test_state_outside_of_sessions_has_keys_without_prefix(service: Any, app: str, key: str) -> None:
    for user in ("u", None):
        with pytest.raises(scratchbook.InvalidArgumentError, match=key):
            await service.put_state({"fine": 1, key: 1}, app_name=app, user_id=user, author="x")
    assert await service.get_user_state(app_name=app, user_id="u") == await service.get_app_state(app_name=app) == {}


async def test_what_is_no_session_event_key_or_number_is_an_invalid_argument(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", session_id="s")
    address = (app, "u", "s")
    plain = scratchbook.SessionService("memory:")
    copy = await plain.create_session(app_name=app, user_id="u")
    for call in (
        lambda: service.increment(address, "temp:x"),
        lambda: service.increment(session, "temp:x"),
        lambda: service.increment(5, "x"),
        lambda: service.increment(("a", "b"), "x"),
        lambda: service.increment(session, 5),
        lambda: service.append_event(session, 5),
        lambda: service.append_event(5, keyed({})),
        lambda: plain.append_event(copy, 5),
        lambda: plain.append_event(copy, {"author": "a", "actions": 5}),
        lambda: service.state_at(session, -1),
        lambda: service.state_at(session, 1.5),
        lambda: service.state_at(session, True),
        lambda: plain.state_at(copy, {"author": "a"}),
        lambda: service.fork(session, at=b"id"),
        lambda: service.verify(session, app_name=app),
        lambda: service.watch(session, app_name=app).start(),
        lambda: service.append_retrying(session, lambda session: None),
        lambda: service.get_session(app_name=app, user_id="u", session_id="s", config=5),
        lambda: service.get_session(app_name=app, user_id="u", session_id="s", config={"num_recent_events": "1"}),
        lambda: service.get_session(app_name=app, user_id="u", session_id="s", config={"after_timestamp": "now"}),
        lambda: service.history(session, "n", limit=-1),
        lambda: service.get_session(app_name=app, user_id="u", session_id="s", config={"num_recent": 1}),
    ):
        with pytest.raises(scratchbook.InvalidArgumentError):
            await call()
    with pytest.raises(scratchbook.InvalidArgumentError, match="'n' is incremented by a number"):
        await service.increment(session, "n", "x")
    with pytest.raises(TypeError):
        scratchbook.wait(5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="asyncio.run"):
        scratchbook.wait(service.import_adk("sqlite:///sessions.db"))
    verified = await service.verify(session)
    assert (verified["events"], verified["keys"]) == (0, 0)
