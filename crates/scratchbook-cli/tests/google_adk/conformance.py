"""Runs `adk conformance` of google-adk.

    conformance.py record AGENTS CASES MODE   records the cases with google-adk's server, and a model that follows a script
    conformance.py test URL CASES MODE        tests the server at the URL with the recordings

The exit code is that of the command.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partialmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from google.adk.cli.cli_tools_click import main
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient


class Gemini(BaseHTTPRequestHandler):
    """Answers depending on the last content of a request and on the name of the agent."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def parts(self, body):
        last = body["contents"][-1]["parts"][-1]
        response = last.get("functionResponse", {})
        if response.get("name") == "get_user_choice":
            return [{"text": "The suite is yours."}]
        if last.get("text") == "Hello":
            return [{"functionCall": {"name": "get_user_choice", "args": {"options": ["suite", "attic"]}}}]
        if 'internal name is "porter"' in body["systemInstruction"]["parts"][0]["text"]:
            return [{"text": "I carry "}, {"text": "them."}]
        return [{"functionCall": {"name": "transfer_to_agent", "args": {"agent_name": "porter"}}}]

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        streams = "streamGenerateContent" in self.path
        content = {"role": "model", "parts": self.parts(body)}
        usage = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
        answer = {
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": usage,
            "modelVersion": "gemini-2.5-flash",
        }
        data = json.dumps(answer)
        data = (f"data: {data}\n\n" if streams else data).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def adk(url, *arguments):
    """Runs the command on the server at `url`. The command's client has a fixed address, which is replaced."""
    AdkWebServerClient.__init__ = partialmethod(AdkWebServerClient.__init__, base_url=url)
    main(["conformance", *arguments])


def record(agents, cases, mode):
    gemini = ThreadingHTTPServer(("127.0.0.1", 0), Gemini)
    threading.Thread(target=gemini.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{gemini.server_address[1]}",
        "GOOGLE_API_KEY": "none",
    }
    plugin = "google.adk.cli.plugins.recordings_plugin.RecordingsPlugin"
    services = ["--session_service_uri=memory://", "--artifact_service_uri=memory://"]
    command = [str(Path(sys.executable).with_name("adk")), "api_server", "--port", str(port), "--extra_plugins", plugin]
    server = subprocess.Popen([*command, *services, agents], env=environment, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/list-apps")
                break
            except OSError:
                time.sleep(0.1)
        adk(url, "record", cases, mode)
    finally:
        server.kill()


if sys.argv[1] == "record":
    record(*sys.argv[2:])
else:
    url, cases, mode = sys.argv[2:]
    adk(url, "test", f"--streaming-mode={mode}", cases)
