"""Which packets an interface hands over: programs for the kernel's classic filter machine (linux/filter.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

MOST_PORTS = 57  # in the kernel's filter: its jumps reach 255 instructions; more ports: all of TCP
WHOLE_BYTES = 0x7FFFFFFF  # of a packet, if it is not to be cut

# Opcodes of the machine, and the bases of special offsets.
LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_HALF_INDEXED = 0x20, 0x28, 0x30, 0x48
AND, SHIFT_LEFT, TO_INDEX, EQUAL, RETURN = 0x54, 0x64, 0x07, 0x15, 0x06
NETWORK_HEADER = 0x100000000 - 0x100000
PROTOCOL_OF_PACKET = 0x100000000 - 0x1000
TYPE_OF_PACKET = PROTOCOL_OF_PACKET + 4
TYPE_OF_HARDWARE = PROTOCOL_OF_PACKET + 28
HARDWARE_LOOPBACK = 772  # linux/if_arp.h
PACKET_OUTGOING = 4  # linux/if_packet.h

NOTHING = struct.pack("HBBI", RETURN, 0, 0, 0)
"""A program that lets no packet pass."""

LINK_ETHERNET, LINK_RAW = 1, 12  # pcap/dlt.h, on Linux

_Instruction = tuple[int, int, str, str]  # opcode, value, blocks to go on with if it holds and if not (empty: next)


def filter_program(
    ports: Sequence[int] = (), snap_bytes: int | None = None, matching: Iterable[tuple[int, int, int, int]] = ()
) -> bytes:
    """TCP over IPv4 or IPv6, of any of the ports (none: all), cut to so many bytes of each packet (None: whole).

    matching: instructions that have the last word on what would pass, see `compiled`.

    Offsets count from the network header, so one program serves every link layer. What the program cannot look into
    (second VLAN tag, MPLS, PPPoE, fragments, IPv6 extension headers) passes. What a host sends on its loopback does
    not: it comes a second time, as received.
    """
    ports = tuple(ports) if len(ports) <= MOST_PORTS else ()
    net = NETWORK_HEADER
    blocks: dict[str, list[_Instruction]] = {
        "begin": [
            (LOAD_WORD, TYPE_OF_HARDWARE, "", ""),
            (EQUAL, HARDWARE_LOOPBACK, "", "once"),
            (LOAD_WORD, TYPE_OF_PACKET, "", ""),
            (EQUAL, PACKET_OUTGOING, "", "once"),
            (RETURN, 0, "", ""),
        ],
        "once": [
            (LOAD_WORD, PROTOCOL_OF_PACKET, "", ""),
            (EQUAL, 0x0800, "ipv4", ""),
            (EQUAL, 0x86DD, "ipv6", ""),
            *((EQUAL, ether, "accept", "") for ether in (0x8100, 0x88A8, 0x9100, 0x8847)),
            (EQUAL, 0x8864, "accept", "drop"),
        ],
        "ipv4": [
            (LOAD_BYTE, net + 9, "", ""),
            (EQUAL, 6, "", "drop"),
            (LOAD_HALF, net + 6, "", ""),
            (AND, 0x1FFF, "", ""),
            (EQUAL, 0, "", "accept"),
            (LOAD_BYTE, net, "", ""),
            (AND, 15, "", ""),
            (SHIFT_LEFT, 2, "", ""),
            (TO_INDEX, 0, "", ""),
            *_ports(LOAD_HALF_INDEXED, net, ports),
        ],
        "ipv6": [
            (LOAD_BYTE, net + 6, "", ""),
            (EQUAL, 6, "tcp6", ""),
            *((EQUAL, header, "accept", "") for header in (0, 43, 44, 51)),
            (EQUAL, 60, "accept", "drop"),
        ],
        "tcp6": _ports(LOAD_HALF, net + 40, ports),
        "drop": [(RETURN, 0, "", "")],
        "accept": [],
    }
    accepted = WHOLE_BYTES if snap_bytes is None else snap_bytes
    last = [
        (op, yes, no, accepted if op == RETURN and value else value)
        for op, yes, no, value in list(matching) or [(RETURN, 0, 0, accepted)]
    ]
    places = dict(zip(blocks, accumulate(map(len, blocks.values()), initial=0), strict=False))
    first = [
        struct.pack("HBBI", op, *(places[to] - at - 1 if to else 0 for to in (yes, no)), value)
        for at, (op, value, yes, no) in enumerate(chain.from_iterable(blocks.values()))
    ]
    return b"".join([*first, *(struct.pack("HBBI", *instruction) for instruction in last)])


def compiled(expression: str, link_type: int) -> list[tuple[int, int, int, int]]:
    """What libpcap makes of a filter, see pcap-filter(7): opcode, jumps, value. Raises ValueError saying why not."""
    # What it takes to import is rarely needed.
    from scapy.arch.common import compile_filter, free_filter
    from scapy.error import Scapy_Exception

    try:
        program = compile_filter(expression, linktype=link_type)
    except ImportError:
        raise ValueError("filters are compiled by libpcap, which is not installed (package libpcap0.8)") from None
    except Scapy_Exception as error:
        raise ValueError(str(error)) from None
    instructions = (program.bf_insns[place] for place in range(program.bf_len))
    found = [(one.code, one.jt, one.jf, one.k) for one in instructions]
    free_filter(program)
    return found


def _ports(load: int, offset: int, ports: Sequence[int]) -> list[_Instruction]:
    """Compare source and target port, which stand at offset, with all ports; no ports: accept."""
    if not ports:
        return [(EQUAL, 0, "accept", "accept")]
    equal: list[_Instruction] = [(EQUAL, port, "accept", "") for port in ports]
    fields: list[_Instruction] = [(load, offset, "", ""), *equal, (load, offset + 2, "", ""), *equal]
    return [*fields[:-1], (EQUAL, ports[-1], "accept", "drop")]
