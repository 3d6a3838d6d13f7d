"""langgraph, as the shared workloads use it: a thread is a session, and a checkpoint an event."""

from __future__ import annotations

import json
import uuid
from typing import Any

from graphs import chat, log
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import StateSnapshot
from savers import Opened
from shared.check import Origin
from shared.data import TEXT, delta, invocation, origin
from shared.measure import Preparation
from shared.protocol import Unsupported

APPEND = (
    "an event is one checkpoint by aupdate_state; the user: key is in the thread's own state, as threads share none"
)


def message(source: Origin) -> AIMessage:
    return AIMessage(TEXT, name="agent", id=invocation(*source))


class LangGraph:
    """One checkpointer. A session is the config of a thread."""

    notes = {
        "append": APPEND,
        "append_shared": f"{APPEND}; a program holds no session object, and each append reads the newest checkpoint",
        "state": APPEND,
        "get_json": "messages by messages_to_dict",
        "get_recent": "there is no read of the last messages: the whole thread is read",
        "memory": "the events share one text",
        "size_on_disk": "every checkpoint of the thread and what it added",
        "list": "threads of a user are found by the metadata of their checkpoints, of which each has one here",
        "turn": "a StateGraph of a model and a ToolNode, durability 'async' as it comes: four checkpoints",
    }

    def __init__(self, store: str, opened: Opened) -> None:
        self.store = store
        self._saver, self._file = opened.saver, opened.file
        self._log, self._chat = log(opened.saver), chat(opened.saver)

    async def create(self, app: str, user: str, state: dict[str, str]) -> RunnableConfig:
        names = {"app": app, "user": user}
        thread: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}, "metadata": names}
        await self._log.aupdate_state(thread, {"state": dict(state)}, as_node="agent")
        return thread

    async def append(self, session: RunnableConfig, source: Origin, change: dict[str, str]) -> None:
        if any(key.startswith("app:") for key in change):
            raise Unsupported("a checkpointer has no state that threads share; langgraph's Store is written apart.")
        await self._log.aupdate_state(session, {"messages": [message(source)], "state": change}, as_node="agent")

    async def reload(self, session: RunnableConfig) -> RunnableConfig:
        return session

    async def fill(self, session: RunnableConfig, count: int, preparation: Preparation) -> None:
        messages = [message((-1, number)) for number in range(count)]
        change = {"messages": messages, "state": delta(-1, count - 1)}
        await self._log.aupdate_state(session, change, as_node="agent")
        preparation.advance(count)

    async def grow(self, session: RunnableConfig, count: int, preparation: Preparation) -> None:
        for number in range(count):
            await self.append(session, (0, number), delta(0, number))
            preparation.advance()

    async def fill_sessions(self, app: str, users: list[str], preparation: Preparation) -> None:
        for user in users:
            await self.create(app, user, delta(-1, 0))
            preparation.advance()

    async def whole(self, session: RunnableConfig) -> tuple[StateSnapshot, int]:
        found = await self._log.aget_state(session)
        return found, len(found.values["messages"])

    def json(self, whole: StateSnapshot) -> str:
        return json.dumps({"messages": messages_to_dict(whole.values["messages"]), "state": whole.values["state"]})

    async def recent(self, session: RunnableConfig, count: int) -> int:
        return len((await self._log.aget_state(session)).values["messages"][-count:])

    async def listing(self, app: str, user: str) -> int:
        found = self._saver.alist(None, filter={"app": app, "user": user})
        return len({one.config["configurable"]["thread_id"] async for one in found})

    async def stored(self, session: RunnableConfig, most: int) -> tuple[list[Origin], dict[str, Any]]:
        values = (await self._log.aget_state(session)).values
        return [origin(one.id) for one in values.get("messages", [])[-most:]], values["state"]

    async def turn(self, session: RunnableConfig) -> str:
        asked = HumanMessage("A room by the lake, please.")
        answer = await self._chat.ainvoke({"messages": [asked]}, session)
        return str(answer["messages"][-1].content)

    async def disk(self) -> int:
        if self._file is not None and isinstance(self._saver, AsyncSqliteSaver):
            await self._saver.conn.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
            return self._file.stat().st_size
        assert isinstance(self._saver, AsyncPostgresSaver)
        async with self._saver._cursor() as cursor:
            await cursor.execute("SELECT pg_database_size(current_database()) AS bytes")
            row = await cursor.fetchone()
        return int(row["bytes"]) if row else 0
