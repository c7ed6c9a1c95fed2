"""Where compiled kernels are kept when the usual places cannot be written; kernels that borrow arrays."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from kafkascope.decoders import kernels
from tests.paths import package_files
from tests.terminals import on_a_terminal

OWN = f"kafkascope-{os.geteuid()}"

# Calls one small kernel, and tells where it is kept and whether it had to be compiled.
CALL = """
import numpy as np
from kafkascope.decoders.tape import _gather
text = np.zeros(3, np.uint8)
_gather(np.array([1, 2], np.uint8), *np.array([[0], [2], [1]]), text)
assert text.tolist() == [0, 1, 2]
print(_gather.stats.cache_path)
print(sum(_gather.stats.cache_misses.values()))
"""
# The same, but says when it compiles that kernel, and goes on when it is told to.
HELD = f"""
import sys
from kafkascope.decoders.kernels import event

class Held(event.Listener):
    def on_start(self, of):
        if of.data["dispatcher"].py_func.__name__ == "_gather":
            print("compiles", flush=True)
            sys.stdin.readline()

    def on_end(self, of):
        pass

event.register("numba:compile", Held())
{CALL}
"""
IMPORT_ALL = "import kafkascope.capture, kafkascope.sniffing, kafkascope.messages, kafkascope.spark.tasks"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    kernels.temporary_directory.cache_clear()
    yield path
    kernels.temporary_directory.cache_clear()


def linked(target: Path, *, can_be_kept: bool = False) -> None:
    """The package with directories of compiled files that cannot be made, not even by root: a file has their name.

    With can_be_kept they can.
    """
    for path, place in package_files():
        link = target / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
        if not can_be_kept:
            (link.parent / "__pycache__").touch()


def environment_of(path: Path, temporary: Path) -> dict[str, str]:
    """Of a program that finds the packages at a path, and has no home."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return environment | {"HOME": "/dev/null/nowhere", "PYTHONPATH": str(path), "TMPDIR": str(temporary)}


def run(code: str, path: Path, temporary: Path) -> tuple[list[str], list[str]]:
    """Lines of stdout and stderr of a program that finds the packages at a path, and has no home."""
    environment = environment_of(path, temporary)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=temporary, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize("zipped", [False, True])
def test_without_home_and_cache_kernels_are_kept_among_temporary_files(
    tmp_path: Path, temporary: Path, zipped: bool
) -> None:
    path = tmp_path / "packages.zip" if zipped else tmp_path / "packages"
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            for file, place in package_files():
                archive.write(file, place)
    else:
        linked(path)
    first, said_first = run(CALL, path, temporary)
    again, said_again = run(CALL, path, temporary)
    kept = temporary / OWN
    assert Path(first[0]).is_relative_to(kept)
    assert (first[1:], again) == (["1"], [first[0], "0"])
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert len(said_first) == 2
    assert f"kept in {kept}," in said_first[0]
    assert "compiling kernels" in said_first[1]
    assert said_again == said_first[:1]


def test_every_command_starts_without_home_and_cache(tmp_path: Path, temporary: Path) -> None:
    linked(tmp_path / "packages")
    _, said = run(IMPORT_ALL, tmp_path / "packages", temporary)
    assert len(said) == 1
    assert f"kept in {temporary / OWN}," in said[0]


def planted_link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(place.parent / "elsewhere")


