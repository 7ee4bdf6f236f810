import contextlib
import os
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.turn_messages import (
    CLASSES_A_HELLO,
    NAME_MAX,
    VERSION,
    Ended,
    Granted,
    Hello,
    Left,
    Message,
    NotUnderstood,
    Ready,
    RefusedHost,
    decode,
    encode,
)
from actors.runtime.unix_channel import MESSAGE_MAX, PATH_BYTES_MAX, Channel, Listener, connect
from configs.errors import InvalidInput
from tests.support.checkout import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "test.sock"


@pytest.fixture
def ends(path: Path) -> Iterator[tuple[Channel, Channel]]:
    listener = Listener(path)
    ours = connect(path)
    theirs = accepted(listener)
    yield ours, theirs
    for one in (ours, theirs, listener):
        one.close()


def accepted(listener: Listener) -> Channel:
    select.select([listener], [], [])
    channel = listener.accept()
    assert channel is not None
    return channel


def received(channel: Channel) -> bytes | None:
    select.select([channel], [], [])
    return channel.receive()


def fill(channel: Channel) -> None:
    while True:
        channel.send(bytes(1000))


# Tests of messages over a channel.


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    messages = [b"a", b"bb" * 500, bytes(MESSAGE_MAX)]
    for message in messages:
        ours.send(message)
    assert [received(theirs) for _ in messages] == messages


def test_the_reader_of_a_closed_channel_gets_the_last_message_and_then_the_end(
    ends: tuple[Channel, Channel],
) -> None:
    ours, theirs = ends
    ours.send(b"last words")
    ours.close()
    assert [received(theirs), received(theirs)] == [b"last words", None]


def test_the_end_of_a_channel_is_read_although_the_peer_left_messages_unread(
    ends: tuple[Channel, Channel],
) -> None:
    ours, theirs = ends
    theirs.send(b"unread")
    ours.close()
    assert received(theirs) is None


def test_an_ended_channel_is_closed_at_both_ends(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    ours.end()
    ours.end()
    assert [received(ours), received(theirs)] == [None, None]
    with pytest.raises(BrokenPipeError):
        theirs.send(b"x")


def test_send_and_receive_never_block(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    with pytest.raises(BlockingIOError):
        theirs.receive()
    with pytest.raises(BlockingIOError):
        fill(ours)


@pytest.mark.parametrize("length", [0, MESSAGE_MAX + 1])
def test_an_empty_or_oversized_message_is_not_sent(ends: tuple[Channel, Channel], length: int) -> None:
    with pytest.raises(ValueError, match="a message must have 1 to"):
        ends[0].send(bytes(length))


def test_an_oversized_packet_is_cut_to_one_byte_more_than_the_longest_message(path: Path) -> None:
    listener = Listener(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.connect(str(path))
        other.send(bytes(MESSAGE_MAX + 5))
        theirs = accepted(listener)
        assert len(received(theirs) or b"") == MESSAGE_MAX + 1
        theirs.close()
    listener.close()


# Tests of listeners that accept connections.


def test_the_folder_of_a_socket_is_private(path: Path) -> None:
    listener = Listener(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    listener.close()
    assert not path.exists()


def test_all_folders_created_by_a_listener_are_private(tmp_path: Path) -> None:
    path = tmp_path / "system" / "node" / "test.sock"
    with contextlib.closing(Listener(path)):
        modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)]
    assert modes == [0o700, 0o700]


def test_a_folder_that_others_may_enter_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o755)
    with pytest.raises(InvalidInput, match="must belong to this user"):
        Listener(path)


def test_the_socket_of_a_dead_listener_is_replaced(path: Path) -> None:
    code = "import os, sys; from pathlib import Path; from actors.runtime.unix_channel import Listener; Listener(Path(sys.argv[1])); os._exit(9)"
    root = ROOT
    died = subprocess.run([sys.executable, "-c", code, path], cwd=root, check=False)
    assert died.returncode == 9
    assert path.is_socket()
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    listener = Listener(path)
    connect(path).close()
    listener.close()


def test_a_living_listener_is_not_replaced(path: Path) -> None:
    listener = Listener(path)
    with pytest.raises(InvalidInput, match="another process already listens at this path of a Unix socket"):
        Listener(path)
    connect(path).close()
    listener.close()
    Listener(path).close()


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("x" * PATH_BYTES_MAX)
    for use in (Listener, connect):
        with pytest.raises(InvalidInput, match=f"the maximum is {PATH_BYTES_MAX}"):
            use(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_process_gets_no_channel(path: Path) -> None:
    listener = Listener(path)
    # All users may enter the folder, so that only the check by the listener protects the socket.
    path.parent.chmod(0o711)
    path.chmod(0o777)
    code = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('test.sock'); print('in')"
    command = ["/usr/bin/env", "python3", "-c", code]
    ran = subprocess.run(command, user=65534, cwd=path.parent, capture_output=True, text=True, check=False)
    assert ran.stdout == "in\n", ran.stderr
    assert listener.accept() is None
    listener.close()


# Tests of messages between hosts and dispatchers.

names = st.from_regex(rf"\A[A-Za-z][A-Za-z0-9_.-]{{0,{NAME_MAX - 1}}}\Z")
lanes = st.integers(0, 0xFFFF)
seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, names, st.lists(names).map(tuple)),
    st.builds(Ready, names),
    st.builds(Ended, names, lanes, seconds, seconds, st.booleans()),
    st.builds(Left, names),
    st.builds(Granted, names, lanes, seconds),
    st.builds(RefusedHost, st.text(max_size=200)),
)


