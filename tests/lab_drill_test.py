"""How a drill judges: what is lost, what was done twice, and what was slower than promised."""
import os
import sys
import types

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy", "lab"))

import drill  # noqa: E402
import drill_rearrange  # noqa: E402
from drill_database import NEVER, ROWS, Database, changes_after, changes_in  # noqa: E402
from drill_jobs import Grown, uneven_bytes  # noqa: E402
from drill_load import FRAME_SECONDS, line_of  # noqa: E402
from drill_look import pieces, still, sums  # noqa: E402
from drill_programs import Load  # noqa: E402
from drill_verdict import (UNHEARD_LINES, Findings, acknowledged, late,  # noqa: E402
                           longest_pause_ms, names_after, names_unsure, perhaps_written, unmet,
                           verdict_of)
from process import LabError  # noqa: E402
from spec import parse_luns  # noqa: E402


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
           "events": [], "programs": [], "steps": []}
    for name, answer in (("check", None), ("give_programs", None), ("measured_rate", 1e6),
                         ("frame_bytes", 16384), ("_run", run)):
        monkeypatch.setattr(drill, name, lambda *_, answer=answer: answer)
    cluster = types.SimpleNamespace(is_timed=is_timed, clients=[], hosts=[],
                                    spec=types.SimpleNamespace(session_lease_ms=10_000))
    assert drill.run_drill(cluster, "fail") == status
    assert words in capsys.readouterr().out


def change(number, error=None):
    return {"n": number, "error": error, "due": 0, "done": 0}


def test_a_database_has_all_of_each_change(tmp_path):
    path = str(tmp_path / "database")
    database = Database(path)
    assert changes_in(path) == {"wrong": [], "last": [NEVER] * ROWS}
    for number in range(3):
        database.change(number)
    found = changes_in(path)
    assert found == {"wrong": [], "last": changes_after(range(3))}
    findings = Findings()
    findings.database("it", found, [change(number) for number in range(3)], is_lost=False)
    findings.database("it", found, [change(0), change(1), change(2, "it died")], is_lost=True)
    findings.database("it", found, [change(0)], is_lost=True)
    assert findings.lost == []
    for lines in ([change(number) for number in range(4)], [change(0), change(1)]):
        findings = Findings()
        findings.database("it", found, lines, is_lost=False)
        assert len(findings.lost) == 1 and "newest of change 2" in findings.lost[0]


def test_a_row_that_is_not_as_it_was_written_is_found(tmp_path):
    path = str(tmp_path / "database")
    database = Database(path)
    database.file.execute("UPDATE rows SET content = 'else' WHERE row = 7")
    assert changes_in(path)["wrong"] == ["row 7 is not as change -1 has written it"]
    findings = Findings()
    findings.database("it", changes_in(path), [], is_lost=False)
    assert findings.lost == ["it: row 7 is not as change -1 has written it"]


def test_files_of_mixed_sizes_and_in_pieces_are_summed_up(tmp_path):
    still(tmp_path / "plain", 6_200_000)
    pieces(tmp_path / "pieces", 2, 1 << 20)
    found = sums(tmp_path)
    assert len(found) == 6 + 2 and {"plain/0/file0", "pieces/file1"} <= set(found)
    assert sum(path.stat().st_size for path in (tmp_path / "plain/0").iterdir()) == 6_200_000
    with open(tmp_path / "plain/0/file3", "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    assert {name for name, digest in sums(tmp_path).items() if found[name] != digest} \
        == {"plain/0/file3"}


def test_what_has_to_be_moved_for_a_balance_is_what_lies_above_the_mean():
    assert uneven_bytes({"before": 300, "added": 100}, {"before": 200, "added": 0}) == 50
    assert uneven_bytes({"before": 300, "added": 100}, {"before": 150, "added": 50}) == 0


def test_counts_of_each_life_add_up():
    count = Grown({3: 5})
    count.look({3: 7})
    count.look({4: 2})
    count.look({4: 3})
    assert count.by() == 2 + 3


@pytest.mark.parametrize("luns, targets, words", [
    ("all=4x2G", [], "metadata cannot be moved"), ("meta=1x1G,data=4x1G", [], "1536 MiB"),
    ("meta=1x1G,data=1x2G", [], "2 LUNs"), ("meta=1x1G,data=4x2G", ["san1"], "image files")])
def test_a_cluster_that_cannot_be_rearranged_is_refused_at_once(luns, targets, words):
    cluster = types.SimpleNamespace(targets=targets,
                                    spec=types.SimpleNamespace(pools=parse_luns(luns)))
    with pytest.raises(LabError, match=words):
        drill_rearrange.check(cluster)


def test_in_each_run_others_die(monkeypatch):
    monkeypatch.setattr(drill_rearrange, "check", lambda cluster: cluster.spec.pools[0])
    cluster = types.SimpleNamespace(
        spec=types.SimpleNamespace(pools=parse_luns("data=2x2G")))
    room = types.SimpleNamespace(cluster=cluster)
    kills = [drill_rearrange.Rearrange("rearrange", number, room, print).kills
             for number in range(len(drill_rearrange.JOBS))]
    assert list(kills[0]) == ["rebalance", "lun remove", "restripe breadth"]
    assert all(len(struck) == 3 for struck in kills)
    assert set().union(*kills) == set(drill_rearrange.JOBS), "each is struck in one of nine runs"