def open_to_all(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


@pytest.mark.parametrize("taken", [planted_link, open_to_all, Path.touch])
def test_a_place_where_others_may_have_put_code_is_not_used(temporary: Path, taken: Callable[[Path], None]) -> None:
    taken(temporary / OWN)
    used = Path(kernels.temporary_directory())
    assert used != temporary / OWN
    assert used.parent == temporary
    assert stat.S_IMODE(used.lstat().st_mode) == 0o700
    assert not any(used.iterdir())


def test_a_place_of_another_user_is_not_used(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    (temporary / f"kafkascope-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert Path(kernels.temporary_directory()) != temporary / f"kafkascope-{other}"


def test_an_own_place_is_used_again(temporary: Path) -> None:
    used = kernels.temporary_directory()
    kernels.temporary_directory.cache_clear()
    assert kernels.temporary_directory() == used == str(temporary / OWN)


def test_without_any_place_it_says_what_to_do(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(FileNotFoundError, match="NUMBA_CACHE_DIR must name a directory"):
        kernels.temporary_directory()


def started(code: str, path: Path, temporary: Path) -> subprocess.Popen[str]:
    """A program that goes on when it is told to."""
    environment = environment_of(path, temporary)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=temporary, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.parametrize("killed", [False, True])
def test_processes_at_once_do_not_compile_the_same_kernel(tmp_path: Path, temporary: Path, killed: bool) -> None:
    """The second one waits for the first one's, as long as that lives."""
    linked(tmp_path / "packages", can_be_kept=True)
    with (
        started(HELD, tmp_path / "packages", temporary) as first,
        started("input()\n" + HELD, tmp_path / "packages", temporary) as second,
    ):
        assert first.stdin
        assert first.stdout
        assert second.stderr
        assert first.stdout.readline() == "compiles\n"
        assert second.stdin
        second.stdin.write("begin\n")
        second.stdin.flush()
        assert "compiling kernels" in second.stderr.readline()
        if killed:
            first.kill()
        of_first, _ = first.communicate(None if killed else "go on\n")
        of_second, said = second.communicate("go on\n")
    if killed:
        assert of_second.splitlines()[::2] == ["compiles", "1"]
    else:
        assert (of_first.splitlines()[1], of_second.splitlines()[1]) == ("1", "0")
    assert said == ""


def test_a_kernel_that_is_kept_waits_for_no_lock(tmp_path: Path, temporary: Path) -> None:
    """Another process has it, which loads that kernel at this moment."""
    linked(tmp_path / "packages", can_be_kept=True)
    (place, misses), _ = run(CALL, tmp_path / "packages", temporary)
    assert misses == "1"
    with (Path(place) / "kafkascope.decoders.tape._gather.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(CALL, tmp_path / "packages", temporary) == ([place, "0"], [])


def test_a_kernel_is_compiled_where_there_can_be_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []
    with kernels._locked(tmp_path / "missing" / "one.lock"):
        reached.append("no directory")

    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with kernels._locked(tmp_path / "one.lock"):
        reached.append("no locks")
    assert reached == ["no directory", "no locks"]


def test_a_terminal_has_a_bar_while_kernels_are_compiled(tmp_path: Path, temporary: Path) -> None:
    linked(tmp_path / "packages", can_be_kept=True)
    command = [sys.executable, "-P", "-c", CALL]
    environment = environment_of(tmp_path / "packages", temporary)
    output, shown = on_a_terminal(command, environment)
    assert output.splitlines()[1] == "1"
    assert "compile kernels" in shown
    assert re.search(r"\b1/\d\d", shown)
    assert shown.rstrip("\x1b[?25h\r\n").endswith("\x1b[2K")  # the line of the bar is erased
    assert on_a_terminal(command, environment)[1] == ""


class Numbers(NamedTuple):
    few: NDArray[np.int64]
    many: NDArray[np.int64]


@kernels.kernel
def total(numbers: Numbers) -> Any:
    return last(numbers)


@kernels.borrowing
def last(numbers: Numbers) -> Any:
    return numbers.many[-1]


@kernels.borrowing
def increased_twice(number: int) -> Any:
    return increased(increased(number, 1), 2)


@kernels.borrowing
def increased(number: int, by: int) -> Any:
    return number + by


@kernels.kernel
def doubled(number: int) -> int:
    return 2 * number


@kernels.shared
def halved(number: int) -> int:
    return number // 2


@kernels.kernel
def of_shared(number: int) -> int:
    return halved(number) + 1


@kernels.kernel
def of_another(number: int) -> int:
    return doubled(number) + 1


def test_a_kernel_is_up_to_date_if_all_files_are_that_its_own_imports(tmp_path: Path, temporary: Path) -> None:
    package = tmp_path / "package"
    linked(package, can_be_kept=True)
    compiled = [run(CALL, package, temporary)[0][1] for _ in range(2)]
    for changed in ("records.py", "tape.py", "kernels.py"):
        file = package / "kafkascope" / "decoders" / changed
        times = file.stat()
        text = file.read_text()
        file.unlink()
        file.write_text(text + "# another comment\n")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        compiled.append(run(CALL, package, temporary)[0][1])
    assert compiled == ["1", "0", "0", "1", "1"]


def test_the_files_of_a_kernel_are_found_through_others() -> None:
    package = Path(kernels.__file__).parents[1]
    found = {str(file.relative_to(package)) for file in kernels.sources(package / "sniffer" / "pairing" / "kernel.py")}
    assert found >= {"sniffer/frames.py", "sniffer/pairing/state.py", "sniffer/pairing/resync.py", "decoders/apis.py"}
    assert not found & {"sniffer/session.py", "sniffer/reassembly.py"}


def test_a_borrowing_kernel_counts_no_references() -> None:
    numbers = Numbers(np.arange(3), np.arange(5))
    before = sys.getrefcount(numbers.many)
    result = total(numbers)
    after = sys.getrefcount(numbers.many)
    assert (result, after) == (4, before)


def test_a_kernel_is_not_compiled_anew_for_each_constant() -> None:
    cast(Any, increased_twice).compile("(int64,)")
    assert [str(signature) for signature in cast(Any, increased).signatures] == ["(int64, int64)"]


KEPT = """
import sys
sys.path.insert(0, {tests!r})
from tests.decoders.test_kernels import doubled, halved, of_shared
print(doubled(3), of_shared(5), halved(8))
print(len(doubled._cache_hits), len(halved._cache_hits), len(of_shared._cache_hits))
"""


def test_what_is_kept_of_a_kernel_is_enough(tmp_path: Path) -> None:
    """And of what other kernels call as much as they need: in the second run one of them is compiled anew."""
    code = KEPT.format(tests=str(Path(__file__).parents[2]))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for hits in ("0 0 0", "1 1 0", "1 1 1"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout.splitlines() == ["6 3 4", hits], done.stderr
        if hits == "0 0 0":
            (compiled,) = tmp_path.glob("**/*of_shared*.nbi")
            compiled.unlink()


PARTS = """
from kafkascope.compiling import LONGEST
exec(LONGEST)
from kafkascope.sniffer.pairing.kernel import converse
(form,) = converse.overloads.values()
for function in form.library.get_defined_functions():
    print(function.linkage.name, function.name)
"""


def test_what_is_part_of_a_kernel_is_not_to_be_had_from_it(tmp_path: Path) -> None:
    """So LLVM leaves away what a part does not use; those of this kernel are too large to go into their callers."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PARTS], env=environment, capture_output=True, text=True, check=False)
    functions = [line.split(" ", 1) for line in done.stdout.splitlines()]
    parts = [linkage for linkage, name in functions if "take_frame" in name]
    own = [linkage for linkage, name in functions if name.startswith(("_ZN10kafkascope", "_ZN7cpython"))]
    assert (parts, own) == (["internal"], ["external", "external"]), done.stderr


def test_a_kernel_for_python_alone_is_part_of_no_other() -> None:
    with pytest.raises(TypeError, match="doubled is a kernel for Python alone: others call what is `shared`"):
        of_another(1)
