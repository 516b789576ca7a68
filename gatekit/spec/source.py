"""Where Hydra gets its config files: through gatekit's own reader, and from nowhere else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from omegaconf import OmegaConf

from gatekit.errors import ConfigError
from gatekit.spec.reader import Document, display, read

# Hydra walks every path through the defaults lists: n files that include each other make 2 ** (n - 2) of them.
MOST_FILES_OF_A_GROUP = 10
_WHOLE_SPEC = "_global_"


class CheckedSource(FileConfigSource):
    """A folder of config groups whose files pass gatekit's reader.

    A file of group `model` speaks about the whole spec (it pulls in its engine, protocol and gate), so its
    keys are placed at the root; a file of any other group speaks about that group alone.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.documents: dict[str, Document] = {}

    def __deepcopy__(self, memo: object) -> CheckedSource:
        # Hydra composes from a copy of its sources; what that copy reads is wanted here.
        return self

    @staticmethod
    def scheme() -> str:
        """The scheme that makes Hydra use this source."""
        return "gatekit"

    def load_config(self, config_path: str) -> ConfigResult:
        """One config file, read by gatekit's reader."""
        name = self._normalize_file_name(config_path)
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found: {config_path}")
        document = read(Path(self.path) / name)
        self.documents[name] = document
        group = PurePosixPath(name).parent
        if sum(PurePosixPath(other).parent == group for other in self.documents) > MOST_FILES_OF_A_GROUP:
            what = f"the defaults lists lead through over {MOST_FILES_OF_A_GROUP} files of {group}"
            raise ConfigError.one(what, where=display(document.path), reason="defaults-bomb")
        in_model = PurePosixPath(name).parts[0] == "model"
        return ConfigResult(
            config=OmegaConf.create(dict(document.data)),
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header={"package": _WHOLE_SPEC if in_model else None},
        )

    def is_group(self, config_path: str) -> bool:
        """Whether there is such a group; names that climb out of the folder are none."""
        return ".." not in PurePosixPath(config_path).parts and super().is_group(config_path)

    def is_config(self, config_path: str) -> bool:
        """Whether there is such a file; names that climb out of the folder are none."""
        return ".." not in PurePosixPath(config_path).parts and super().is_config(config_path)
