"""google-adk's sessions in scratchbook, by google-adk's own client of Agent Engine Sessions.

As `services.py` in the folder of the agents, it gives `adk web` and `adk api_server` addresses of scratchbook:

    adk web --session_service_uri scratchbook+http://127.0.0.1:8000/shop agents

The last part is the engine, which is the app on the server. A token is read from `SCRATCHBOOK_TOKEN`.
"""

import os
from urllib.parse import urlsplit

import agentplatform
from google.adk.cli.service_registry import get_service_registry
from google.adk.sessions.vertex_ai_session_service import VertexAiSessionService
from google.genai.types import HttpOptions
from google.oauth2.credentials import Credentials


class ScratchbookSessionService(VertexAiSessionService):
    """google-adk's service at another address. Without an engine, the app's name is its number."""

    def __init__(self, url, engine=None, token="none"):
        super().__init__(project="scratchbook", location="local", agent_engine_id=engine)
        self._url, self._token = url, token

    def _build_api_client(self):
        return agentplatform.Client(
            project=self._project,
            location=self._location,
            credentials=Credentials(token=self._token),
            http_options=HttpOptions(base_url=self._url),
        ).aio


def from_uri(uri, **_):
    parts = urlsplit(uri.removeprefix("scratchbook+"))
    token = os.environ.get("SCRATCHBOOK_TOKEN", "none")
    return ScratchbookSessionService(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"), token)


for scheme in ("scratchbook+http", "scratchbook+https"):
    get_service_registry().register_session_service(scheme, from_uri)