@given(messages)
def test_a_decoded_message_equals_the_encoded_message(message: Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: bytes([VERSION]) + rest))
def test_any_packet_is_decoded_or_refused(packet: bytes) -> None:
    try:
        message = decode(packet)
    except NotUnderstood:
        return
    assert decode(encode(message)) == message


@given(messages, st.integers(0, 255).filter(lambda version: version != VERSION))
def test_a_refusal_from_another_protocol_version_is_decoded_and_any_other_message_is_not(
    message: Message, version: int
) -> None:
    packet = bytes([version]) + encode(message)[1:]
    if isinstance(message, RefusedHost):
        assert decode(packet) == message
    else:
        with pytest.raises(NotUnderstood, match=f"version {version} "):
            decode(packet)


@given(messages, st.data())
def test_a_truncated_message_never_becomes_another_kind_of_message(
    message: Message, data: st.DataObject
) -> None:
    packet = encode(message)
    try:
        cut = decode(packet[: data.draw(st.integers(0, len(packet) - 1))])
    except NotUnderstood:
        return
    assert type(cut) is type(message)


@pytest.mark.parametrize("name", ["", "7th", "with space", "a\nb", "x" * (NAME_MAX + 1), "größe"])
def test_messages_with_invalid_names_are_refused(name: str) -> None:
    for message in (Ready(name), Granted(name, 0, 1.0), Hello("host", ("fine", name)), Hello(name, ())):
        if isinstance(message, Hello) and "\n" in name:
            continue  # A name may contain no newline, because newlines separate the names in a Hello message.
        with pytest.raises(NotUnderstood, match="invalid name"):
            decode(encode(message))


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_messages_with_invalid_durations_are_refused(bad: float) -> None:
    good = Ended("gold", 0, 0.5, 0.5, backlog=True)
    for message in (replace(good, used_s=bad), replace(good, ran_s=bad), Granted("gold", 0, bad)):
        with pytest.raises(NotUnderstood, match="invalid duration"):
            decode(encode(message))


def test_a_hello_message_with_the_most_and_longest_class_names_fits_into_a_packet() -> None:
    longest = "x" * NAME_MAX
    assert len(encode(Hello(longest, (longest,) * CLASSES_A_HELLO))) <= MESSAGE_MAX
