"""How a drill judges: what is lost, what was done twice, and what was slower than promised; and how
its programs run beside a mount that is not here."""
import os
import sys
import threading
import time
import types

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy", "lab"))

import drill  # noqa: E402
from drill_load import FRAME_SECONDS, LOCK_BYTES, line_of  # noqa: E402
from drill_programs import PROGRAMS, Load, Unsynced, look  # noqa: E402
from drill_verdict import (UNHEARD_LINES, Findings, acknowledged, late,  # noqa: E402
                           longest_pause_ms, names_after, names_unsure, perhaps_written, unmet,
                           verdict_of)
from marks import marks_of_journal, marks_of_log  # noqa: E402
from process import LabError  # noqa: E402
from vm import hosts as machines  # noqa: E402


def told(op, error=None, at=0.0, n=0):
    return {"op": op, "error": error, "due": at, "done": at, "n": n}


def verdict(gap_ms, late_frames=0, append_ms=0):
    return {"gap_ms": gap_ms, "append_ms": append_ms,
            "late_frames": {"stream": 0, "read": late_frames}}


def test_names_follow_the_changes_that_succeeded():
    lines = [told(["make", "a"]), told(["rename", "a", "b"]), told(["link", "b", "c"]),
             told(["make", "d"], "No space left"), told(["remove", "b"])]
    assert names_after(lines) == {"c"}


def test_names_that_are_missing_are_lost_and_others_were_made_twice():
    findings = Findings()
    findings.names(["kept", "back again"], {"kept", "gone"})
    assert len(findings.lost) == 1 and "gone" in findings.lost[0]
    assert len(findings.doubled) == 1 and "back again" in findings.doubled[0]


def test_each_line_is_there_once():
    findings = Findings()
    findings.appends(line_of("ws1", 0) + line_of("ws2", 0) + line_of("ws1", 1),
                     {"ws1": 2, "ws2": 1})
    assert findings.lost == findings.doubled == []
    findings.appends(line_of("ws1", 0) * 2 + line_of("ws3", 0), {"ws1": 2})
    assert findings.lost == ["line 1 of ws1 is there 0 times"]
    assert len(findings.doubled) == 2


def test_an_unfinished_write_of_a_dead_client_may_be_there():
    lines = [told(["make", "a"]), told(["rename", "a", "b"], "Transport endpoint is not connected")]
    for found in ("a", "b"):
        findings = Findings()
        findings.names([found], names_after(lines), names_unsure(lines))
        assert findings.lost == findings.doubled == []
    assert acknowledged(lines) == 1 and perhaps_written(lines) == 2
    findings.appends(line_of("ws1", 0) + line_of("ws4", 1), {"ws1": 1}, {"ws4": 2})
    assert findings.lost == findings.doubled == []
    findings.appends(line_of("ws4", 2) + line_of("ws4", 0) * 2, {}, {"ws4": 2})
    assert len(findings.doubled) == 2


def test_changes_of_the_last_tick_may_be_lost_with_the_session():
    lines = [told(["make", "old"], at=9.0), told(["make", "untold"], at=9.97),
             told(["rename", "untold", "new"], "No such file", at=10.3),
             told(["make", "later"], at=10.35)]
    assert names_unsure(lines, 10.0) == {"untold", "new"}
    assert names_unsure(lines) == {"untold", "new", "later"}, "from the first failure on"
    assert "old" in names_unsure(lines, 10.0, patience=10), "a slow host tells later"


def test_what_a_program_did_last_nobody_hears_when_its_host_loses_its_power():
    lines = [told(["make", "a60"], at=9.0, n=60 * 5 + 10 * 2),
             told(["rename", "a60", "b60"], at=9.9, n=60 * 5 + 10 * 2 + 1)]
    unsure = names_unsure(lines)
    assert {"b60", "c60", "d60", "c10", "a61"} <= unsure and not {"a59", "c9", "a200"} & unsure
    assert names_unsure([]) == set()
    assert perhaps_written(lines) == 2 + UNHEARD_LINES


