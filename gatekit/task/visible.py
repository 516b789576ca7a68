"""What a model said to the user: reasoning removed, and nothing after the point where it talks to itself."""

from __future__ import annotations

import re

_THINK = r"think|thinking|thought|thoughts|reasoning|reason|reflection|scratchpad|seed:think"
_REASONING = re.compile(
    rf"(?P<open><(?:{_THINK})\s?>|\[think\]|◁think▷|<\|begin_of_thought\|>|<\|channel\|>analysis)"
    rf"|</(?:{_THINK})\s?>|\[/think\]|◁/think▷|<\|end_of_thought\|>|<\|channel\|>final(?:<\|message\|>)?",
    re.IGNORECASE,
)

_MAY_REASON = re.compile(r"[<\[◁][/|TtRrSs\u017f]")  # how each of these begins: most answers have none

_ROLES = r"question|problem|exercise|human|user|assistant|instruction|问题|问"
_RUN_ON = re.compile(
    # a special token that leaked as text
    r"<\|[A-Za-z_]{1,40}\|>|</?s>|<eos>|</?(?:start|end)_of_turn>|<(?:start|end)_of_turn>|\[/?INST\]"
    # the label of another question on a line of its own: "Question:", "**Q2:**", "### Problem 3:", "User:"
    rf"|^[ \t>#*_]*(?:(?:{_ROLES})(?:[ \t]\#?\d{{1,4}})?|Q\d{{0,4}})[ \t*_]{{0,4}}[:：]"
    # the same label straight after a finished sentence or number on the same line
    r"|(?<=[.!?。)\d*])[ \t]{1,4}(?:Question|Q)(?:[ \t]?\d{1,4})?:",
    re.MULTILINE | re.IGNORECASE,
)
_MAY_BE_TOKEN = re.compile(r"[<\[][^<\d\s]")  # how each special token begins; every label has a colon
_ECHOES = frozenset({"", "assistant", "model"})  # what a leaked chat template leaves before the answer


def visible(text: str) -> str:
    """The text that counts as the answer, in linear time.

    Closed reasoning is removed; so is all before a closing tag that was never opened (the chat template
    opened it) and all after an opening tag that is never closed. Of the rest, only what stands before the
    first run-on boundary counts: what follows is another question, made up by the model.
    """
    return _before_run_on(_without_reasoning(text))


def _without_reasoning(text: str) -> str:
    if _MAY_REASON.search(text) is None:
        return text
    parts: list[str] = []
    start, thinking = 0, False
    for tag in _REASONING.finditer(text):
        if tag["open"] is not None:
            if not thinking:
                parts.append(text[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                parts.clear()
            start, thinking = tag.end(), False
    if not thinking:
        parts.append(text[start:])
    return "\n".join(parts)


def _before_run_on(text: str) -> str:
    """The first stretch between boundaries that says something: a boundary before any answer is an echo."""
    if ":" not in text and "：" not in text and _MAY_BE_TOKEN.search(text) is None:
        return text
    start = 0
    for boundary in _RUN_ON.finditer(text):
        stretch = text[start : boundary.start()]
        if stretch.strip().lower() not in _ECHOES:
            return stretch
        start = boundary.end()
    return text[start:]
