"""Machines that boot, install the packages, and reach LIO by open-iscsi and two paths: power cuts,
cables and pauses of all of them. REEL_LONG=1, as root; REEL_MACHINES=DIR takes a cluster that is
there already (lab up --backend vm), and leaves it there; REEL_GAPS=FILE keeps how long programs
waited.
"""
import json
import os

import pytest

from cluster import scratch_directory
from machine_faults import struck
from machine_gaps import Gaps
from machines import MOUNT, Load, Machines, why_not

# An emulated host that shares two processors with four others is no measure of times; what is
# promised of them is measured by `lab drill`.
GAP_SECONDS = 300
DRILL_SECONDS = 2400  # with a load that begins, hosts that boot, and fsck
OPTIONS = ("--kernels", "6.1,6.12")  # ws1 has the older one, ws2 the newer one
NO_FAILURE = "no error, nothing lost"


@pytest.fixture(scope="module")
def cluster():
    if problem := why_not():
        pytest.skip(problem)
    given = os.environ.get("REEL_MACHINES")
    made = (Machines(given) if given else
            Machines(os.path.join(scratch_directory(), "lab"), *OPTIONS))
    yield made
    if not given:
        made.down()


@pytest.fixture(scope="module")
def gaps():
    made = Gaps()
    yield made
    print(f"\n{made.markdown()}")


@pytest.fixture(autouse=True)
def loads_end():
    """Whatever becomes of the test: the next one is to have the processors."""
    yield
    Load.abandon_all()


def ended(load, reader):
    """It met no error, waited for no longer than is allowed, and lost nothing."""
    load.end()
    load.check(reader)
    assert load.longest() < GAP_SECONDS


def test_what_one_workstation_writes_the_other_reads(cluster):
    cluster.write("ws1", "file", "from ws1")
    assert cluster.read("ws2", "file") == "from ws1"
    cluster.write("ws2", "file", "from ws2")
    assert cluster.read("ws1", "file") == "from ws2"


def test_each_lun_has_two_paths_and_the_doctor_is_content(cluster):
    luns = cluster.on("ws1", "ls /dev/mapper/36001405*").split()
    assert cluster.paths("ws1") == (2 * len(luns), 0)
    findings = json.loads(cluster.on("ws1", "reeladm doctor --json", code=None))["findings"]
    assert not [finding for finding in findings if finding["level"] == "failure"], findings


def test_a_snapshot_brings_back_memory_disks_and_what_was_under_way(cluster):
    cluster.write("ws1", "kept", "before")
    work = cluster.begin("ws2", f"exec 9<{MOUNT}/kept; touch /run/holds; sleep 3000")
    cluster.await_true(lambda: cluster.on("ws2", "ls /run/holds", code=None), "it is open")
    cluster.lab("snapshot", "here")
    cluster.write("ws1", "kept", "after")
    cluster.write("ws1", "more", "after")
    cluster.lab("power", "mdc1", "off")
    cluster.lab("revert", "here")
    work.communicate()
    cluster.await_standby()
    assert cluster.read("ws2", "kept") == "before"
    assert cluster.on("ws2", f"ls {MOUNT}/more; pkill -x sleep; echo $?", code=None) == "0\n"
    cluster.write("ws2", "kept", "again")
    assert cluster.read("ws1", "kept") == "again"


# What of the end-to-end tests needs a mount, and no more of a cluster.
STORIES = ("test_posix.py", "test_posix_acl.py", "test_posix_more.py", "test_names.py",
           "test_data.py", "test_locks.py")


@pytest.mark.parametrize("host", ["ws1", "ws2"])
def test_the_stories_of_a_mount_hold_on_each_kernel(cluster, host):
    here = os.path.dirname(os.path.abspath(__file__))
    cluster.on(host, "rm -rf /run/e2e")
    cluster.send(host, "/run/e2e", [
        os.path.join(here, name) for name in os.listdir(here)
        if name in STORIES or name.endswith(".py") and not name.startswith(("test_", "conftest"))])
    said = cluster.on(host, f"""cd /run/e2e && mv mount_conftest.py conftest.py
room={MOUNT}/stories-{host}; rm -rf $room; mkdir $room
REEL_ROOM=$room python3 -B -m pytest -q -p no:cacheprovider -rfE --tb=short {" ".join(STORIES)}""",
                      seconds=3600, code=None)
    print(said)
    assert "failed" not in said and "error" not in said and "passed" in said, said[-6000:]


# ---- controllers ------------------------------------------------------------------------------

@pytest.mark.parametrize("fault", ["power off", "reset", "LAN cable", "SAN cables"])
def test_an_active_controller_that_is_gone_is_replaced(cluster, gaps, fault):
    cluster.await_standby()
    load, active = Load(cluster, "ws1", f"active {fault}"), cluster.active()
    with struck(cluster, active, fault):
        cluster.await_true(lambda: cluster.active() not in (None, active), "another controller")
        load.await_more()
    cluster.await_standby()
    ended(load, "ws2")
    gaps.note(f"active controller: {fault}", load, f"the standby took over; {NO_FAILURE}")


