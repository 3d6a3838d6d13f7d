"""google-adk, as the shared workloads use it."""

from __future__ import annotations

from typing import Any

from agents.bench.agent import root_agent
from fill import disk, fill_events, fill_sessions
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types
from services import Opened
from shared.check import Origin
from shared.data import APP, TEXT, delta, invocation, origin
from shared.measure import Preparation
from shared.system import Refused

MESSAGE = types.Content(role="user", parts=[types.Part(text="A room by the lake, please.")])


def event(source: Origin, change: dict[str, str]) -> Event:
    """An agent's event."""
    content = types.Content(role="model", parts=[types.Part(text=TEXT)])
    actions = EventActions(state_delta=dict(change))
    return Event(author="agent", invocation_id=invocation(*source), content=content, actions=actions)


class GoogleAdk:
    """One service. A session is google-adk's `Session`."""

    notes = {"memory": "the events share one text"}

    def __init__(self, opened: Opened) -> None:
        self.store = opened.store
        self._opened = opened
        self._service = opened.service
        self._runner = Runner(app_name=APP, agent=root_agent, session_service=opened.service)

    async def create(self, app: str, user: str, state: dict[str, str]) -> Session:
        return await self._service.create_session(app_name=app, user_id=user, state=dict(state))

    async def append(self, session: Session, source: Origin, change: dict[str, str]) -> None:
        try:
            await self._service.append_event(session, event(source, change))
        except StaleSessionError as error:
            raise Refused from error
        except Exception as error:
            if "database is locked" in str(error):
                raise Refused from error
            raise

    async def _get(self, session: Session, recent: int | None = None) -> Session:
        config = None if recent is None else GetSessionConfig(num_recent_events=recent)
        found = await self._service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, config=config
        )
        assert found is not None
        return found

    async def reload(self, session: Session) -> Session:
        return await self._get(session)

    async def fill(self, session: Session, count: int, preparation: Preparation) -> None:
        events = (event((-1, number), delta(-1, number)) for number in range(count - 1))
        await fill_events(self._opened, session, events, preparation)
        # The last one as a program does: it leaves the state of them all.
        await self.append(session, (-1, count - 1), delta(-1, count - 1))

    async def grow(self, session: Session, count: int, preparation: Preparation) -> None:
        await self.fill(session, count, preparation)

    async def fill_sessions(self, app: str, users: list[str], preparation: Preparation) -> None:
        await fill_sessions(self._opened, app, users, preparation)

    async def whole(self, session: Session) -> tuple[Session, int]:
        found = await self._get(session)
        return found, len(found.events)

    def json(self, whole: Session) -> str:
        return whole.model_dump_json(by_alias=True, exclude_none=True)

    async def recent(self, session: Session, count: int) -> int:
        return len((await self._get(session, count)).events)

    async def listing(self, app: str, user: str) -> int:
        return len((await self._service.list_sessions(app_name=app, user_id=user)).sessions)

    async def stored(self, session: Session, most: int) -> tuple[list[Origin], dict[str, Any]]:
        found = await self._get(session, most)
        return [origin(one.invocation_id) for one in found.events], found.state

    async def turn(self, session: Session) -> str:
        text = ""
        async for one in self._runner.run_async(user_id=session.user_id, session_id=session.id, new_message=MESSAGE):
            text = one.content.parts[0].text if one.content else ""
        return text or ""

    async def disk(self) -> int:
        return await disk(self._opened)
