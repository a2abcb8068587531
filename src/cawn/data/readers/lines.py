"""Views of text files that are handed to Arrow line by whole line, checked or changed on the way."""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from typing import IO

from cawn.errors import DataError

LONGEST_LINE = 1 << 24  # bytes
TOO_LONG = f"a line is longer than {LONGEST_LINE >> 20} MiB, the longest that is read, or a quote is not closed"
_BLOCK = 1 << 20
_DEEPEST = 64  # brackets on one line: Arrow's JSON parser calls itself for each, until the stack is used up
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|$)', re.DOTALL)  # one that is not closed ends with the line


class WholeLines(io.RawIOBase):
    """Reads another file by whole lines; `name` is for messages."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self.name = file, name
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Whole lines of about `size` bytes or more; nothing at the end."""
        blocks, cut, held = [self._rest], 0, len(self._rest)
        while held < size or not cut:
            block = self._file.read(_BLOCK)
            blocks.append(block)
            cut = held if not block else held + end if (end := block.rfind(b"\n") + 1) else cut
            held += len(block)
            if held - cut > LONGEST_LINE + _BLOCK:
                raise DataError(f"{self.name}: {TOO_LONG}")
            if not block:
                break
        text = b"".join(blocks)
        self._rest = text[cut:]
        return self.changed(text[:cut]) if cut else b""

    @abstractmethod
    def changed(self, lines: bytes) -> bytes:
        """What is read instead of these lines."""


class SingleBlanks(WholeLines):
    """A view of a text in which fields are separated by one space, whatever runs of blanks and tabs there were."""

    def changed(self, lines: bytes) -> bytes:
        return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", lines))


class JsonObjects(WholeLines):
    """A view of a text that must have one JSON object on each line, with little nesting."""

    _line = 0

    def changed(self, lines: bytes) -> bytes:
        if self._line == 0:
            lines = lines.removeprefix(b"\xef\xbb\xbf")
        for line in lines.splitlines():
            self._line += 1
            if (text := line.strip()) and not (text.startswith(b"{") and text.endswith(b"}")):
                raise DataError(f"{self.name}, line {self._line}: expected one JSON object on each line")
            if line.count(b"{") + line.count(b"[") > _DEEPEST:
                plain = _STRINGS.sub(b"", line)
                if plain.count(b"{") + plain.count(b"[") > _DEEPEST:
                    raise DataError(
                        f"{self.name}, line {self._line}: nested values; write one flat object on each line"
                    )
        return lines