@pytest.mark.parametrize("fault, refusal", [
    ("hypervisor pause", "reservation conflict"),
    ("emulator stopped", "reservation conflict|the seat is lost|the seat's term is over")])
def test_a_controller_that_wakes_up_late_is_refused(cluster, gaps, fault, refusal):
    """Where its clock has stood still with it, it believes in its term, and the target refuses it:
    else it knows by itself."""
    cluster.await_standby()
    load, active = Load(cluster, "ws1", f"active {fault}"), cluster.active()
    since = cluster.now(active)
    with struck(cluster, active, fault):
        cluster.await_true(lambda: cluster.active() not in (None, active), "another controller")
        load.await_more()
    cluster.await_standby()
    assert cluster.active() != active
    ended(load, "ws2")
    said = cluster.journal(active, refusal, since).splitlines()
    assert said, cluster.journal(active, ".", since)[-3000:]
    gaps.note(f"active controller: {fault}", load, f"{NO_FAILURE}; when it woke: {said[0]}")


def test_the_standby_is_not_missed(cluster, gaps):
    cluster.await_standby()
    load, active = Load(cluster, "ws1", "standby off"), cluster.active()
    standby, = {"mdc1", "mdc2"} - {active}
    with struck(cluster, standby, "power off"):
        load.await_more(20)
        assert cluster.active() == active
    cluster.await_standby()
    ended(load, "ws2")
    gaps.note("standby: power off", load, NO_FAILURE)


def test_a_planned_handover(cluster, gaps):
    cluster.await_standby()
    load, active = Load(cluster, "ws1", "planned"), cluster.active()
    assert cluster.lab("fail").startswith(f"{active} handed over to ")
    load.await_more()
    cluster.await_standby()
    ended(load, "ws2")
    gaps.note("reeladm fail", load, NO_FAILURE)


@pytest.mark.parametrize("name", ["kill-active", "pause-active", "cut-lan", "cut-san", "kill-both",
                                  "fail"])
def test_a_drill_finds_nothing_wrong(cluster, name):
    """Programs of many kinds on both workstations, and fsck at the end; times are not judged."""
    cluster.await_standby()
    told = json.loads(cluster.lab("drill", name, "--json", seconds=DRILL_SECONDS))
    assert told["wrong"] == [] and told["times"] != "judged"
    print(name, told["gap_ms"], [run["active"] for run in told["runs"]])


# ---- paths, and the SAN -----------------------------------------------------------------------

