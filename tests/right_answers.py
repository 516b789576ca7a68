"""What a server without any fault answers: the bundled questions, all of them right, as model m."""

from __future__ import annotations

from gatekit.task.synth import synth_questions
from raw_server import RawServer, Request, chat, completion, http

MODELS = {"object": "list", "data": [{"id": "m"}]}
ANSWERS = {question.text: question.reference for question in synth_questions(1319, "test")}


def right(request: Request) -> bytes:
    """Answers every question rightly, on both routes, as model m."""
    if request.path == "/v1/models":
        return http(200, MODELS)
    if request.path == "/v1/completions":
        return http(200, completion(reference(request.data["prompt"])))
    if request.path == "/v1/chat/completions":
        return http(200, chat(reference(request.data["messages"][-1]["content"])))
    return http(200, {"version": "1.2"}) if request.path == "/version" else http(200, "")


def reference(prompt: str) -> str:
    question = prompt.rpartition("Question: ")[2].removesuffix("\nAnswer:")
    return ANSWERS.get(question, "#### 2")


def is_question(request: Request) -> bool:
    """Whether a request asks a question of the dataset; the warm-up asks none."""
    return request.method == "POST" and b"1 + 1" not in request.body


def asked(server: RawServer) -> int:
    """How many dataset questions reached the server."""
    return sum(map(is_question, server.requests))
