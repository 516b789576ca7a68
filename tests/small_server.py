"""A small real server that gatekit starts as its engine `vllm`: a program in a folder of a test, and what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import command_line
from command_line import Ran, gatekit, here, servers
from gatekit.task.synth import synth_questions

# It answers every question rightly. `BEFORE` runs before it binds its port, `ON_POST` before each answer.
_PROGRAM = """\
#!{python} -S
import http.server, json, os, signal, subprocess, sys, threading, time
HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = json.load(open(os.path.join(HERE, "answers.json")))
PORT = int(sys.argv[sys.argv.index("--port") + 1])
NAME = sys.argv[sys.argv.index("--served-model-name") + 1]
SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
POSTS = []
{before}

class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    def send(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    def do_GET(self):
        self.send(200, {{"data": [{{"id": NAME}}], "version": "1.0"}})
    def do_POST(self):
        data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = data.get("prompt") or data["messages"][-1]["content"]
        text = ANSWERS.get(prompt.rpartition("Question: ")[2].removesuffix("\\nAnswer:"), "#### 2")
        POSTS.append(prompt)
{on_post}
        usage = {{"prompt_tokens": 7, "completion_tokens": 9}}
        choice = {{"text": text, "message": {{"role": "assistant", "content": text}}, "finish_reason": "stop"}}
        self.send(200, {{"model": NAME, "choices": [choice], "usage": usage}})
    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

Server(("127.0.0.1", PORT), Handler).serve_forever()
"""

QUICK = ("task.n=40", "gate=static_floor", "gate.floor=0.8", "--json")
"""Forty questions and a plain gate."""


@cache
def _answers() -> str:
    return json.dumps({question.text: question.reference for question in synth_questions(1319, "test")})


def install(folder: Path, *, before: str = "", on_post: str = "pass") -> dict[str, str]:
    """Puts the program `vllm` into `folder`/bin; the environment that finds it."""
    program = folder / "bin" / "vllm"
    program.parent.mkdir()
    indented = "\n".join(" " * 8 + line for line in on_post.splitlines())
    program.write_text(_PROGRAM.format(python=sys.executable, before=before, on_post=indented), encoding="utf-8")
    program.chmod(0o755)
    (program.parent / "answers.json").write_text(_answers(), encoding="utf-8")
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def arguments(*more: str) -> tuple[str, ...]:
    """The command line of a quick run on that program; later ones win."""
    return ("engine=vllm", "hw=cpu", *QUICK, *more)


def run(folder: Path, *more: str, extra: Mapping[str, str]) -> Ran:
    """That run, to its end, in this process."""
    return here(folder, *arguments(*more), extra=extra)


def run_apart(folder: Path, *more: str, extra: Mapping[str, str], before: Sequence[str] = ()) -> Ran:
    """That run, to its end, in a process of its own, the words of `before` in front of it."""
    return gatekit(folder, *arguments(*more), extra=extra, before=before)


def start(folder: Path, *more: str, extra: Mapping[str, str], before: Sequence[str] = ()) -> subprocess.Popen[str]:
    """That run, begun."""
    return command_line.start(folder, *arguments(*more), extra=extra, before=before)


def left_after(run_id: str, timeout_s: float) -> list[int]:
    """The processes of the run that are still there after at most that many seconds."""
    deadline = time.monotonic() + timeout_s
    while (left := servers(run_id)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
