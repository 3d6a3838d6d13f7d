from collections.abc import Generator
from typing import Any, Generic, TypeVar, final

_T = TypeVar("_T", covariant=True)

__all__ = [
    "REMOVED",
    "Artifacts",
    "Call",
    "Store",
    "Watch",
    "__version__",
    "advance",
    "run_command",
    "set_waits",
    "waits",
]

REMOVED: str
"""The value in a `state_delta` that removes its key."""

__version__: str

def run_command(arguments: list[str]) -> None:
    """Runs the command `scratchbook` and ends the process with its exit code; the first argument is its name."""

def waits() -> bool:
    """Whether awaiting a call blocks this thread."""

def set_waits(waits: bool) -> None: ...
def advance(seen: str, written: str) -> tuple[str, int | None, list[str]]:
    """Returns what a copy has seen after a write by its holder, how many of the copy's events come after the written
    one (`None` if the copy has that event already), and the written keys for which the copy already has a later
    value."""

@final
class Call(Generic[_T]):
    """A call. It can be awaited or waited for only once."""

    def __await__(self) -> Generator[Any, None, _T]: ...
    def wait(self) -> _T: ...

_Address = tuple[str, str, str]
_Session = tuple[bytes, str]

@final
class Store:
    """A store, opened at its first call; deep values are JSON."""

    def __new__(cls, uri: str) -> Store: ...
    @property
    def uri(self) -> str:
        """The URI without password and parameters, for people and logs."""

    def pause(self, seconds: float) -> Call[None]: ...
    def open(self) -> Call[None]: ...
    def close(self) -> Call[None]: ...
    def create(self, app_name: str, user_id: str, config: bytes) -> Call[_Session]: ...
    def get(
        self,
        address: _Address,
        num_recent_events: int | None = None,
        after_timestamp: float | None = None,
        after_seq: int | None = None,
    ) -> Call[_Session | None]: ...
    def list(self, app_name: str, user_id: str | None = None) -> Call[bytes]: ...
    def delete(self, address: _Address) -> Call[None]: ...
    def append(
        self,
        address: _Address,
        event: bytes,
        conflict: str,
        seen: str | None = None,
        operations: bytes | None = None,
        unknown: str = "kept",
    ) -> Call[tuple[str, str, bytes | None]]: ...
    def get_state(self, app_name: str, user_id: str | None = None) -> Call[bytes]: ...
    def put_state(self, app_name: str, user_id: str | None, operations: bytes, author: str) -> Call[int]: ...
    def was_written(self, app_name: str, user_id: str | None, name: str) -> Call[int]: ...
    def seq_of(self, address: _Address, event_id: str) -> Call[int]: ...
    def state_at(self, address: _Address, seq: int) -> Call[bytes]: ...
    def diff(self, address: _Address, before: int, after: int) -> Call[bytes]: ...
    def history(self, address: _Address, name: str, limit: int, at: int | None = None) -> Call[bytes]: ...
    def blame(self, address: _Address) -> Call[bytes]: ...
    def rewind(self, address: _Address, before_invocation_id: str) -> Call[bytes]: ...
    def fork(self, address: _Address, at: int | None = None, session_id: str | None = None) -> Call[_Session]: ...
    def verify(self, address: _Address) -> Call[bytes | None]: ...
    def verify_state(self, app_name: str, user_id: str | None = None) -> Call[bytes]: ...
    def watch(
        self,
        named: tuple[str, str | None, str | None],
        key_prefix: str,
        start: str,
        cursor: str | None = None,
    ) -> Watch: ...

@final
class Artifacts:
    """The artifacts of a store; deep values are JSON."""

    def __new__(cls, store: Store) -> Artifacts: ...
    def save(self, address: _Address, name: str, part: bytes, metadata: bytes) -> Call[int]: ...
    def load(self, address: _Address, name: str, version: int | None = None) -> Call[bytes | None]: ...
    def list(self, address: _Address) -> Call[bytes]: ...
    def versions(self, address: _Address, name: str, first: int, has_metadata: bool) -> Call[bytes]: ...
    def delete(self, address: _Address, name: str) -> Call[None]: ...

@final
class Watch:
    """Follows commits."""

    def start(self) -> Call[None]: ...
    def next(self, taken: int) -> Call[bytes]:
        """The entry after the first `taken` ones; it is returned again until it is taken."""

    def close(self) -> None: ...
