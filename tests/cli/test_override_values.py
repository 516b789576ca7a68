"""Overrides mean what the same words mean in a file, and whatever they hold is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_command_line import here
