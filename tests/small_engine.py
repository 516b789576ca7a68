"""A whole inference server in a few lines, to be started as an engine: `python small_engine.py MODEL OPTIONS...`.

It answers every question of gsm8k_synth rightly under the name that `--served-model-name` gives it, and writes its
argv and environment to the file `SMALL_DUMP`. What else it says of itself is in SMALL_* variables: `SMALL_INFO` (the
JSON of /info), `SMALL_LOG` (a line of its log), `SMALL_METRICS`, `SMALL_VERSION`, `SMALL_NAME`. `SMALL_ANSWERS` is a
JSON file of the questions and their answers, for whoever starts it often: to make them takes half a second. Where
`SMALL_HOLD` names a file that is not there, nothing is answered from the twentieth request on until it is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any


def answers() -> dict[str, str]:
    """What to answer to each question."""
    if "SMALL_ANSWERS" in os.environ:
        found: dict[str, str] = json.loads(Path(os.environ["SMALL_ANSWERS"]).read_text())
        return found
    from gatekit.task.synth import synth_questions

    return {question.text: question.reference for question in synth_questions(1319, "test")}


ANSWERS = answers()
POSTS = count(1)


def option(name: str, default: str = "") -> str:
    """The value behind an option of the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Handler(BaseHTTPRequestHandler):
    """The routes of an OpenAI-style server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits for the client's word on the head: 40 ms a request
    name = option("--served-model-name", sys.argv[1] if len(sys.argv) > 1 else "m")

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        model = os.environ.get("SMALL_NAME", self.name)
        bodies = {
            "/health": "",
            "/v1/models": json.dumps({"object": "list", "data": [{"id": model}]}),
            "/version": json.dumps({"version": os.environ.get("SMALL_VERSION", "1.2.3")}),
            "/info": os.environ.get("SMALL_INFO", "{}"),
            "/metrics": os.environ.get("SMALL_METRICS", ""),
        }
        self.say(200 if self.path in bodies else 404, bodies.get(self.path, '{"detail": "Not Found"}'))

    def do_POST(self) -> None:
        number, held = next(POSTS), os.environ.get("SMALL_HOLD")
        while number >= 20 and held is not None and not Path(held).exists():
            time.sleep(0.02)
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = os.environ.get("SMALL_KEY")
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.say(401, '{"error": {"message": "Unauthorized"}}')
            return
        prompt = asked["prompt"] if "prompt" in asked else asked["messages"][-1]["content"]
        text = ANSWERS.get(prompt.rpartition("Question: ")[2].removesuffix("\nAnswer:"), "#### 2")
        inner = {"text": text} if "prompt" in asked else {"message": {"role": "assistant", "content": text}}
        choice = {"index": 0, "finish_reason": "stop", **inner}
        usage = {"prompt_tokens": 7, "completion_tokens": 9}
        self.say(200, json.dumps({"model": asked["model"], "choices": [choice], "usage": usage}))

    def say(self, status: int, body: str) -> None:
        raw = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if self.path == "/metrics" else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


class Server(ThreadingHTTPServer):
    """Takes as many connections at once as a run opens: one that is turned away tries again after whole seconds."""

    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    if "SMALL_DUMP" in os.environ:
        given = Path("/proc/self/environ").read_text().rstrip("\0").split("\0")
        environ = dict(entry.split("=", 1) for entry in given)
        Path(os.environ["SMALL_DUMP"]).write_text(json.dumps({"argv": sys.argv, "environ": environ}))
    print(os.environ.get("SMALL_LOG", ""), flush=True)
    Server(("127.0.0.1", int(option("--port"))), Handler).serve_forever()
