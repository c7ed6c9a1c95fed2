"""Fuzz targets: inputs made of its seeds, those kept that reach a new branch or a new outcome, until one fails.

    python -m tests.fuzzing.fuzz all|TARGET,... [--times N] [--corpus DIR] [--seed N] [--slowest SECONDS] [--outcomes]
        [INPUT ...]

An input fails that raises what is not declared, contradicts the reference, takes more memory than `targets` allows,
or more than SECONDS of the processor. It is written beside the corpus; given as INPUT it is run again alone. What was
mended stays in tests/fuzzing/found/TARGET as a seed. Needs atheris (libFuzzer for Python).
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NoReturn

import atheris

from tests.fuzzing.targets import LONGEST, MEMORY_BYTES, MEMORY_TIMES, TARGETS, Target

FOUND = Path(__file__).parent / "found"
_OUTCOMES, _TOGETHER = 512, 32  # branches that stand for outcomes; of a function, as the time it takes grows with them
_AT_ONCE = 5_000  # executions of a process


@dataclass(frozen=True, slots=True)
class Options:
    """How to fuzz."""

    corpus: Path
    times: float = 1.0  # a million executions of all targets together
    seed: int = 1
    slowest_s: float = 1.0  # of the processor, for one input; 0: any
    inputs: Sequence[str] = ()  # these alone
    by_outcomes: bool = False  # alone: no branches of functions, which take a quarter of a minute to be seen


def fuzz(targets: Mapping[str, Target], options: Options) -> int:
    """Run each target, one after the other, until an input fails or all its executions are done; how many failed.

    Each has processes of its own, forked from one that has loaded everything: the fuzzer ends the process it is in, and
    takes more and more memory.
    """
    seeds = {name: [*_found(name), *target.seeds()] for name, target in targets.items()}
    for name, target in targets.items():
        for seed in seeds[name]:
            target.run(seed[:LONGEST])  # loads kernels before time and memory count
    gc.freeze()  # what is loaded stays
    for function in () if options.by_outcomes else _functions("kafkascope."):
        atheris.instrument_func(function)
    reached = _branches(_OUTCOMES)
    failed = 0
    for name, target in targets.items():
        print(f"== {name}", flush=True)
        corpus = options.corpus / name
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds[name]):
            (corpus / f"seed-{number}").write_bytes(seed[:LONGEST])
        left = max(1, round(target.share * options.times))
        status = 0
        while left > 0 and not status:
            if not (child := os.fork()):
                _fuzz(target, reached, corpus, min(left, _AT_ONCE), options.seed + left, options)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            left = 0 if options.inputs else left - _AT_ONCE
        failed += status != 0
    return failed


def _fuzz(
    target: Target, reached: Callable[[int], object], corpus: Path, executions: int, seed: int, options: Options
) -> NoReturn:
    def once(data: bytes) -> None:
        begun, before = time.thread_time(), _most_memory()  # the fuzzer itself grows all the time
        for outcome in target.run(data):
            reached(zlib.crc32(repr(outcome).encode()) % _OUTCOMES)
        took = time.thread_time() - begun
        if options.slowest_s and took > options.slowest_s:
            raise TimeoutError(f"{len(data)} bytes took {took:.1f} s of the processor")
        if (grown := _most_memory() - before) > MEMORY_BYTES + MEMORY_TIMES * len(data):
            raise MemoryError(f"{len(data)} bytes took {grown >> 20} MB")

    flags = [f"-runs={executions}", f"-seed={seed}", f"-max_len={LONGEST}", f"-artifact_prefix={corpus}.failed-"]
    flags += ["-timeout=120", "-rss_limit_mb=0", "-use_value_profile=1", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *flags, *(options.inputs or [str(corpus)])], once)
    atheris.Fuzz()
    raise AssertionError("the fuzzer ends the process")


def _found(name: str) -> Iterator[bytes]:
    """Inputs that failed once."""
    return (path.read_bytes() for path in sorted((FOUND / name).glob("*")))


def _most_memory() -> int:
    """The most that this process ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _branches(count: int) -> Callable[[int], object]:
    """A function with a branch for each number below count, so that the fuzzer sees which was reached."""
    parts = [_part(_TOGETHER) for _ in range(0, count, _TOGETHER)]
    return lambda number: parts[number // _TOGETHER](number % _TOGETHER)


def _part(count: int) -> FunctionType:
    lines = "".join(f"    if number == {number}:\n        return {number}\n" for number in range(count))
    made: dict[str, FunctionType] = {}
    exec(f"def reached(number):\n{lines}", made)
    atheris.instrument_func(made["reached"])
    return made["reached"]


def _functions(package: str) -> Iterator[FunctionType]:
    """The functions of a package's modules that are loaded, those of classes too; kernels are objects, and none."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith(package):
            yield from _functions_of(module, name)


def _functions_of(holder: ModuleType | type, module: str) -> Iterator[FunctionType]:
    for value in list(vars(holder).values()):
        value = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module and isinstance(holder, ModuleType):
            yield from _functions_of(value, module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz some targets; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", help=f"some of {','.join(TARGETS)}; or all")
    parser.add_argument("inputs", nargs="*", metavar="INPUT")
    parser.add_argument("--times", type=float, default=1.0, help="how many times a million executions, of all targets")
    parser.add_argument("--corpus", type=Path, help="directory of inputs that are kept for the next run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slowest", type=float, default=1.0, help="seconds of the processor for one input; 0: any")
    parser.add_argument("--outcomes", action="store_true", help="go by outcomes alone, which is soon ready")
    chosen = parser.parse_args(arguments)
    os.environ["KAFKASCOPE_RAISE_FAULTS"] = "1"
    names = list(TARGETS) if chosen.targets == "all" else chosen.targets.split(",")
    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="kafkascope-fuzz-"))
    options = Options(corpus, chosen.times, chosen.seed, chosen.slowest, chosen.inputs, chosen.outcomes)
    return 1 if fuzz({name: TARGETS[name] for name in names}, options) else 0


if __name__ == "__main__":
    sys.exit(main())
