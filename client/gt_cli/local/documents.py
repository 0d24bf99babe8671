"""Reads manifest files into documents whose fields know their lines."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gt_protocol.errors import ManifestError

#: Files of a folder that are read, as kubectl does.
SUFFIXES: Final = (".yaml", ".yml", ".json")
#: Largest manifest file, in bytes. etcd takes objects of 1.5 MiB.
MAX_FILE: Final = 8 << 20

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no dates, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Makes a dict, and refuses a key that is there already."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is here twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, eq=False)
class Document:
    """One document of a manifest file.

    Attributes:
        path: The file, as the user named it.
        node: The document with its places.
        content: The document.
    """

    path: Path
    node: yaml.Node
    content: dict[str, Any]

    def source(self, field: str = "") -> str:
        """File and line of a field, or of the nearest one around it that is there.

        Args:
            field: Path of the field, such as `spec.workerGroups[0].replicas`; empty for the whole document.
        """
        return f"{self.path}:{_line(self.node, field, self.node.start_mark.line) + 1}"

    def error(self, message: str, field: str) -> ManifestError:
        """An error about a field."""
        return ManifestError(message, source=self.source(field), field=field)


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Reads files, and the manifest files of folders, in order.

    Raises:
        ManifestError: A file can't be read, is no YAML, or holds something else than mappings.
    """
    return [document for path in paths for file in _files(path) for document in _read(file)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(f"no manifest in this folder: no file ends with {', '.join(SUFFIXES)}", source=str(path))
    return files


def _read(path: Path) -> Iterator[Document]:
    try:
        if path.stat().st_size > MAX_FILE:
            raise ManifestError(f"larger than {MAX_FILE >> 20} MiB, which is too much", source=str(path))
        text = path.read_text("utf-8")
    except OSError as error:
        raise ManifestError(f"can't be read: {error.strerror}", source=str(path)) from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"is no UTF-8 text: {error.reason}", source=str(path)) from None
    try:
        yield from _parse(path, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ManifestError(f"not valid YAML: {error.problem or error.context}", source=where) from None
    except yaml.YAMLError as error:
        raise ManifestError(f"not valid YAML: {error}", source=str(path)) from None
    except RecursionError:
        raise ManifestError("nested too deep", source=str(path)) from None


def _parse(path: Path, text: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            content = loader.construct_document(node) if node is not None else None
            if node is None or content is None:
                continue
            if not isinstance(content, dict):
                line = node.start_mark.line + 1
                raise ManifestError("a document must be a mapping with apiVersion and kind", source=f"{path}:{line}")
            yield Document(path, node, content)
    finally:
        loader.dispose()


def _line(node: yaml.Node, field: str, found: int) -> int:
    """Line of a field below a node, from 0; `found` is the line of the node itself."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            # Keys may hold dots, so the path is matched by keys and not cut into parts.
            if field == key.value or field.startswith((f"{key.value}.", f"{key.value}[")):
                return _line(value, field[len(key.value) :].removeprefix("."), key.start_mark.line)
    elif isinstance(node, yaml.SequenceNode) and field.startswith("["):
        index, _, rest = field[1:].partition("]")
        if index.isdecimal() and int(index) < len(node.value):
            item = node.value[int(index)]
            return _line(item, rest.removeprefix("."), item.start_mark.line)
    return found
