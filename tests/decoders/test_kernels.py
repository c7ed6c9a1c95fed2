"""Where machine code of kernels is kept, when it is up to date; kernels that borrow arrays and are part of others."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from kafkascope.decoders import kernels
from kafkascope.decoders.machine_code import compiler, files, progress
from kafkascope.decoders.machine_code.files import KernelFile
from kafkascope.decoders.machine_code.loading import MachineCode
from tests.decoders.kernels_of_all_kinds import (
    Numbers,
    count_of_both,
    increased,
    last_by,
    last_of,
    of_three,
    sorted_twice,
    total,
)
from tests.paths import ROOT, package_files
from tests.terminals import on_a_terminal

OWN = f"kafkascope-{os.geteuid()}"

# Calls one small kernel, and tells where it is kept and whether it had to be compiled.
CALL = """
import sys
import numpy as np
from kafkascope.decoders.machine_code import files
from kafkascope.decoders.tape import _gather
text = np.zeros(3, np.uint8)
_gather(np.array([1, 2], np.uint8), *np.array([[0], [2], [1]]), text)
assert text.tolist() == [0, 1, 2]
assert _gather.signatures == ["uint8[1 C], int64[1 C], int64[1 C], int64[1 C], uint8[1 C]"]
print(files.places()[-1])
print(int("numba" in sys.modules))
"""
# The same, but says when it compiles that kernel, and goes on when it is told to.
HELD = f"""
import sys
from kafkascope.decoders.machine_code import progress

def held():
    print("compiles", flush=True)
    sys.stdin.readline()

