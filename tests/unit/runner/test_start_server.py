"""Channels to the servers of a run: each question has its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchgate.runner import start_server
from patchgate.runner.environment_variables import inherited_variables
from patchgate.runner.start_server import Server, Servers


@pytest.fixture
def server(tmp_path):
    """A server whose other ends are held by the test: that with torch, and that without."""
    (control, theirs), (without_torch, other) = socket.socketpair(), socket.socketpair()
    folder = tempfile.TemporaryDirectory(dir=tmp_path)
    with (
        subprocess.Popen([sys.executable, "-c", ""]) as process,
        control,
        theirs,
        without_torch,
        other,
    ):
        made = Server("2.11.0", process, folder, {"compiler": control, "nothing": without_torch})
        yield made, theirs, other
    folder.cleanup()


def answer(theirs: socket.socket, reply: bytes = b"hello") -> None:
    """Be the server for one channel."""
    _, channels, _, _ = socket.recv_fds(theirs, 1, 1)
    with socket.socket(fileno=channels[0]) as channel:
        channel.sendall(reply)


@pytest.mark.parametrize(("do", "end"), [("observe", 0), ("plain run", 1)])
def test_a_channel_leads_to_the_server_for_its_question(server, do, end):
    made, *ends = server
    with made.connect(do) as channel:
        answer(ends[end])
        assert channel.recv(9) == b"hello"


def test_threads_have_their_own_channels(server):
    """A check asks two servers at once: the first one answers a channel that came second."""
    made, theirs, other = server
    connect = Servers({"2.11.0": made}, {}).connect
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(connect, "2.11.0", do) for do in ("observe", "plain run") * 20]
        for _ in range(20):
            answer(theirs)
            answer(other, b"other")
        for place, future in enumerate(asked):
            with future.result() as channel:
                assert channel.recv(9) == (b"other" if place % 2 else b"hello")


def test_a_torch_without_a_server_has_no_channel():
    with pytest.raises(OSError, match="no server of torch 9"):
        Servers({}, {}).connect("9.9.9", "observe")


def test_servers_can_be_asked_until_they_end(server, monkeypatch):
    made, theirs, _ = server
    monkeypatch.setattr(start_server, "start_server", lambda torch, python: made)
    monkeypatch.setattr(start_server, "environment_digest", lambda python: f"digest of {python}")
    with start_server.running_servers({"2.11.0": "python"}) as servers:
        assert (servers.logs, servers.identities) == (
            {"2.11.0": made.log},
            {"2.11.0": "digest of python"},
        )
        with servers.connect("2.11.0", "observe") as channel:
            answer(theirs)
            assert channel.recv(9) == b"hello"
        assert servers.are_serving()
        theirs.close()
        assert not servers.are_serving()
    assert {control.fileno() for control in made.controls.values()} == {-1}
    with pytest.raises(OSError):
        servers.connect("2.11.0", "observe")


def test_a_process_has_the_same_variables_whoever_starts_it(monkeypatch):
    """How many there are moves the count of Python calls of a compile."""
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "OMP_NUM_THREADS", "TORCH_LOGS"):
        monkeypatch.delenv(name, raising=False)
    before = inherited_variables()
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "OMP_NUM_THREADS", "TORCH_LOGS"):
        monkeypatch.setenv(name, "de_DE")
    assert inherited_variables() == before
