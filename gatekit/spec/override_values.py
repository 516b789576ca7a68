"""Overrides in Hydra's grammar, of which every value means what it means in a file, or is refused."""

from __future__ import annotations

import math
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import create_functions
from hydra.core.override_parser.overrides_visitor import HydraErrorListener, HydraOverrideVisitor
from hydra.core.override_parser.types import Glob, Key, Override, QuotedString, Sweep
from hydra.errors import HydraException
from hydra.grammar.gen.OverrideLexer import (  # type: ignore[attr-defined]  # it passes ANTLR's names on
    CommonTokenStream,
    InputStream,
    OverrideLexer,
)
from hydra.grammar.gen.OverrideParser import OverrideParser

from gatekit.errors import ConfigError
from gatekit.spec.composition import shown_override
from gatekit.spec.described import wanted_at
from gatekit.spec.plainly import hint_for
from gatekit.spec.reader import core_scalar, is_ambiguous

# A group is looked up as a file of that name, and names of files end at 255 characters.
MOST_KEY_CHARACTERS = 240
_MOST_SHOWN_CHARACTERS = 80
_CASTS = frozenset({"int", "float", "bool", "str"})
_HINT = "overrides look like group=option or key.path=value"


def parsed(text: str, loader: ConfigLoader) -> Override:
    """One override of the command line.

    Raises ConfigError for what is no override, and where a file would refuse its value or read another one.
    """
    key = text.partition("=")[0]
    if len(key) > MOST_KEY_CHARACTERS:
        shown = f"{shown_override(key)[:_MOST_SHOWN_CHARACTERS]}..."
        what = f"override {shown!r}: its key has over {MOST_KEY_CHARACTERS} characters"
        raise ConfigError.one(what, reason="bad-override", hint=_HINT)
    try:
        override: Override = _Alike(text).visit(_tree(text))
        override.input_line = text
        override.validate()
    except (HydraException, ValueError, OverflowError, OSError, RecursionError) as error:
        shown = shown_override(text)
        why = str(error).strip() if shown == text and isinstance(error, HydraException) else ""
        what = f"override {shown!r}: {why.splitlines()[0] if why else 'cannot be parsed'}"
        raise ConfigError.one(what, reason="bad-override", hint=_hint(text)) from None
    override.config_loader = loader
    return override


def _hint(text: str) -> str:
    """What to write: of a list or mapping, which of its texts need quotes."""
    key, _, value = text.partition("=")
    if value.lstrip()[:1] not in ("[", "{") or shown_override(key) != key:
        return _HINT
    sample = '[a, "--b=c"]' if value.lstrip()[0] == "[" else '{a: "--b=c"}'
    return f"inside of it a text with = or other signs needs quotes, and all of it those of the shell: '{key}={sample}'"


def _tree(text: str) -> Any:
    listener = HydraErrorListener()
    lexer = OverrideLexer(InputStream(text))
    parser = OverrideParser(CommonTokenStream(lexer))
    for part in (lexer, parser):
        part.removeErrorListeners()
        part.addErrorListener(listener)
    return parser.override()  # type: ignore[no-untyped-call]  # ANTLR generates no types


class _Alike(HydraOverrideVisitor):
    """Hydra's reading of an override, stopped where a file would be read otherwise."""

    def __init__(self, text: str) -> None:
        super().__init__(create_functions())
        self.where = f"override {shown_override(text).lstrip('+')}"
        self.is_shown = shown_override(text) == text
        self.path: list[str | int] = []

    def visitKey(self, ctx: Any) -> Key:  # noqa: N802 - Hydra's name
        """The key, whose schema tells how a refused value is written."""
        key = super().visitKey(ctx)
        self.path = [*key.key_or_group.split(".")]
        return key

    def visitListContainer(self, ctx: Any) -> list[Any]:  # noqa: N802 - Hydra's name
        """A list, all of whose items have one schema."""
        self.path.append(0)
        items: list[Any] = super().visitListContainer(ctx)
        self.path.pop()
        return items

    def visitDictContainer(self, ctx: Any) -> dict[str, Any]:  # noqa: N802 - Hydra's name
        """A mapping whose keys are words, each of them once."""
        items: dict[str, Any] = {}
        for index in range(1, ctx.getChildCount() - 1, 2):
            key, value = self.visitDictKeyValuePair(ctx.getChild(index))
            if key in items:
                raise self._refusal(f"key {self._shown(key)} stands twice", "duplicate-key")
            items[key] = value
        return items

    def visitDictKeyValuePair(self, ctx: Any) -> tuple[str, Any]:  # noqa: N802 - Hydra's name
        """A key and its value, which is read with the key's schema at hand."""
        written = ctx.getChild(0).getText().strip()
        self.path.append(written)
        key, value = super().visitDictKeyValuePair(ctx)
        self.path.pop()
        if not isinstance(key, str):
            raise self._refusal(f"key {self._shown(written)} is not a word", "bad-key")
        return key, value

    def visitFunction(self, ctx: Any) -> Any:  # noqa: N802 - Hydra's name
        """A sweep; whatever else is computed would be a text in a file."""
        name = ctx.getChild(0).getText()
        value = None if name in _CASTS else super().visitFunction(ctx)
        if not isinstance(value, (Sweep, Glob)):
            what = f"{self._shown(ctx.getText(), bare=True)} is read differently by files and overrides"
            raise self._refusal(what, "ambiguous-value", "write the value itself")
        return value

    def _createPrimitive(self, ctx: Any) -> Any:  # noqa: N802 - Hydra's name
        text = ctx.getText().strip()
        kind, meant = core_scalar(text)
        is_choice = len(self.path) == 1
        if kind == "float" and not math.isfinite(meant):
            what = f"{self._shown(text, bare=True)} is not a finite number"
            raise self._refusal(what, "not-finite")
        value = super()._createPrimitive(ctx) if len(text) <= MOST_KEY_CHARACTERS or kind == "str" else None
        # What stays a text is as it was typed: a revision of digits alone needs no quotes here.
        is_text = isinstance(value, (str, QuotedString))
        if not is_text and not is_choice and not _is_same(value, meant):
            others = "YAML 1.1 and 1.2" if is_ambiguous(text) else "files and overrides"
            hint = hint_for(text, wanted_at("", tuple(self.path)))
            what = f"{self._shown(text, bare=True)} is read differently by {others}"
            raise self._refusal(what, "ambiguous-value", hint)
        return value

    def _shown(self, text: str, *, bare: bool = False) -> str:
        if not self.is_shown:
            return "it" if bare else "..."
        return text[:_MOST_SHOWN_CHARACTERS] if bare else repr(text[:_MOST_SHOWN_CHARACTERS])

    def _refusal(self, what: str, reason: str, hint: str = "") -> ConfigError:
        return ConfigError.one(what, where=self.where, reason=reason, hint=hint)


def _is_same(value: object, meant: object) -> bool:
    """Whether both are the same value of the same type; what is no finite number is told by the schemas."""
    if isinstance(value, float) and not math.isfinite(value):
        return True
    return type(value) is type(meant) and value == meant
