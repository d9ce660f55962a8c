"""How a drill's programs run beside a mount that is not here, and what hosts' logs say."""
import os
import sys
import threading
import time
import types

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy", "lab"))

from drill_load import LOCK_BYTES  # noqa: E402
from drill_programs import PROGRAMS, Load, Unsynced, look  # noqa: E402
from drill_verdict import Findings, names_after  # noqa: E402
from marks import marks_of_journal, marks_of_log  # noqa: E402
from process import LabError  # noqa: E402
from vm import hosts as machines  # noqa: E402


def test_a_log_is_read_as_a_controller_and_a_client_write_it():
    marks = list(marks_of_log(["2026-11-26 06:00:00.250 info: the seat is ours\n", "libfuse: odd\n",
                               "[2026-11-26 06:00:01.500] [mount.reelfs] [error] volume reel: the "
                               "session is over\n"]))
    assert [mark[1:] for mark in marks] == [("info", "the seat is ours"),
                                            ("error", "volume reel: the session is over")]
    assert marks[1][0] - marks[0][0] == 1.25


def test_a_journal_says_the_same():
    marks = list(marks_of_journal([
        '{"__REALTIME_TIMESTAMP": "1500000", "PRIORITY": "4", "MESSAGE": "slow"}',
        '{"__REALTIME_TIMESTAMP": "2000000", "MESSAGE": [104, 105, 255]}',
        '{"__REALTIME_TIMESTAMP": "2500000", "PRIORITY": "3", "MESSAGE": null}']))
    assert marks == [(1.5, "warning", "slow"), (2.0, "info", "hi\ufffd"), (2.5, "error", "")]


def await_true(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.02)  # a file that grows is not waited on


class ShellGuest:
    """As one reaches a machine: its words are a shell's text."""

    def command(self, words, terminal=False):
        return ["sh", "-c", " ".join(words)]

    def send(self, paths, directory):
        os.mkdir(directory)
        for path in paths:
            os.symlink(path, os.path.join(directory, os.path.basename(path)))


@pytest.fixture
def workstation(tmp_path, monkeypatch):
    """A machine's client, but for the machine; what is mounted there is a directory of tmp_path."""
    monkeypatch.setattr(machines, "PROGRAMS", str(tmp_path / "it's programs"))
    client = machines.Workstation.__new__(machines.Workstation)
    client.name, client.guest = "ws1", ShellGuest()
    client.cluster = types.SimpleNamespace(patience=1)
    client.give_programs(PROGRAMS)
    client.mount_point = str(tmp_path / "a mount")
    os.mkdir(client.mount_point)
    return client


def test_a_program_runs_beside_its_mount_until_it_is_told_to_end(workstation, tmp_path):
    room = os.path.join(workstation.mount_point, "room")
    look(workstation, "room", room)
    load = Load(str(tmp_path), workstation, "storm", os.path.join(room, "storm"))
    try:
        await_true(load.at_work)
        load.stop()
    finally:
        load.end()
    result = load.result()
    assert result["errors"] == [] and result["operations"] > 3
    findings = Findings()
    findings.names(look(workstation, "list", load.path), names_after(load.lines()))
    assert findings.lost == findings.doubled == []
    look(workstation, "remove", room)
    assert os.listdir(workstation.mount_point) == []


def test_what_is_seen_beside_a_mount(workstation, tmp_path):
    room = os.path.join(workstation.mount_point, "room")
    look(workstation, "room", room)
    with open(os.path.join(room, "log"), "wb") as log:
        log.write(b"it\xff\n")
    assert look(workstation, "text", os.path.join(room, "log")) == "it\\xff\n"
    assert look(workstation, "space", room) > 0
    locked = os.path.join(room, "locked")
    assert look(workstation, "held", locked, 1000) is False
    load = Load(str(tmp_path), workstation, "lock", locked, 1000)
    try:
        await_true(load.lines)
        assert look(workstation, "held", locked, 1000 + LOCK_BYTES - 1) is True
        assert look(workstation, "held", locked, 1000 + LOCK_BYTES) is False
    finally:
        load.end()
    with pytest.raises(LabError, match="ws1: list .*No such file"):
        look(workstation, "list", os.path.join(room, "nowhere"))
    os.mkfifo(os.path.join(room, "fifo"))
    with pytest.raises(LabError, match="no answer within 0.2 s"):
        look(workstation, "text", os.path.join(room, "fifo"), seconds=0.2)


def test_bytes_are_synced_in_steps(workstation):
    path = os.path.join(workstation.mount_point, "file")
    with Unsynced(workstation, path) as file:
        assert look(workstation, "text", path) == "a" * 4096
        assert file.step("change") is None and file.step("sync") is None
        assert look(workstation, "text", path) == "b" + "a" * 4095
    assert file.process.returncode == 0
    with pytest.raises(LabError, match="has ended"):
        Unsynced(workstation, os.path.join(path, "below")).__enter__()
