"""The least that an evaluation can do over aiohttp: questions asked, numbers compared; no journal, no record.

What benchmarks/client.py compares with. Prints its readings as one line of JSON. Run:
`python benchmarks/bare_loop.py completions|chat BASE_URL GSM8K_DIR CONCURRENCY`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp

SHOTS = 5
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def asked(data: Path, *, is_chat: bool) -> list[tuple[bytes, float]]:
    """The request body and the reference of every question of the test set."""
    with (data / "train.jsonl").open() as file:
        shots = [json.loads(line) for _, line in zip(range(SHOTS), file, strict=False)]
    before = "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in shots)
    rows = map(json.loads, (data / "test.jsonl").read_text().splitlines())
    return [(_body(f"{before}Question: {row['question']}\nAnswer:", is_chat), _reference(row)) for row in rows]


def _body(prompt: str, is_chat: bool) -> bytes:
    common = {"model": "mock", "temperature": 0, "max_tokens": 256, "stop": ["Question:"]}
    text = {"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt}
    return json.dumps({**common, **text}).encode()


def _reference(row: dict[str, str]) -> float:
    return float(row["answer"].split("####")[1].replace(",", ""))


def _is_right(body: bytes, reference: float, *, is_chat: bool) -> bool:
    choice: dict[str, Any] = json.loads(body)["choices"][0]
    found = _NUMBER.findall(choice["message"]["content"] if is_chat else choice["text"])
    return bool(found) and float(found[-1].replace(",", "")) == reference


async def ask(url: str, questions: list[tuple[bytes, float]], concurrency: int, *, is_chat: bool) -> dict[str, float]:
    """The accuracy, and what asking took of the clock and of the processor."""
    right = 0
    todo = iter(questions)
    connector = aiohttp.TCPConnector(limit=concurrency)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=False) as session:

        async def worker() -> None:
            nonlocal right
            for body, reference in todo:
                async with session.post(url, data=body) as response:
                    answer = await response.read()
                    assert response.status == 200, response.status
                right += _is_right(answer, reference, is_chat=is_chat)

        began_s, cpu_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        spent = {"asking_cpu_s": time.process_time() - cpu_s, "span_s": time.perf_counter() - began_s}
    return {"accuracy": right / len(questions), **spent}


def main() -> None:
    """One pass over all questions."""
    api, base_url, data, concurrency = sys.argv[1:]
    is_chat = api == "chat"
    url = f"{base_url}/v1/chat/completions" if is_chat else f"{base_url}/v1/completions"
    questions = asked(Path(data), is_chat=is_chat)
    print(json.dumps(asyncio.run(ask(url, questions, int(concurrency), is_chat=is_chat))))


if __name__ == "__main__":
    main()
