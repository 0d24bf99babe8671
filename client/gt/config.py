"""Which sharding file a session has.

The first of these that is there: what the program gave by `register_config` or `load_config`, the file that `GT_CONFIG`
names, the job's file (`GT_JOB_SHARDING`). Without any, the cluster's own file counts, which the dispatcher knows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from gt.errors import ConfigError
from gt_protocol.settings import ClientSettings
from gt_protocol.sharding import parse_sharding


@dataclass(frozen=True)
class Sharding:
    """A sharding file.

    Attributes:
        text: Its text; empty for none.
        source: What to call it in messages.
    """

    text: str = ""
    source: str = ""


class ConfigHolder:
    """Keeps what the program gave, until the session begins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: Sharding | None = None
        self._begun = False

    def give(self, sharding: Sharding) -> None:
        """Takes the program's sharding file.

        Raises:
            ConfigError: The session has begun.
            ShardingError: The file is wrong.
        """
        parse_sharding(sharding.text, source=sharding.source)
        with self._lock:
            if self._begun:
                raise ConfigError(
                    "the session has begun and keeps its sharding file: "
                    "call this before the first use of the fleet, or after gt.disconnect()"
                )
            self._given = sharding

    def begin(self, settings: ClientSettings) -> Sharding:
        """The file of the session that begins now.

        Raises:
            ConfigError: The file can't be read.
            ShardingError: The file is wrong.
        """
        with self._lock:
            self._begun = True
            if self._given is not None:
                return self._given
        path = settings.config or settings.job_sharding
        return Sharding() if path is None else read_sharding(path)

    def fail(self) -> None:
        """The session could not begin after all."""
        with self._lock:
            self._begun = False

    def end(self) -> None:
        """The session has ended, and what was given counted for it alone."""
        with self._lock:
            self._begun = False
            self._given = None


def read_sharding(path: Path) -> Sharding:
    """Reads and checks a sharding file.

    Raises:
        ConfigError: It can't be read.
        ShardingError: It is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the sharding file {path} can't be read: {error}") from None
    parse_sharding(text, source=str(path))
    return Sharding(text, str(path))


holder = ConfigHolder()


def load_config(path: str | PathLike[str]) -> None:
    """Gives the session its sharding file, over the job's and the cluster's.

    Args:
        path: A YAML file.

    Raises:
        ConfigError: It can't be read, or the session has begun.
        ShardingError: It is wrong; the message names file, line, column, signal and fix.
    """
    holder.give(read_sharding(Path(path)))


def register_config(config: str | Mapping[str, Any]) -> None:
    """Gives the session its sharding rules, over the job's and the cluster's.

    Args:
        config: The text of a sharding file, or its content as a mapping.

    Raises:
        ConfigError: The session has begun.
        ShardingError: The rules are wrong.
    """
    text = config if isinstance(config, str) else yaml.safe_dump(dict(config), sort_keys=False)
    holder.give(Sharding(text, "register_config()"))
