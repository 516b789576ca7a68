"""The bundled answer server: `python -m gatekit.engine.answer_server CONFIG.json`.

Speaks the OpenAI API on 127.0.0.1 as vLLM does, and prints one line {"port": N} when it listens. It exits
at once when its standard input ends, so it never outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from threading import Thread

from aiohttp import web

from gatekit.engine.answer_config import AnswerConfig
from gatekit.engine.answer_stream import CONTENT_TYPE, stream_of
from gatekit.engine.answerer import UNKNOWN, Answerer, answerer
from gatekit.engine.completion_request import CompletionRequest, RequestError, parse
from gatekit.engine.faults import Fault, draw
from gatekit.engine.generation import EMPTY, Ended, generate, halve, tokens
from gatekit.engine.questions import KnownQuestions, index
from gatekit.engine.repeats import Repeats
from gatekit.engine.sim import latency_s
from gatekit.errors import GatekitError
from gatekit.records.answers import Question
from gatekit.records.canonical import Plain, from_plain
from gatekit.records.spec import Api

HOST = "127.0.0.1"
DEATH_CODE = 9
_MOST_BODY_BYTES = 4 * 2**20
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AnswerServer:
    """The routes, and what they count: attempts per question and answers given."""

    def __init__(self, config: AnswerConfig, known: KnownQuestions, who: Answerer) -> None:
        self._config = config
        self._known = known
        self._who = who
        self._attempts: Counter[int] = Counter()
        self._answered = 0
        self._requests = 0
        self._started = int(time.time())
        self._repeats = Repeats(first_seed=config.first_seed, answered=config.answered)

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(middlewares=[self._guard], client_max_size=_MOST_BODY_BYTES)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Asks for the key under /v1 and turns every refusal into JSON."""
        if request.path.startswith("/v1") and not self._may_enter(request):
            return web.json_response({"error": "Unauthorized"}, status=HTTPStatus.UNAUTHORIZED)
        try:
            return await handler(request)
        except RequestError as error:
            return web.json_response(error.body, status=error.status)
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)

    def _may_enter(self, request: web.Request) -> bool:
        if self._config.api_key is None:
            return True
        given = request.headers.get("Authorization", "").encode("utf-8", errors="surrogateescape")
        return hmac.compare_digest(given, b"Bearer " + self._config.api_key.encode())

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self._config.build})

    async def _models(self, _: web.Request) -> web.Response:
        name = self._config.served_model
        model = {"id": name, "object": "model", "created": self._started, "owned_by": "gatekit", "root": name}
        return web.json_response({"object": "list", "data": [model]})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Api.COMPLETIONS)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Api.CHAT)

    async def _answer(self, request: web.Request, api: Api) -> web.StreamResponse:
        self._requests += 1
        asked = parse(await request.read(), api=api, served_model=self._config.served_model)
        question = self._known.asked_in(asked.prompt)
        if question is None:
            return _response(self._body(api, asked.prompt, generate(UNKNOWN, asked.limits)), streams=asked.streams)
        if self._answered == self._config.faults.die_after:
            os._exit(DEATH_CODE)
        if self._config.repeats == 1:
            return await self._answer_known(request, api, asked, question, repeat=0)
        with self._repeats.asked(question.id, asked.seed) as repeat:
            return await self._answer_known(request, api, asked, question, repeat=repeat)

    async def _answer_known(
        self, request: web.Request, api: Api, asked: CompletionRequest, question: Question, *, repeat: int
    ) -> web.StreamResponse:
        ended = self._who.answer(question, asked.limits, repeat)
        fault = self._next_fault(question)
        await asyncio.sleep(latency_s(self._config.latency, seed=self._config.seed, text=question.text))
        if fault in (Fault.HTTP_500, Fault.DROP, Fault.HANG) or ended is None:
            return await _fail(request, fault)
        response = _response(self._body(api, asked.prompt, _spoil(ended, fault)), streams=asked.streams)
        if fault is Fault.MALFORMED:
            response.text = (response.text or "")[: len(response.text or "") // 2]
            return response
        return await self._send(request, response)

    def _next_fault(self, question: Question) -> Fault | None:
        attempt = self._attempts[question.id]
        self._attempts[question.id] += 1
        return draw(self._config.faults, seed=self._config.seed, text=question.text, attempt=attempt)

    async def _send(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        """Sends an answer; after the last one before its death the process ends once it is on its way."""
        self._answered += 1
        if self._answered == self._config.faults.die_after:
            await response.prepare(request)
            await response.write_eof()
            os._exit(DEATH_CODE)
        return response

    def _body(self, api: Api, prompt: str, ended: Ended) -> Plain:
        answer = ended.completion
        choice = {
            "index": 0,
            "logprobs": None,
            "finish_reason": answer.finish_reason,
            "stop_reason": ended.stop_reason,
        }
        choice |= {"message": _message(ended)} if api is Api.CHAT else {"text": answer.text}
        return {
            "id": f"{'chatcmpl' if api is Api.CHAT else 'cmpl'}-{self._requests}",
            "object": "chat.completion" if api is Api.CHAT else "text_completion",
            "created": int(time.time()),
            "model": self._config.served_model,
            "choices": [choice],
            "system_fingerprint": self._config.build,
            "usage": _usage(ended, prompt),
        }


def _response(body: Plain, *, streams: bool) -> web.Response:
    if streams:
        return web.Response(text=stream_of(body), content_type=CONTENT_TYPE)
    return web.Response(text=json.dumps(body), content_type="application/json")


def _usage(ended: Ended, prompt: str) -> Plain:
    """The token counts; None when a recording does not know them."""
    read, written = ended.completion.prompt_tokens, ended.completion.completion_tokens
    if written is None:
        return None
    read = tokens(prompt) if read is None else read
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _spoil(ended: Ended, fault: Fault | None) -> Ended:
    if fault is Fault.TRUNCATE:
        return halve(ended)
    return EMPTY if fault is Fault.EMPTY else ended


def _message(ended: Ended) -> Plain:
    answer = ended.completion
    message: dict[str, Plain] = {"role": "assistant", "content": answer.text, "reasoning": answer.reasoning}
    if answer.has_tool_calls:
        call = {"id": "call-1", "type": "function", "function": {"name": "recorded", "arguments": "{}"}}
        message["tool_calls"] = [call]
    return message


async def _fail(request: web.Request, fault: Fault | None) -> web.StreamResponse:
    """No answer: the connection is cut, nothing ever comes, or (a lost recording too) HTTP 500."""
    if fault is Fault.DROP and request.transport is not None:
        request.transport.abort()
    if fault is Fault.HANG:
        await asyncio.Event().wait()
    raise RequestError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        kind="InternalServerError",
    )


async def serve_forever(config: AnswerConfig) -> None:
    """Serves until the process ends; says the port on standard output once it listens."""
    questions = read_questions(Path(config.questions))
    server = AnswerServer(config, index(questions), answerer(config, questions))
    # A client that gives up cancels its handler, so that hung requests do not pile up.
    runner = web.AppRunner(server.application(), access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, HOST, config.port, backlog=1024)
    await site.start()
    port = runner.addresses[0][1]
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def read_questions(path: Path) -> list[Question]:
    """The questions in JSON lines {id, text, reference}."""
    with path.open(encoding="utf-8") as lines:
        return [from_plain(Question, json.loads(line)) for line in lines]


def hold_lifeline() -> None:
    """Ends this process, whatever it does, when its standard input ends."""

    def wait() -> None:
        try:
            while os.read(0, 4096):
                pass
        finally:
            os._exit(0)

    Thread(target=wait, daemon=True, name="lifeline").start()


def main(arguments: list[str]) -> int:
    """Reads the config named by the only argument and serves. Returns an exit code when it cannot."""
    hold_lifeline()
    try:
        config = from_plain(AnswerConfig, json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
        asyncio.run(serve_forever(config))
    except GatekitError as error:
        sys.stderr.write("".join(f"gatekit: {line}\n" for line in error.lines()))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