progress.when_compiling(held)
{CALL}
"""
IMPORT_ALL = "import kafkascope.capture, kafkascope.sniffing, kafkascope.messages, kafkascope.spark.tasks"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    files.temporary_directory.cache_clear()
    yield path
    files.temporary_directory.cache_clear()


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
    assert said == []


def planted_link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(place.parent / "elsewhere")


def open_to_all(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


@pytest.mark.parametrize("taken", [planted_link, open_to_all, Path.touch])
def test_a_place_where_others_may_have_put_code_is_not_used(temporary: Path, taken: Callable[[Path], None]) -> None:
    taken(temporary / OWN)
    used = Path(files.temporary_directory())
    assert used != temporary / OWN
    assert used.parent == temporary
    assert stat.S_IMODE(used.lstat().st_mode) == 0o700
    assert not any(used.iterdir())


def test_a_place_of_another_user_is_not_used(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    (temporary / f"kafkascope-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert Path(files.temporary_directory()) != temporary / f"kafkascope-{other}"


def test_an_own_place_is_used_again(temporary: Path) -> None:
    used = files.temporary_directory()
    files.temporary_directory.cache_clear()
    assert files.temporary_directory() == used == str(temporary / OWN)


def test_without_any_place_it_says_what_to_do(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(FileNotFoundError, match="NUMBA_CACHE_DIR must name a directory"):
        files.temporary_directory()


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
    (path,) = Path(place).glob("*/kafkascope.decoders.tape._gather.lock")
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(CALL, tmp_path / "packages", temporary) == ([place, "0"], [])


def test_a_kernel_is_compiled_where_there_can_be_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []
    monkeypatch.setattr(files, "places", lambda: (tmp_path / "file",))
    (tmp_path / "file").touch()
    with KernelFile(last_of, "").locked():
        reached.append("no directory")

    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(files, "places", lambda: (tmp_path,))
    with KernelFile(last_of, "").locked():
        reached.append("no locks")
    assert reached == ["no directory", "no locks"]


def test_what_cannot_be_kept_is_said_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "places", lambda: (tmp_path / "file",))
    monkeypatch.setattr(progress, "_shown", progress._Shown())  # as if nothing had been compiled before
    (tmp_path / "file").touch()
    assert kernels.kernel(last_of)(np.arange(3)) == 2
    (_, said) = capsys.readouterr().err.splitlines()
    assert "of_all_kinds.last_of is compiled again in the next run, as it could not be kept: " in said


@pytest.mark.parametrize("content", [b"", b"half of a", pickle.dumps(1)[:-1]])
def test_a_file_that_is_damaged_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(files, "places", lambda: (tmp_path,))
    file = KernelFile(last_of, "")
    code = MachineCode("last_of", "function", "environment", (), b"")
    file.write(code)
    assert file.read() == code
    (path,) = tmp_path.glob("*/*.kernel")
    path.write_bytes(content)
    assert file.read() is None


def test_what_is_not_up_to_date_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "places", lambda: (tmp_path,))
    code = MachineCode("last_of", "function", "environment", (), b"")
    for stamp in ("before", "now"):
        monkeypatch.setattr(files, "_stamp", lambda function, stamp=stamp: stamp)
        KernelFile(last_of, "int64").write(code)
        KernelFile(last_of, stamp).write(code)
    there = [path.stem.rpartition("-")[2] for path in tmp_path.glob("*/*.kernel")]
    assert sorted(there) == ["before", "now", "now"]


def test_what_lies_where_nothing_can_be_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    code = MachineCode("last_of", "function", "environment", (), b"")
    monkeypatch.setattr(files, "places", lambda: (first,))
    KernelFile(last_of, "").write(code)
    monkeypatch.setattr(files, "places", lambda: (first, second))
    assert KernelFile(last_of, "").read() == code


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


def test_of_a_zip_with_a_relative_path_kernels_are_the_same(tmp_path: Path) -> None:
    """So workers of Spark have it."""
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        for file, place in package_files():
            archive.write(file, place)
    stamp = (
        "from kafkascope.decoders import tape; from kafkascope.decoders.machine_code import files; "
        "print(tape.__file__, files._stamp(tape._gather.function))"
    )
    told = []
    for path in ("./packages.zip", str(tmp_path / "packages.zip"), str(ROOT)):
        code = f"import sys; sys.path.insert(0, {path!r}); {stamp}"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        imported, mine = done.stdout.split()
        assert imported.startswith(path)
        told.append(mine)
    assert len({*told}) == 1


def test_a_kernel_whose_source_cannot_be_read_is_never_up_to_date() -> None:
    stamp_of = files._stamp_of.__wrapped__
    assert stamp_of("<stdin>") != stamp_of("<stdin>")


def test_the_files_of_a_kernel_are_found_through_others() -> None:
    package = Path(files.__file__).parents[2]
    kernel = str(package / "sniffer" / "pairing" / "kernel.py")
    found = {str(Path(file).relative_to(package)) for file in files.sources(kernel)}
    assert found >= {"sniffer/frames.py", "sniffer/pairing/state.py", "sniffer/pairing/resync.py", "decoders/apis.py"}
    assert not found & {"sniffer/session.py", "sniffer/reassembly/kernel.py"}


def test_a_borrowing_kernel_counts_no_references() -> None:
    numbers = Numbers(np.arange(3), np.arange(5))
    before = sys.getrefcount(numbers.many)
    result = total(numbers)
    after = sys.getrefcount(numbers.many)
    assert (result, after) == (4, before)


def test_a_kernel_is_not_compiled_anew_for_each_constant() -> None:
    assert of_three(1) == 4
    compiler.compiled(cast(Any, of_three), (1,))
    assert [str(signature) for signature in compiler.as_part(increased).signatures] == ["(int64, int64)"]


def test_names_in_machine_code_do_not_spell_out_the_types() -> None:
    rows = np.zeros(2, [(f"column_{number}", "i8") for number in range(100)])
    code = compiler.compiled(cast(Any, count_of_both), (Numbers(rows, rows),))
    names = (code.function, code.environment)
    assert all("count_of_both" in name and "column_99" not in name for name in names)
    assert len(code.object_file) < 10_000
    others = compiler.compiled(cast(Any, count_of_both), (Numbers(rows[:, None], rows),))
    assert not {*names} & {others.function, others.environment}


def test_what_is_kept_of_a_kernel_is_enough(tmp_path: Path) -> None:
    """Though numba is not imported: for those that are part of others as well, for arrays, tuples and exceptions."""
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
kernels = __import__("kafkascope.decoders.kernels", fromlist=["kernels"])
compiled = []
before = kernels.Kernel._compiled
kernels.Kernel._compiled = lambda kernel, *of: compiled.append(kernel.__name__) or before(kernel, *of)
from tests.decoders import kernels_of_all_kinds as kinds
print(kinds.doubled(3), kinds.of_another(5), kinds.counted(3).tolist())
one, (few, many) = kinds.counted_twice(2)
print(one.tolist(), few.tolist(), many.tolist())
try:
    kinds.refused(-1)
except ValueError as error:
    print(error.args)
print(compiled, "numba" in sys.modules)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    every = ["doubled", "of_another", "counted", "counted_twice", "refused"]
    for said in (f"{every} True", "[] False"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        lines = ["6 11 [0, 1, 2]", "[0, 1] [0] [0, 1, 2, 3]", "('below zero', 7)", said]
        assert done.stdout.splitlines() == lines, done.stderr


def test_one_that_is_part_of_others_is_not_called_by_python() -> None:
    with pytest.raises(TypeError, match="increased is part of other kernels, and only they call it"):
        increased(1, 2)


def test_kernels_of_other_arrays_are_other_ones() -> None:
    """And as Python's numbers and numpy's are the same to a kernel, those of such are the same one."""
    of = cast(Any, kernels.kernel(last_of))
    pair = np.arange(6).reshape(2, 3)
    arrays = (pair[0], pair[:, 0], np.array([1.5], np.float32), np.array([2**64 - 1], np.uint64))
    assert [of(array) for array in arrays] == [2, 3, 1.5, 2**64 - 1]
    assert of.signatures == ["int64[1 C]", "int64[1 A]", "float32[1 C]", "uint64[1 C]"]
    by = cast(Any, kernels.kernel(last_by))
    assert [by(pair[0], 1), by(pair[1], np.int64(1)), by(pair[1].copy(), np.bool_(True))] == [2, 5, 5]
    assert by.signatures == ["int64[1 C], int64", "int64[1 C], bool"]
    fixed = pair[0].copy()
    fixed.flags.writeable = False
    assert by(fixed, True) == 2
    assert by.signatures[2:] == ["int64[1 C read-only], bool"]


def test_parts_of_a_kernel_cannot_be_called_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """So LLVM leaves away what a part does not use; the one of this kernel is too large to go into its caller."""
    finalize = compiler._Whole._finalize_final_module
    linkages: list[tuple[str, str]] = []

    def look(library: Any) -> None:
        functions = [one for one in library._final_module.functions if not one.is_declaration]
        linkages.extend((one.name, one.linkage.name) for one in functions)
        finalize(library)

    monkeypatch.setattr(compiler._Whole, "_finalize_final_module", look)
    numbers = Numbers(np.arange(3), np.arange(5))
    compiler.compiled(cast(Any, sorted_twice), (numbers, numbers))
    parts = [linkage for name, linkage in linkages if "sort_both" in name]
    own = [linkage for _, linkage in linkages if linkage == "external"]
    assert (parts, own) == (["internal"], ["external", "external"]), linkages
