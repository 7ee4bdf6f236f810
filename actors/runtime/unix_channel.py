"""Channels for small messages between the processes of one node: Unix sockets of type SOCK_SEQPACKET.

An exchange takes tens of microseconds, while a Ray call takes hundreds. The end of the peer's process is noticed at once (EOF).
This works only on Linux, since no other system has packets with EOF, the peer's uid and eventfds.

Guarantees:
1. Each message arrives complete, once and in order, or the channel has ended.
2. No call blocks. If a peer reads so slowly that there is no room for a message, the caller decides what to do.
3. Only processes of the same user can connect: the socket's folder has mode 0700, and the listener checks the peer's uid.
4. Each path has at most one listener. A socket file that a dead listener left is replaced.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from actors.runtime.private_dirs import make_private
from configs.errors import InvalidInput

# Maximum size of a message. A Hello with some hundred classes fits; the socket's buffer holds several such messages.
MESSAGE_MAX = 65_536
# Maximum length of a socket's path: sun_path has 108 bytes on Linux, including the final NUL.
PATH_BYTES_MAX = 107
# Number of pending connections; all hosts may reconnect at once while the listener is busy.
BACKLOG = 512
_PEER = struct.Struct("3i")  # pid, uid, gid


class Channel:
    """One end of a connection, in non-blocking mode."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: bytes) -> None:
        """Send a message. Raise BlockingIOError if there is no room, or another OSError if the peer has gone."""
        if not 0 < len(message) <= MESSAGE_MAX:
            raise ValueError(f"a message must have 1 to {MESSAGE_MAX} bytes (got {len(message)})")
        self._socket.send(message, socket.MSG_NOSIGNAL)

    def receive(self) -> bytes | None:
        """Return the next message, or None once the peer has gone; raise BlockingIOError if there is no message yet.

        Only the first MESSAGE_MAX + 1 bytes of a longer message are returned.
        """
        try:
            return self._socket.recv(MESSAGE_MAX + 1) or None
        except ConnectionError:
            return None

    def end(self) -> None:
        """Shut the connection down in both directions, so that both ends read EOF."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # The connection has ended already.

    def close(self) -> None:
        self._socket.close()


def connect(path: Path) -> Channel:
    """Return a channel to the listener at `path`. Raise OSError if there is no listener, or if the listener is overloaded."""
    connecting = _socket()
    try:
        connecting.setblocking(False)
        connecting.connect(_address(path))
    except BaseException:
        connecting.close()
        raise
    return Channel(connecting)


class Listener:
    """Listener at a path, until it is closed or its process ends."""

    def __init__(self, path: Path) -> None:
        address = _address(path)
        make_private(path.parent)
        self._path = path
        self._lock = _lock(path)
        self._socket = _socket()
        try:
            # The lock was free, so an existing socket file belongs to a dead listener.
            path.unlink(missing_ok=True)
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
        """Return a channel to the next peer; None if no peer waits or the peer is a process of another user."""
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
            f"the path of the Unix socket has {length} bytes; the maximum is {PATH_BYTES_MAX}",
            "path",
            str(path),
            "choose a shorter run folder",
        )
    return str(path)


def _lock(path: Path) -> int:
    """Lock the path of a socket until this process ends. A socket file alone does not show whether its listener is alive."""
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InvalidInput(
            "another process already listens at this path of a Unix socket",
            "path",
            str(path),
            "stop that process; a node can have only one dispatcher and one gateway",
        ) from None
    return lock


def uid_of_peer(connected: socket.socket) -> int:
    packed = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(packed)[1]
    return uid