def test_a_torn_line_is_found():
    findings = Findings()
    findings.appends(line_of("ws1", 0)[:-1], {"ws1": 1})
    assert findings.lost


def test_a_lock_that_nobody_holds_is_told():
    findings = Findings()
    findings.locked(True, 0)
    assert findings.locks == []
    findings.locked(False, 1000)
    assert "byte 1000" in findings.locks[0]


def test_a_line_that_is_being_written_is_read_later(tmp_path):
    load = Load.__new__(Load)
    load.out, load._lines, load._read_bytes = tmp_path / "out", [], 0
    seen = []
    for text in ('{"n": 0}', '\n{"n"', ': 1}\n{"n": 2}\n'):
        with open(load.out, "a") as out:
            out.write(text)
        seen.append([line["n"] for line in load.lines()])
    assert seen == [[], [0], [0, 1, 2]]


def test_pauses_and_late_frames():
    lines = [{"due": due, "done": done} for due, done in ((0, 0.1), (1, 1.1), (2, 3.5), (3, 3.6))]
    assert longest_pause_ms(lines) == 2400
    assert late(lines) == 1


def test_frames_that_never_came_are_late():
    lines = [{"due": 0, "done": 0.1}, {"due": FRAME_SECONDS, "done": 0.2}]
    assert late(lines, framed_until=1.0) == 0
    assert late(lines, framed_until=2.02 + FRAME_SECONDS) == 24
    assert late([], framed_until=9.0) == 0


def test_a_verdict_counts_and_tells():
    findings = Findings()
    findings.lost.append("a name")
    results = [{"what": what, "program": what, "errors": ["EIO"] * (what == "read"), "late": 0,
                "longest_pause_ms": 1} for what in ("create", "stream", "read")]
    judged = verdict_of(results, findings, None)
    assert judged["errors"] == 1 and judged["lost"] == 1 and judged["locks"] == "held"
    assert judged["wrong"] == ["read: EIO", "a name"]


def test_promised_times():
    assert unmet("cut-lan", [verdict(2900)], 10_000) == []
    assert "3100 ms" in unmet("cut-lan", [verdict(3100)], 10_000)[0]
    assert unmet("kill-active", [verdict(2000), verdict(2000), verdict(4900)], 10_000) == []
    assert len(unmet("kill-active", [verdict(3500), verdict(3500), verdict(5100)], 10_000)) == 2
    assert unmet("kill-active-and-client", [verdict(12_900)], 10_000) == []
    assert "13100 ms" in unmet("kill-active-and-client", [verdict(13_100)], 10_000)[0]
    assert unmet("cut-san-client", [verdict(900, append_ms=26_900)], 10_000) == []
    assert "27100 ms" in unmet("cut-san-client", [verdict(900, append_ms=27_100)], 10_000)[0]
    assert "2 frames" in unmet("fail", [verdict(10, late_frames=2)], 10_000)[0]


@pytest.mark.parametrize("is_timed, status, words", [
    (True, 2, "NOT MET: 7 frames"), (False, 0, "times are not judged: the hosts are emulated")])
def test_times_of_emulated_hosts_are_told_and_not_judged(monkeypatch, capsys, is_timed, status,
                                                         words):
    run = {"verdict": {**verdict(10, late_frames=7), "wrong": [], "errors": 0, "lost": 0,
                       "doubled": 0, "locks": "held", "fsck": "clean"},
           "events": [], "programs": []}
    for name, answer in (("check", None), ("give_programs", None), ("measured_rate", 1e6),
                         ("frame_bytes", 16384), ("_run", run)):
        monkeypatch.setattr(drill, name, lambda *_, answer=answer: answer)
    cluster = types.SimpleNamespace(is_timed=is_timed, clients=[], hosts=[],
                                    spec=types.SimpleNamespace(session_lease_ms=10_000))
    assert drill.run_drill(cluster, "fail") == status
    assert words in capsys.readouterr().out


# ---- beside the mount --------------------------------------------------------------------------

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
