"""Filters as people write them: ``api == Fetch and latency_ms > 100 and not client_id contains "mirror"``.

What is written is checked before anything is read: names, words of the protocol, and what can be compared with what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from kafkascope.filters.expressions import COMPARISONS, EXISTS, UNEQUAL, All, Condition, Either, Expression, Not, Value
from kafkascope.filters.fields import COLUMNS, Field, Kind, body_field, body_paths
from kafkascope.reports.columns.nearest import near_ones
from kafkascope.sniffer.packet_window import absolute

_WORD = r"""[^\s"'(){},=!<>~&|]"""  # a character of a word
_ENDS = f"(?!{_WORD})"
GRAMMAR = rf"""
?start: either
?either: every (_OR every)*
?every: single (_AND single)*
?single: _NOT single -> negated
    | _OPEN either _CLOSE
    | WORD -> exists
    | _EXISTS WORD -> exists
    | WORD COMPARISON value -> compared
    | WORD _IN _OPEN value (_COMMA value)* _CLOSE -> among
?value: TEXT | WORD

_OR.2: /[|][|]|or{_ENDS}/i
_AND.2: /&&|and{_ENDS}/i
_NOT.2: /!(?!=)|not{_ENDS}/i
_IN.2: /in{_ENDS}/i
_EXISTS.2: /exists{_ENDS}/i
COMPARISON.2: /==|!=|<=|>=|<|>|=|~|contains{_ENDS}|matches{_ENDS}/i
_OPEN: /[({{]/
_CLOSE: /[)}}]/
_COMMA: ","
TEXT: /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/
WORD: /{_WORD}+/
%ignore /\s+/
"""

_VALUE = 'a value, such as 100, Fetch or "a text"'
_NAME = "the name of a column, such as api or latency_ms, or of a field, such as request.groupId"
_OTHERS = {  # terminals of the grammar as people are told
    "COMPARISON": f"one of {', '.join(COMPARISONS)}, {UNEQUAL}, in",
    "_AND": "'and'",
    "_OR": "'or'",
    "_COMMA": "a comma",
    "_OPEN": "an opening bracket",
    "_CLOSE": "a closing bracket",
    "$END": "the end",
}
_SAME = {"=": "==", "~": "matches"}
_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e\d+)?)([a-zµ]*)", re.IGNORECASE)
_MILLISECONDS = {"us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1e3, "m": 60e3, "min": 60e3, "h": 3600e3}
_BYTES = {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TRUTH = {"true": True, "false": False}
_NULL = "null"


class FilterError(ValueError):
    """What is wrong with an expression, and where."""

    def __init__(self, message: str, text: str, position: int) -> None:
        """position: of the character in text that the message is about."""
        line = re.sub(r"\s", " ", text)
        super().__init__(f"{message}\n  {line}\n  {' ' * position}^")


def parsed(text: str) -> Expression:
    """The expression that a text means; raises FilterError."""
    try:
        tree = _parser().parse(text)
        expression: Expression = _Reader(text).transform(tree)
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    except VisitError as error:
        raise error.orig_exc from None
    except RecursionError:
        raise FilterError("it has too many parts inside each other", text, 0) from None
    return expression


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr")


def _syntax_error(error: UnexpectedInput, text: str) -> FilterError:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        found, position, expected = f"{str(error.token)!r}", error.token.start_pos or 0, error.expected
    elif isinstance(error, UnexpectedCharacters):
        position, expected = error.pos_in_stream or 0, error.allowed
        found = f"{text[position]!r}"
    else:
        found, position = "the end", len(text.rstrip())
        expected = error.expected if isinstance(error, UnexpectedToken) else set()
    others = [said for terminal, said in _OTHERS.items() if terminal in expected]
    wanted = _VALUE if "TEXT" in expected else _NAME if "WORD" in expected else ", ".join(others)
    return FilterError(f"here should be {wanted}, but there is {found}", text, position)


class _Reader(Transformer[Token, Expression]):
    """Makes expressions of what the parser found."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def either(self, of: Sequence[Expression]) -> Expression:
        return Either(tuple(of))

    def every(self, of: Sequence[Expression]) -> Expression:
        return All(tuple(of))

    def negated(self, of: Sequence[Expression]) -> Expression:
        return Not(of[0])

    def exists(self, tokens: Sequence[Token]) -> Expression:
        return self._exists(self._field(tokens[0]))

    def compared(self, tokens: Sequence[Token]) -> Expression:
        name, sign, value = tokens
        field, comparison = self._field(name), _SAME.get(sign.lower(), sign.lower())
        if value.type == "WORD" and value.lower() == _NULL and comparison in ("==", UNEQUAL):
            there = self._exists(field)
            return there if comparison == UNEQUAL else Not(there)
        if comparison == UNEQUAL:
            return replace(self._test(field, "==", [value], sign), comparison=UNEQUAL)
        return self._test(field, comparison, [value], sign)

    def among(self, tokens: Sequence[Token]) -> Expression:
        name, *values = tokens
        return self._test(self._field(name), "==", values, name)

    def _exists(self, field: Field) -> Condition:
        kinds = sorted(field.kinds, key=list(Kind).index)
        kind = Kind.STRUCTURE if field.path else kinds[0]
        return Condition(field, kind, EXISTS, (), field.name)

    def _field(self, token: Token) -> Field:
        name = str(token)
        if (field := COLUMNS.get(name)) is not None:
            return field
        if name.startswith(("request.", "response.")):
            if (field := body_field(name)) is not None:
                return field
            raise self._wrong(f"no API has a field {name}{near_ones(name, body_paths())}", token)
        near = near_ones(name, COLUMNS) or near_ones(f".{name}", body_paths())
        raise self._wrong(f"there is no column {name}{near}", token)

    def _test(self, field: Field, comparison: str, tokens: Sequence[Token], sign: Token) -> Condition:
        kinds = field.kinds & COMPARISONS[comparison].kinds
        if not kinds:
            fitting = " or ".join(kind.value for kind in Kind if kind in COMPARISONS[comparison].kinds)
            told = " or ".join(sorted(kind.value for kind in field.kinds))
            raise self._wrong(f"{comparison} compares {fitting}; {field.name} is {told}", sign)
        found = [self._value(field, kinds, token) for token in tokens]
        if len({kind for kind, _ in found}) > 1:
            raise self._wrong("values of several kinds stand together here", tokens[0])
        kind = found[0][0]
        if comparison == "matches":
            self._check_pattern(tokens[0], str(found[0][1]))
        elif kind is Kind.TEXT and comparison == "==":
            for token, (_, value) in zip(tokens, found, strict=True):
                self._check_word(field, token, str(value))
        return Condition(field, kind, comparison, tuple(value for _, value in found), f"{field.name} {comparison}")

    def _value(self, field: Field, kinds: frozenset[Kind], token: Token) -> tuple[Kind, Value]:
        text = str(token)
        if token.type == "TEXT":
            text = text[1:-1].replace(f"\\{text[0]}", text[0])
        if Kind.TIME in kinds:
            try:
                return Kind.TIME, absolute(text)
            except ValueError:
                message = f"{field.name} is a time: compare it with one such as 2026-11-21T05:57:16.5"
                raise self._wrong(message, token) from None
        if token.type == "WORD":
            if Kind.NUMBER in kinds and (number := _NUMBER.fullmatch(text)):
                return Kind.NUMBER, self._number(field, number, token)
            if Kind.TRUTH in kinds and text.lower() in _TRUTH:
                return Kind.TRUTH, _TRUTH[text.lower()]
        if Kind.TEXT in kinds:
            if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise self._wrong("this is no text in UTF-8", token)
            return Kind.TEXT, text
        told = " or ".join(sorted(kind.value for kind in kinds))
        raise self._wrong(f"{field.name} is {told}; {token} is none", token)

    def _number(self, field: Field, found: re.Match[str], token: Token) -> int | float:
        digits, unit = found[1], found[2].lower()
        is_whole = digits.lstrip("+-").isdecimal() and len(digits) < 19
        number = int(digits) if is_whole else float(digits)
        if not unit:
            return number
        name = field.name.lower()
        units = _MILLISECONDS if name.endswith("ms") else _BYTES if name.endswith("bytes") else {}
        if unit not in units:
            known = f"it is in {'milliseconds' if units is _MILLISECONDS else 'bytes'}: {', '.join(units)}"
            raise self._wrong(f"{field.name} has no unit {found[2]}{f'; {known}' if units else ''}", token)
        return number * units[unit]

    def _check_word(self, field: Field, token: Token, value: str) -> None:
        known = field.words
        if not known or value.lower() in map(str.lower, known):
            return
        if field.name == "error" and re.fullmatch(r"ERROR_-?\d+", value, re.IGNORECASE):
            return
        raise self._wrong(f"there is no {field.name} {value}{near_ones(value, known)}", token)

    def _check_pattern(self, token: Token, pattern: str) -> None:
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            why = str(error).partition("Invalid regular expression: ")[2] or str(error)
            raise self._wrong(f"this is no regular expression (RE2): {why}", token) from None

    def _wrong(self, message: str, token: Token) -> FilterError:
        return FilterError(message, self._text, token.start_pos or 0)
