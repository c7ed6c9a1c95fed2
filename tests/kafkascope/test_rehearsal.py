"""After the rehearsal no kernel is left that an interface's packets would have to wait for."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, ModuleType

import pytest

from kafkascope import decoders, reports, sniffer
from kafkascope.decoders.kernels import Kernel
from tests.paths import PCAPS

# Between them they need every kernel that showing a recording needs.
CAPTURES = (
    "clients_admin/capture.pcap",
    "kip848/capture.pcap",
    "mixed-versions/capture.pcap",
    "net_capture_drops/capture.pcap",
    "net_odd_tcp/capture.pcap",
    "rolling-restart/capture-k1.pcap.gz",
)
# These need all of them but the one that makes room for many connections, whatever the display.
FEW = ("clients_admin/capture.pcap", "net_capture_drops/capture.pcap", "net_odd_tcp/capture.pcap")
DISPLAYS = (
    "Display()",
    "Display(style=JSON, records=True)",
    "Display(style=TREE, records=True)",
    "Display(groups=True)",
    "Display(incidents=True)",
    "Display(stats_s=1)",
)
SLOW = ("Display(style=TREE, records=True)", "Display(incidents=True)")
OTHER_DISPLAYS = (
    "Display(style=JSON, records=True, payload=False)",
    "Display(style=FIELDS, fields=('requested', 'response', 'latency_ms'))",
    "Display(groups=True, style=JSON)",
    "Display(stats_s=1, style=JSON)",
)

# Rehearses a display, then shows captures as if they came from an interface in small batches; prints which kernels
# there were after the one and after the other, with their signatures.
SHOW = """
import io, json, sys
from kafkascope import sniff_options, sniffing
from kafkascope.decoders.kernels import Kernel
from kafkascope.reading import Listening
from kafkascope.rehearsal import Rehearsal
from kafkascope.sniffer import tcp
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.sources.files import open_capture

tcp.LEAST_HELD = 0  # what waits is compacted as soon as some of it is free

class Small(Rehearsal):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def __iter__(self):
        for whole in open_capture([self.path]):
            for begin in range(0, len(whole.number), 500):
                rows = slice(begin, begin + 500)
                yield Packets(whole.data, *(getattr(whole, name)[rows].copy() for name in Packets.__slots__[1:]))

def kernels():
    return {
        f"{kernel.__module__}.{kernel.__name__}": sorted(kernel.signatures)
        for name, module in list(sys.modules.items()) if name.startswith("kafkascope.")
        for kernel in vars(module).values() if isinstance(kernel, Kernel) and kernel.signatures
    }

options = sniff_options.SniffOptions(display=eval(sys.argv[1], vars(sniff_options)))
sniffing.rehearse(options)
rehearsed = kernels()
out = io.BytesIO()
for path in sys.argv[2:]:
    sniffing.show(Listening(Small(path), sniff_options.engine_options(options)), options, out, lambda line: None)
assert out.getvalue()
print(json.dumps([rehearsed, kernels()]))
"""


# Names of kernels that mean something else in Python code: a method, the function of which a kernel is made, a type.
NAMESAKES = {
    "kafkascope.decoders.apis.response_layout_version",
    "kafkascope.sniffer.recognise.int16",
}
OF_FILES = (
    "kafkascope.sniffer.sources.pcap.",
    "kafkascope.sniffer.sources.pcapng.",
    "kafkascope.decoders.blanking.",  # this one and those below: of `kafkascope scrub`
    "kafkascope.sniffer.blank_packets.",
    "kafkascope.sniffer.stream_content.",
    "kafkascope.reports.columns.json_numbers.",  # of clients, for notebooks and `kafkascope diff`
)

Kernels = dict[str, list[str]]


@cache
def rehearsed_and_shown(display: str) -> tuple[Kernels, Kernels]:
    """Signatures by kernel, after the rehearsal of a display, and after it has shown captures."""
    captures = [str(PCAPS / name) for name in (FEW if display in SLOW else CAPTURES)]
    done = subprocess.run([sys.executable, "-c", SHOW, display, *captures], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rehearsed, shown = json.loads(done.stdout)
    return rehearsed, shown


@pytest.mark.parametrize("display", [*DISPLAYS, *(pytest.param(one, marks=pytest.mark.deep) for one in OTHER_DISPLAYS)])
def test_nothing_is_compiled_or_loaded_after_it(display: str) -> None:
    rehearsed, shown = rehearsed_and_shown(display)
    assert {name: shown[name] for name in shown if not name.startswith(OF_FILES)} == rehearsed


def called_by_python() -> Iterator[str]:
    """Kernels whose name stands in a function that is no kernel."""
    for package in (decoders, sniffer, reports):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            names = vars(module)
            kernels = {names[name].function.__code__ for name in names if isinstance(names[name], Kernel)}
            near = [names, *(vars(other) for other in names.values() if isinstance(other, ModuleType))]
            for code in functions(compile(inspect.getsource(module), str(module.__file__), "exec")):
                if code in kernels:
                    continue
                for name, there in itertools.product(code.co_names, near):
                    if isinstance(there.get(name), Kernel):
                        yield f"{there[name].__module__}.{name}"


def functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from functions(inner)


def test_no_kernel_is_forgotten_because_no_capture_here_needs_it() -> None:
    rehearsed = {name for display in DISPLAYS for name in rehearsed_and_shown(display)[0]}
    called = {name for name in called_by_python() if not name.startswith(OF_FILES)}
    assert called <= rehearsed | NAMESAKES


def test_python_calls_no_kernel_that_is_for_kernels_alone() -> None:
    kernels = {name: name.rpartition(".") for name in called_by_python() if name not in NAMESAKES}
    assert kernels
    assert not [name for name, (module, _, short) in kernels.items() if vars(sys.modules[module])[short].is_part]
