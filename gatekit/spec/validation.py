"""Every mistake in config files at once: in each file by itself, in every spec they make, in every matrix and lock."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.history.durable_files import open_regular
from gatekit.spec import checked, schema, texts
from gatekit.spec.composition import Composition
from gatekit.spec.folders import GROUPS, ROOT_FILE, can_be_chosen, group_of
from gatekit.spec.library import MODEL, Library
from gatekit.spec.reader import MAX_BYTES, Document, KeyPath, display
from gatekit.spec.selection import OF_THE_MACHINE, asked_of_a_machine

MATRIX = "matrix"
_PLACE = re.compile(r"(?P<file>.*?)(?::(?P<line>[0-9]+):(?P<column>[0-9]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """How much was looked at, and everything that is wrong with it, in the order of files and lines."""

    files: int
    specs: int
    matrices: int
    problems: tuple[Problem, ...]
    locks: int = 0


def validate(library: Library, files: Iterable[Path]) -> Validated:
    """Everything that is wrong with these files of the library's folders, and with the specs that they are part of.

    A problem that several specs share is told once; a file that cannot be read hides nothing in the others.
    """
    work = _Validation(library=library, files=tuple(files))
    work.look()
    return Validated(
        files=len(work.files),
        specs=len(work.specs),
        matrices=work.matrices,
        problems=in_order(work.problems),
    )


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems by file, line and column, each once; those that stand in no file come last."""
    return tuple(sorted(texts.most_telling(dict.fromkeys(problems)), key=_place_of))


def _place_of(problem: Problem) -> tuple[bool, str, int, int]:
    found = _PLACE.fullmatch(problem.where)
    assert found is not None, "the pattern takes any text"
    is_nowhere = not problem.where or problem.where.startswith("override ")
    return is_nowhere, found["file"], int(found["line"] or 0), int(found["column"] or 0)


@dataclass(slots=True, kw_only=True)
class _Validation:
    """The work on some files: what was found so far."""

    library: Library
    files: tuple[Path, ...]
    problems: list[Problem] = field(default_factory=list)
    specs: set[tuple[str, ...]] = field(default_factory=set)
    used: set[Path] = field(default_factory=set)
    matrices: int = 0
    machine: str | None = None
    fitting: dict[str, bool] = field(default_factory=dict)

    def look(self) -> None:
        for path in self.files:
            self.problems += file_problems(self.library, path)
        self._look_at_models()
        self._look_at_matrices()
        for path in self.files:
            self._look_at_an_option(path)

    def _look_at_models(self) -> None:
        chosen = set(self.files)
        for model in filter(can_be_chosen, self._models()):
            overrides = (f"{MODEL}={model}",)
            try:
                composition = self.library.salvage(overrides)
            except ConfigError as error:
                if chosen & set(self.library.files(MODEL, model)) or not chosen.isdisjoint(_named(error, chosen)):
                    self.problems += error.problems
                continue
            read = _read(composition)
            if chosen & read:
                self.used |= read
                self.specs.add(overrides)
                self.problems += self._on_some_machine(overrides, composition)

    def _models(self) -> Sequence[str]:
        """The models that the files may be part of. Of model files alone: they, and whatever mentions them."""
        models = self.library.options(MODEL)
        if any(path.parent.name != MODEL for path in self.files):
            return models
        wanted = {path.stem for path in self.files}
        texts = {model: _start(path) for model in models for path in self.library.files(MODEL, model)[:1]}
        while found := [model for model in models if model not in wanted and _mentions(texts.get(model, b""), wanted)]:
            wanted.update(found)
        return [model for model in models if model in wanted]

    def _on_some_machine(self, overrides: tuple[str, ...], composition: Composition) -> list[Problem]:
        """The problems of a spec on its default machine, without those that are gone on another one."""
        found = checked.problems(composition)
        rest = [problem for problem in found if problem.reason not in OF_THE_MACHINE]
        if len(rest) == len(found):
            return found
        asked = asked_of_a_machine(composition)
        fits = self.fitting.get(asked) if asked is not None else None
        if fits is None:
            fits = self._fits_a_machine(overrides)
        if asked is not None:
            self.fitting[asked] = fits
        return rest if fits else found

    def _fits_a_machine(self, overrides: tuple[str, ...]) -> bool:
        # Neighbours often run on the same machine.
        for machine in sorted(self.library.options("hw"), key=lambda machine: machine != self.machine):
            try:
                there = self.library.salvage((*overrides, f"hw={machine}"))
            except ConfigError:
                continue
            if not any(problem.reason in OF_THE_MACHINE for problem in checked.problems(there)):
                self.machine = machine
                return True
        return False

    def _look_at_matrices(self) -> None:
        chosen = set(self.files)
        names = [name for name in self.library.options(MATRIX) if chosen & set(self.library.files(MATRIX, name)[:1])]
        if not names:
            return
        from gatekit.spec.matrix.plan import plans

        for planned in plans(names, self.library):
            self.matrices += 1
            told = self._told()
            self.problems += [problem for problem in planned.problems if not _repeats(problem, told)]
            for row in planned.planned:
                self.specs.add(row.overrides)
                self.used |= _read(self.library.compose(row.overrides))

    def _told(self) -> Mapping[tuple[str, str], Sequence[Problem]]:
        told: dict[tuple[str, str], list[Problem]] = {}
        for problem in dict.fromkeys(self.problems):
            told.setdefault((problem.where, problem.reason), []).append(problem)
        return told

    def _look_at_an_option(self, path: Path) -> None:
        """What is missing in an option that no spec takes and no other file builds on."""
        group, option = path.parent.name, path.stem
        is_option = path.name != ROOT_FILE and group in GROUPS and group not in (MODEL, MATRIX)
        is_first = self.library.files(group, option)[:1] == (path,)
        if not is_option or not is_first or path in self.used or not can_be_chosen(option):
            return
        try:
            composition = self.library.salvage((f"{group}={option}",))
            alone = self.library.alone(group, option)
        except ConfigError as error:
            self.problems += [] if self._is_base(group, option) else error.problems
            return
        # What the option's own files say, not those of the default spec around it.
        documents = tuple(placed for placed in composition.documents if placed[0] == (group,))
        data = composition.data if alone is None else {**composition.data, group: alone}
        here = replace(composition, data=data, overrides=(), documents=documents)
        found = checked.problems_of_section(here, group)
        is_part = self._is_base(group, option)
        self.problems += [one for one in found if not is_part or one.reason != "missing-key"]

    def _is_base(self, group: str, option: str) -> bool:
        places = (self.library.files(group, other)[:1] for other in self.library.options(group))
        found = (self.library.examined(path).document for place in places for path in place)
        listed = (document.data.get("defaults") for document in found if document is not None)
        return any(isinstance(entries, list) and option in entries for entries in listed)


