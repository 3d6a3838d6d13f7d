"""Google's clients over the endpoint: `sdk.py URL` fails if they do not get what they need.

`agentplatform.Client` has its sessions at `client.sessions`, `vertexai.Client` at `client.agent_engines.sessions`; each
client is tried with both versions of the API, and with a key in place of a project.
"""

import datetime
import sys

import agentplatform
import vertexai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

ENGINE = "projects/p1/locations/us-central1/reasoningEngines/"


def options(url, version):
    return types.HttpOptions(base_url=url, api_version=version)


def clients(url):
    for version in ("v1", "v1beta1"):
        login = {
            "project": "p1",
            "location": "us-central1",
            "credentials": Credentials(token="none"),
            "http_options": options(url, version),
        }
        yield f"agentplatform-{version}", agentplatform.Client(**login).sessions, ENGINE
        yield f"vertexai-{version}", vertexai.Client(**login).agent_engines.sessions, ENGINE
    express = agentplatform.Client(api_key="none", http_options=options(url, "v1beta1"))
    yield "express", express.sessions, "reasoningEngines/"


def refused(code, status, call, **arguments):
    try:
        found = call(**arguments)
    except errors.ClientError as error:
        assert (error.code, error.status) == (code, status), error
        return error
    raise AssertionError(f"not refused: {found}")


def names(sessions):
    return [session.name.split("/")[-1] for session in sessions]


def whole(sessions, engine):
    """A session from its beginning to its end."""
    config = {"session_state": {"a": 1, "user:b": 2, "temp:c": 3}, "display_name": "Hi", "labels": {"env": "test"}}
    operation = sessions.create(name=engine, user_id="u1", config={**config, "ttl": "7200s", "session_id": "s-1"})
    assert operation.done and operation.name.startswith(f"{engine}/sessions/s-1/operations/"), operation
    made = operation.response
    assert made.name == f"{engine}/sessions/s-1" and made.user_id == "u1", made
    assert made.session_state == {"a": 1, "user:b": 2} and made.labels == {"env": "test"}, made
    lasts = made.expire_time - made.update_time
    assert abs(lasts - datetime.timedelta(hours=2)) < datetime.timedelta(seconds=5), made
    again = sessions._get_session_operation(operation_name=operation.name)
    assert again.done and again.name == operation.name and again.response.name == made.name, again
    got = sessions.get(name=made.name)
    assert got == made, (got, made)

    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    minute = datetime.timedelta(minutes=1)
    for n in range(250):
        author, text = ("user", f"m{n}")
        config = {"content": {"role": "user", "parts": [{"text": text}]}, "actions": {"state_delta": {"n": n}}}
        sessions.events.append(
            name=made.name, author=author, invocation_id=f"i{n}", timestamp=at + n * minute, config=config
        )

    def said(**config):
        return [event.content.parts[0].text for event in sessions.events.list(name=made.name, config=config)]

    assert said() == [f"m{n}" for n in range(250)]
    assert said(page_size=7) == [f"m{n}" for n in range(250)]
    assert said(filter=f'timestamp>="{(at + 247 * minute).isoformat()}"') == ["m247", "m248", "m249"]
    assert said(filter=f'timestamp>"{(at + 247 * minute).isoformat()}"') == ["m248", "m249"]
    between = f'timestamp>="{(at + 3 * minute).isoformat()}" AND timestamp<"{(at + 6 * minute).isoformat()}"'
    assert said(filter=between, page_size=2) == ["m3", "m4", "m5"]
    assert said(filter=f'timestamp<="{at.isoformat()}"') == ["m0"]
    assert said(filter=f'timestamp<"{at.isoformat()}"') == []
    first = next(iter(sessions.events.list(name=made.name)))
    assert (first.author, first.invocation_id, first.timestamp) == ("user", "i0", at), first
    assert first.actions.state_delta == {"n": 0} and first.name.startswith(f"{made.name}/events/"), first
    assert sessions.get(name=made.name).session_state == {"a": 1, "n": 249, "user:b": 2}

    if hasattr(sessions, "update"):
        change = {"display_name": "Bye", "session_state": {"n": 250, "z": None}, "update_mask": "displayName,session_state"}
        updated = sessions.update(name=made.name, config={**change, "labels": {"not": "named"}})
        assert (updated.display_name, updated.labels) == ("Bye", {"env": "test"}), updated
        assert updated.session_state == {"n": 250, "z": None, "user:b": 2}, updated
        ends = datetime.datetime(2099, 1, 1, tzinfo=datetime.timezone.utc)
        updated = sessions.update(name=made.name, config={"expire_time": ends, "labels": {"env": "live"}})
        assert (updated.expire_time, updated.labels, updated.display_name) == (ends, {"env": "live"}, "Bye"), updated
        refused(
            400, "INVALID_ARGUMENT", sessions.update, name=made.name, config={"user_id": "u2", "update_mask": "userId"}
        )
        refused(404, "NOT_FOUND", sessions.update, name=f"{engine}/sessions/nope", config={"display_name": "x"})

    deleted = sessions.delete(name=made.name)
    assert deleted.done, deleted
    refused(404, "NOT_FOUND", sessions.get, name=made.name)
    refused(404, "NOT_FOUND", sessions.delete, name=made.name)
    refused(404, "NOT_FOUND", sessions.events.list, name=made.name)


def lists(sessions, engine):
    """Lists of several pages, with the filters that Google's clients have."""
    for n in range(260):
        config = {"session_id": f"s-{n}", "labels": {"tenth": "yes" if n % 10 == 0 else "no"}}
        if n == 7:
            config["display_name"] = 'a "seventh" \\ one'
        sessions.create(name=engine, user_id=f"u{n % 2}", config=config)

    def found(**config):
        return names(sessions.list(name=engine, config=config))

    every = [f"s-{n}" for n in range(260)]
    assert found() == every
    assert found(page_size=9) == every
    assert found(filter='user_id="u1"') == every[1::2]
    assert found(filter='labels.tenth="yes"') == every[::10]
    assert found(filter='labels.tenth="yes"', page_size=13) == every[::10]
    assert found(filter='user_id="u1" AND labels.tenth="yes"') == []
    assert found(filter='display_name="a \\"seventh\\" \\\\ one"') == ["s-7"]
    refused(400, "INVALID_ARGUMENT", sessions.list, name=engine, config={"filter": "bogus=1"})
    refused(400, "INVALID_ARGUMENT", sessions.list, name=engine, config={"page_token": "bogus"})
    refused(400, "INVALID_ARGUMENT", sessions.list, name=engine, config={"page_size": -1})


def main(url):
    for number, (name, sessions, engines) in enumerate(clients(url)):
        whole(sessions, f"{engines}{100 + number}")
        lists(sessions, f"{engines}{200 + number}")
        print(name, "is served")


main(sys.argv[1])
