"""``kafkascope decode``: one message, field by field."""

from __future__ import annotations

import re
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from kafkascope import decoders
from kafkascope.decoders import DecodeError
from kafkascope.decoders.apis import find
from kafkascope.decoders.nested import Knowledge, decode_nested
from kafkascope.decoders.parts import dissect_body, dissect_frame
from kafkascope.decoders.schema import Api
from kafkascope.program import INCOMPLETE, WRONG_USE, Remark
from kafkascope.reports.columns.nearest import no_such_api
from kafkascope.reports.columns.text import counted
from kafkascope.reports.show.message_lines import MessageStyle, body_lines, frame_lines


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What is to be decoded, and how it is shown."""

    file: str  # - for standard input
    api: str | None = None  # name or key; None: the header of a whole frame says it
    version: int | None = None
    response: bool = False
    frame: bool = False  # size and header stand before the body
    base64: bool = False
    as_json: bool = False
    as_hex: bool = False
    show_secrets: bool = False
    secret_names: tuple[str, ...] = ()


class _WrongUse(Exception):  # noqa: N818 (it is said to a person, not raised at a caller)
    """What was asked for makes no sense."""


def decode(options: DecodeOptions, remark: Remark) -> int:
    """Decode the bytes of a file (see bytes_meant) as one message; print it field by field. Returns the exit status.

    0: all bytes have a meaning; 1: they have not, or cannot be read; 2: what was asked for makes no sense.
    """
    file = options.file
    try:
        wanted = _wanted(options)
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        data = bytes_of_base64(content) if options.base64 else bytes_meant(content)
    except _WrongUse as error:
        remark(str(error))
        return WRONG_USE
    except OSError as error:
        hint = "; hex digits come from standard input, with -" if isinstance(error, FileNotFoundError) else ""
        remark(f"{file}: {error.strerror or error}{hint}")
        return INCOMPLETE
    except ValueError as error:
        remark(f"{file}: {error}")
        return WRONG_USE
    known = Knowledge(reveal_secrets=options.show_secrets, secret_names=options.secret_names)
    if wanted is None or options.frame:
        said = list(_show_frame(data, wanted, options, known))
    else:
        said = list(_show_body(data, *wanted, options, known))
    for words in said:
        remark(f"{file}: {words}")
    return INCOMPLETE if said else 0


def _wanted(options: DecodeOptions) -> tuple[Api, int] | None:
    """The API and version that were asked for; None if the bytes are to say them."""
    if options.api is None:
        if options.version is not None:
            raise _WrongUse("--version goes with --api; without both, the header of a whole frame says them")
        if options.response:
            raise _WrongUse("a response does not say what it answers: give --api and --version of the request")
        return None
    api = find(options.api)
    if api is None:
        raise _WrongUse(no_such_api(options.api))
    if options.version is None:
        raise _WrongUse(f"give --version too: {api.name} has versions {api.versions}")
    if options.version not in api.versions:
        raise _WrongUse(f"{api.name} has versions {api.versions}, not {options.version}")
    return api, options.version


def _show_body(data: bytes, api: Api, version: int, options: DecodeOptions, known: Knowledge) -> Iterator[str]:
    """Print a body; what is to be said of it."""
    response = options.response
    error: DecodeError | None = None
    rest = b""
    try:
        body, rest = decoders.decode_body(api.key, version, data, response=response)
    except DecodeError as wrong:
        error, body = wrong, _partial(wrong)
    body = decode_nested(api.key, body, response=response, known=known)
    if options.as_json:
        if body or error is None:
            _print([decoders.to_json(body, indent=2)])
    else:
        part, _ = dissect_body(api.key, version, data, response=response)
        assert part is not None
        _print(body_lines(api.key, part, error, data, decoders.plain(body), _style(options)))
    yield from _troubles(error, rest)


def _show_frame(data: bytes, wanted: tuple[Api, int] | None, options: DecodeOptions, known: Knowledge) -> Iterator[str]:
    """Print a frame; what is to be said of it."""
    response_to = (wanted[0].key, wanted[1]) if wanted and options.response else None
    size = int.from_bytes(data[:4], "big", signed=True)
    cut = size > len(data) - 4 >= 4
    frame = (len(data) - 4).to_bytes(4, "big") + data[4:] if cut else data  # what is there is read all the same
    if cut:
        yield f"size: a frame of {size} bytes behind the first 4, {len(data) - 4} are there"
    error: DecodeError | None = None
    rest = b""
    try:
        read = decoders.decode_frame(frame, response_to=response_to)
    except DecodeError as wrong:
        error, parts = wrong, _partial(wrong)
        header, body = parts.get("header", {}), parts.get("body")
    else:
        header, body, rest = read.header, read.body, read.rest
    key, version = response_to or (header.get("requestApiKey", -1), header.get("requestApiVersion", -1))
    if wanted and not response_to and (key, version) != (wanted[0].key, wanted[1]):
        yield f"the header says API {key} version {version}"
        return
    if body is not None:
        body = decode_nested(key, body, response=options.response, known=known)
    if options.as_json:
        _print([decoders.to_json({"header": header, "body": body}, indent=2)])
    elif header:
        found = dissect_frame(data if cut else data[: len(data) - len(rest)], response_to=response_to)
        _print(frame_lines(found, data, decoders.plain(body), _style(options)))
    if body is None and error is None:
        yield f"no release knows API {key} version {version}"
    else:
        yield from _troubles(error, rest)


def _partial(error: DecodeError) -> dict[str, Any]:
    return error.partial if isinstance(error.partial, dict) else {}


def _troubles(error: DecodeError | None, rest: bytes) -> Iterator[str]:
    if error is not None:
        yield str(error)
    if rest:
        yield f"{counted(len(rest), 'byte')} left over behind the body"


def _style(options: DecodeOptions) -> MessageStyle:
    return MessageStyle(as_hex=options.as_hex, reveal=options.show_secrets, left_over=True)


def _print(lines: Iterable[str]) -> None:
    """In UTF-8 whatever the locale: JSON is, and an escape of the terminal's encoding would be none of JSON."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    for line in lines:
        print(line)


