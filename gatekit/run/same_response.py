"""Whether a response is one that had come before: a second copy of it would be scored as another question's answer."""

from __future__ import annotations

_REMEMBERED = 2**13


class Responses:
    """The last thousands of responses of one server, by their ids.

    Two copies are one response, with one id, to two different requests. Only a server that numbers its responses can
    be told so: not one whose ids are all the same or stand for different responses, and none without ids. The same
    response to the same request is a cache's.
    """

    def __init__(self) -> None:
        self._numbered = True
        self._new: dict[int, tuple[int, int]] = {}
        self._old: dict[int, tuple[int, int]] = {}

    def came_before(self, response_id: object, response: int, request: int) -> bool:
        """Whether another request had brought this response; both are given by their hashes. Remembers it if not."""
        if not self._numbered or not isinstance(response_id, (str, int)):
            return False
        number = hash(response_id)
        earlier = self._new.get(number) or self._old.get(number)
        if earlier is None:
            self._remember(number, (response, request))
            return False
        if earlier[0] != response:
            self._numbered = False  # its ids say nothing
            return False
        return earlier[1] != request and len(self._new) + len(self._old) > 1

    def _remember(self, number: int, seen: tuple[int, int]) -> None:
        if len(self._new) >= _REMEMBERED:
            self._old, self._new = self._new, {}
        self._new[number] = seen
