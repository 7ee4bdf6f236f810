"""Addresses that a process and all its descendants listen on, as the kernel lists them."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
SOCKET = re.compile(r"socket:\[(\d+)\]")
# State codes in /proc/net for a TCP socket that listens, and for a UDP socket that is bound.
LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}


def descendants(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text()
            except OSError:
                continue
            parent = int(status.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return found


def listening(pids: list[int]) -> set[tuple[str, str]]:
    """Return command names with the addresses that their processes listen on."""
    by_inode = dict(bound())
    return {(name_of(pid), by_inode[inode]) for pid in pids for inode in inodes_of(pid) if inode in by_inode}


def bound() -> Iterator[tuple[str, str]]:
    """Yield inode and address of each socket of the machine that listens or is bound."""
    for kind, state in LISTENS.items():
        for line in (PROC / "net" / kind).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == state:
                yield words[9], address_of(words[1].partition(":")[0])


def address_of(digits: str) -> str:
    """Return the IP address that the kernel prints as 32-bit words in the machine's byte order."""
    words = bytes.fromhex(digits)
    packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    text = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return text.removeprefix("::ffff:")


def inodes_of(pid: int) -> Iterator[str]:
    try:
        for file in (PROC / str(pid) / "fd").iterdir():
            if found := SOCKET.fullmatch(os.readlink(file)):
                yield found[1]
    except OSError:  # The process has ended, or has closed the file, since the list was read.
        return


def name_of(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "ended"