_WHITE_SPACE = " \t\n\r\v\f"
_NOT_HEX = re.compile(rf"[^0-9a-fA-F{_WHITE_SPACE}]")
# What may stand between or before bytes in hex; only there, lest the offsets of a dump be taken for bytes.
_DECORATION = re.compile(r"(?<![0-9a-fA-FxX])0[xX](?=[0-9a-fA-F])|(?<=[0-9a-fA-F]{2}):(?=[0-9a-fA-F]{2})")


def bytes_meant(data: bytes) -> bytes:
    """The bytes that a file's content means: those of hex digits if it is text, else the content itself.

    In hex there may be white space anywhere, colons between bytes, and 0x before them. Raises ValueError for text that
    is anything else: no message is all text, so it was not meant as it is.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    if not all(character.isprintable() or character in _WHITE_SPACE for character in text):
        return data
    digits = _DECORATION.sub(lambda found: " " * len(found[0]), text)
    if wrong := _NOT_HEX.search(digits):
        before = text[: wrong.start()].split("\n")
        raise ValueError(
            f"not hex: {wrong[0]!r} at line {len(before)}, column {len(before[-1]) + 1}, and not a message either, for "
            "it is all text; give hex digits, base64 with --base64, or the bytes as they are"
        )
    digits = "".join(digits.split())
    if len(digits) % 2:
        raise ValueError(f"not hex: {len(digits)} digits, and each byte has two")
    return bytes.fromhex(digits)


def bytes_of_base64(data: bytes) -> bytes:
    """The bytes that base64 means, of either alphabet; white space may be anywhere. Raises ValueError if it is none."""
    text = b"".join(data.split()).translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {str(error)[:1].lower()}{str(error)[1:]}") from None