def _repeats(problem: Problem, told: Mapping[tuple[str, str], Sequence[Problem]]) -> bool:
    """Whether a matrix repeats what is wrong with a model or machine that it asks for."""
    alike = told.get((problem.where, problem.reason), ())
    return any(problem.what.startswith(other.what) for other in alike)


def file_problems(library: Library, path: Path) -> Iterator[Problem]:
    """What is wrong with a file whatever it is composed with: what the reader refuses, and what breaks its schema."""
    examined = library.examined(path)
    yield from examined.problems
    group = group_of(path)
    if examined.document is not None and group == MATRIX:
        yield from _matrix_problems(examined.document, examined.problems)
    elif examined.document is not None:
        package: KeyPath = () if group in ("", MODEL) else (path.parent.name,)
        yield from _shape_problems(examined.document, package, examined.broken)


def _shape_problems(document: Document, package: KeyPath, broken: Collection[KeyPath]) -> Iterator[Problem]:
    data = {key: value for key, value in document.data.items() if key != "defaults"}
    placed = {str(package[0]): data} if package else data
    here = Composition(data=placed, choices={}, overrides=(), documents=((package, document),))
    unsure = [(*package, *place) for place in broken]
    for fault in schema.faults_of_file(placed):
        if fault.at_key or not checked.is_inside(fault.path, unsure):
            yield fault.located(here.locate)
    yield from texts.problems(here)
    yield from texts.passwords_of_urls(here)


def _matrix_problems(document: Document, told: Sequence[Problem]) -> Iterator[Problem]:
    """What the matrix's own checks say, but for places that the reader refused."""
    from gatekit.spec.matrix.file import matrix_file

    places = {problem.where for problem in told}
    yield from (problem for problem in matrix_file(document).problems if problem.where not in places)


def _start(path: Path) -> bytes:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def _mentions(text: bytes, names: Collection[str]) -> bool:
    return any(os.fsencode(name) in text for name in names)


def _read(composition: Composition) -> set[Path]:
    return {document.path for _, document in composition.documents}


def _named(error: ConfigError, files: Collection[Path]) -> set[Path]:
    """The files that an error points at."""
    shown = {display(path): path for path in files}
    named = (_PLACE.fullmatch(problem.where) for problem in error.problems)
    return {shown[found["file"]] for found in named if found is not None and found["file"] in shown}