@pytest.mark.parametrize("role", ["active controller", "workstation"])
def test_a_pulled_path_is_no_error(cluster, gaps, role):
    cluster.await_standby()
    host = cluster.active() if role == "active controller" else "ws1"
    load, (whole, _) = Load(cluster, "ws1", f"path {role}"), cluster.paths(host)
    with struck(cluster, host, "one path"):
        cluster.await_true(lambda: cluster.paths(host)[0] == whole // 2, "half of the paths")
        load.await_more()
    cluster.await_true(lambda: cluster.paths(host) == (whole, 0), "all paths")
    ended(load, "ws2")
    cluster.await_standby()
    gaps.note(f"{role}: one path", load, NO_FAILURE)


def test_with_one_path_left_a_standby_takes_over_and_a_workstation_mounts(cluster):
    """And both go on by the other one when it is back, on which their keys are not registered."""
    cluster.await_standby()
    load, active = Load(cluster, "ws1", "one path left"), cluster.active()
    standby, = {"mdc1", "mdc2"} - {active}
    whole = {host: cluster.paths(host)[0] for host in (standby, "ws2")}
    with struck(cluster, standby, "one path"), struck(cluster, "ws2", "one path"):
        for host, paths in whole.items():
            cluster.await_true(lambda: cluster.paths(host)[0] == paths // 2, "half of the paths")
        cluster.on("ws2", f"systemctl restart mnt-reel.mount")
        cluster.write("ws2", "one-path", "by the one that is left")
        cluster.lab("fail")
        cluster.await_true(lambda: cluster.active() == standby, "the standby takes over")
        load.await_more()
    for host, paths in whole.items():
        cluster.await_true(lambda: cluster.paths(host) == (paths, 0), "all paths")
    cluster.on("ws2", f"dd if=/dev/zero of={MOUNT}/both-paths bs=1M count=64 oflag=direct "
                      "conv=fsync status=none", seconds=300)
    load.await_more()
    cluster.await_standby()
    ended(load, "ws2")
    assert cluster.read("ws1", "one-path") == "by the one that is left"


def test_a_san_that_is_reset_is_waited_for(cluster, gaps):
    cluster.await_standby()
    loads = [Load(cluster, "ws1", "san-1"), Load(cluster, "ws2", "san-2")]
    with struck(cluster, "san1", "reset"):
        pass
    for load in loads:
        load.await_more()
    cluster.await_standby()
    for load, reader in zip(loads, ("ws2", "ws1")):
        ended(load, reader)
    gaps.note("SAN: reset", max(loads, key=Load.longest), NO_FAILURE)


# ---- workstations -----------------------------------------------------------------------------

def session_of(cluster, host):
    """That workstation's session, as the controller knows it."""
    def found():
        said = cluster.on(cluster.active() or "mdc1", "reeladm --json --timeout-ms 30000 who",
                          code=None)
        return [session["session"] for session in json.loads(said or "{}").get("sessions", [])
                if session["host"].startswith(host)]
    return cluster.await_true(found, f"a session of {host}")


@pytest.mark.parametrize("fault", ["power off", "reset", "LAN cable", "hypervisor pause",
                                   "emulator stopped"])
def test_a_workstation_that_is_gone_is_fenced_and_mounts_again(cluster, gaps, fault):
    cluster.await_standby()
    others, own = Load(cluster, "ws1", f"beside {fault}"), Load(cluster, "ws2", f"own {fault}")
    session = session_of(cluster, "ws2")
    with struck(cluster, "ws2", fault):
        others.await_more()
        own.check("ws1")  # which waits for the lease, and for the fence
    if fault in ("power off", "reset"):
        own.lost()
        seen = "mounted again at boot"
    else:  # (a file that was under way may be one of the next session's)
        told = own.finish()
        seen = f"its program was told: {told[0]}" if told else "its program went on"
    cluster.write("ws2", "again", f"by nobody's hand, after {fault}")
    assert cluster.read("ws1", "again") == f"by nobody's hand, after {fault}"
    assert session_of(cluster, "ws2") != session
    ended(others, "ws2")
    gaps.note(f"other workstation: {fault}", others, f"what it had synced was there; {seen}")


def test_a_workstation_without_its_san_waits_for_it(cluster, gaps):
    cluster.await_standby()
    others, own = Load(cluster, "ws1", "beside san"), Load(cluster, "ws2", "own san")
    with struck(cluster, "ws2", "SAN cables"):
        own.check("ws1")
        others.await_more()
    own.await_more()
    ended(own, "ws1")
    ended(others, "ws2")
    gaps.note("other workstation: SAN cables", others, f"its own program waited for "
                                                       f"{own.longest():.1f} s; {NO_FAILURE}")


WRITER = f"""python3 -u - <<'END'
import os
file, number = os.open("{MOUNT}/contended", os.O_CREAT | os.O_WRONLY), 0
print("writing")
try:
    while not os.path.exists("/run/woken"):
        os.pwrite(file, b"x" * 65536, number % 256 * 65536)
        number += 1
    os.fsync(file)
    print("synced")
except OSError as error:
    print("refused:", error.strerror)
END"""


@pytest.mark.parametrize("fault, refusal", [("hypervisor pause", "reservation conflict"),
                                            ("emulator stopped", "session is over")])
def test_a_workstation_that_wakes_up_late_is_refused(cluster, fault, refusal):
    """It stood still in the middle of its writes, and another one has read the file since. The
    target refuses it where its clock has stood still with it: else it knows by itself."""
    since, writer = cluster.now("ws2"), cluster.begin("ws2", WRITER)
    assert writer.stdout.readline() == "writing\n"
    cluster.await_true(lambda: int(cluster.on("ws1", f"stat -c %s {MOUNT}/contended")) > 1 << 20,
                       "a megabyte of the file")
    with struck(cluster, "ws2", fault):
        cluster.on("ws1", f"cat {MOUNT}/contended >/dev/null")  # waits for lease and fence
    cluster.await_true(lambda: cluster.journal("ws2", refusal, since), "it is refused")
    cluster.on("ws2", "touch /run/woken")
    said, _ = writer.communicate(timeout=240)
    cluster.on("ws2", "rm /run/woken")
    assert "refused" in said, said
    cluster.write("ws2", "contended", "and on")
    assert cluster.read("ws1", "contended") == "and on"


# ---- everybody --------------------------------------------------------------------------------

def test_nothing_that_was_synced_is_lost_when_all_lose_their_power(cluster):
    loads = [Load(cluster, "ws1", "cut-1"), Load(cluster, "ws2", "cut-2")]
    hosts = list(cluster.hosts())
    for host in hosts:
        cluster.lab("power", host, "off")
    for load in loads:
        load.lost()
    cluster.lab("up", "--backend", "vm")  # which switches all of them on, and waits for the mounts
    loads[0].check("ws2")
    loads[1].check("ws1")
    cluster.await_standby()
    assert "clean" in cluster.lab("fsck", seconds=900)
