"""Whole small messages between the processes of one node: SOCK_SEQPACKET over a Unix socket.

An exchange takes tens of microseconds where a Ray call takes hundreds, and the end of a process is news at once (EOF).
Linux only: no other system has packets with EOF, the peer's uid and eventfds together.

Guarantees:
1. A message arrives whole, once and in order, or the channel has ended.
2. Nothing here waits. A peer that reads so slowly that a message finds no room is for the caller to give up.
3. Only processes of the same user get in: the socket's folder is 0700, and the listener asks the kernel for the peer's uid.
4. One listener lives at a path. What a dead one left there is replaced.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from actors.runtime.private_dirs import make_private
from configs.errors import InvalidInput

# A greeting of some hundred classes fits; the socket's own buffer holds several.
MESSAGE_MAX = 65_536
# sun_path of Linux is 108 bytes with the closing NUL.
PATH_BYTES_MAX = 107
# Hosts that all reconnect at once, while the listener does something else.
BACKLOG = 512
_PEER = struct.Struct("3i")  # pid, uid, gid


class Channel:
    """One end of a connection."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: bytes) -> None:
        """BlockingIOError if there is no room, another OSError if the peer is gone."""
        if not 0 < len(message) <= MESSAGE_MAX:
            raise ValueError(f"a message has 1 to {MESSAGE_MAX} bytes, not {len(message)}")
        self._socket.send(message, socket.MSG_NOSIGNAL)

    def receive(self) -> bytes | None:
        """The next message; None once the peer is gone; BlockingIOError if there is none yet.

        A message longer than MESSAGE_MAX is handed over cut to one byte more than that.
        """
        try:
            return self._socket.recv(MESSAGE_MAX + 1) or None
        except ConnectionError:
            return None

    def end(self) -> None:
        """Nothing more in either direction: both ends read EOF."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already

    def close(self) -> None:
        self._socket.close()


def connect(path: Path) -> Channel:
    """A channel to who listens at `path`; OSError if nobody does, or not at the moment."""
    connecting = _socket()
    try:
        connecting.setblocking(False)
        connecting.connect(_address(path))
    except BaseException:
        connecting.close()
        raise
    return Channel(connecting)


class Listener:
    """Who listens at a path, until it is closed or the process ends."""

    def __init__(self, path: Path) -> None:
        address = _address(path)
        make_private(path.parent)
        self._path = path
        self._lock = _lock(path)
        self._socket = _socket()
        try:
            path.unlink(missing_ok=True)  # nobody listens there: the lock was free
            self._socket.bind(address)
            self._socket.listen(BACKLOG)
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            os.close(self._lock)
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Channel | None:
        """The next peer; None if it is another user's, or if there is none."""
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return None
        if uid_of_peer(accepted) != os.getuid():
            accepted.close()
            return None
        return Channel(accepted)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._path.unlink(missing_ok=True)
            self._socket.close()
            os.close(self._lock)


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _address(path: Path) -> str:
    length = len(os.fsencode(path))
    if length > PATH_BYTES_MAX:
        raise InvalidInput(
            f"the path of a Unix socket may have {PATH_BYTES_MAX} bytes, this one has {length}",
            "path",
            str(path),
            "choose a shorter run folder",
        )
    return str(path)


def _lock(path: Path) -> int:
    """A lock that the kernel takes back when the process ends: a socket file alone does not tell who lives."""
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InvalidInput(
            "another process listens there", "path", str(path), "one dispatcher or gateway runs a node"
        ) from None
    return lock


def uid_of_peer(connected: socket.socket) -> int:
    packed = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(packed)[1]
    return uid
