"""Which line of the program an instruction comes from: cheap to note, formatted only when an error needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import Final, TypeAlias

import torch

#: A code object and the offset of the instruction in it; None if no line of the program is on the stack.
Source: TypeAlias = tuple[CodeType, int] | None

#: Files below these folders are not the program's own.
_FOREIGN: Final = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


class _Files(dict[str, bool]):
    """Whether a file is foreign, by its name."""

    def __missing__(self, name: str) -> bool:
        foreign = self[name] = name.startswith((*_FOREIGN, "<frozen"))
        return foreign


_is_foreign: Final = _Files()


def here() -> Source:
    """The innermost line of the program that is running now."""
    frame = sys._getframe(2)
    while _is_foreign[frame.f_code.co_filename]:
        back = frame.f_back
        if back is None:
            return None
        frame = back
    return frame.f_code, frame.f_lasti


def format_source(source: Source) -> str:
    """A line as error messages show it, such as `train.py:12, in step`."""
    if source is None:
        return ""
    code, offset = source
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
            break
    return f"{code.co_filename}:{line}, in {code.co_qualname}"
