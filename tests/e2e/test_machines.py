"""Machines that boot, install the packages, and reach LIO by open-iscsi and two paths: power cuts,
cables and hypervisors' pauses. REEL_LONG=1, as root; REEL_MACHINES=DIR takes a cluster that is
there already (lab up --backend vm), and leaves it there.
"""
import json
import os

import pytest

from cluster import scratch_directory
from machines import MOUNT, Load, Machines, why_not

LEASE_SECONDS = 10
# An emulated host that shares two processors with four others is no measure of times; what is
# promised of them is measured by `lab drill`.
GAP_SECONDS = 200


OPTIONS = ("--kernels", "6.1,6.12")  # ws1 has the older one, ws2 the newer one


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


def is_known(cluster, host):
    """Whether a controller has a session of that workstation; so, too, while none answers."""
    said = cluster.on(cluster.active() or "mdc1", "reeladm --json --timeout-ms 30000 who",
                      code=None)
    return not said or any(session["host"].startswith(host)
                           for session in json.loads(said)["sessions"])


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


def test_a_controller_without_power_is_replaced(cluster):
    load, active = Load(cluster, "ws1", "power-mdc"), cluster.active()
    cluster.lab("power", active, "off")
    cluster.await_true(lambda: cluster.active() not in (None, active), "another controller")
    load.await_more()
    assert load.end() < GAP_SECONDS
    load.check("ws2")
    cluster.lab("power", active, "on")
    cluster.await_standby()


def test_a_workstation_without_power_is_fenced_and_mounts_again(cluster):
    load = Load(cluster, "ws2", "power-ws")
    cluster.lab("power", "ws2", "off")
    load.lost()
    load.check("ws1")  # which waits for the lease, and for the fence
    cluster.await_true(lambda: not is_known(cluster, "ws2"), "ws2's session has ended")
    cluster.lab("power", "ws2", "on")
    cluster.write("ws2", "again", "mounted by nobody's hand")
    assert cluster.read("ws1", "again") == "mounted by nobody's hand"


@pytest.mark.parametrize("host", ["ws1", "active"])
def test_a_pulled_path_is_no_error(cluster, host):
    name = f"path-{host}"
    host, load = cluster.active() if host == "active" else host, Load(cluster, "ws1", name)
    whole, _ = cluster.paths(host)
    try:
        cluster.lab("partition", host, "path1")
        cluster.await_true(lambda: cluster.paths(host)[0] == whole // 2, "half of the paths")
        load.await_more()
    finally:
        cluster.lab("partition", host, "path1", "--heal")
    assert load.end() < GAP_SECONDS
    cluster.await_true(lambda: cluster.paths(host) == (whole, 0), "all paths")
    load.check("ws2")


def test_a_controller_that_wakes_up_late_is_refused(cluster):
    """Its clock has stood still with it, so that it believes in its term."""
    load, active = Load(cluster, "ws1", "pause-mdc"), cluster.active()
    cluster.lab("power", active, "suspend")
    cluster.await_true(lambda: cluster.active() not in (None, active), "another controller")
    load.await_more()
    cluster.lab("power", active, "resume")
    cluster.await_standby()
    assert cluster.active() != active
    assert load.end() < GAP_SECONDS
    load.check("ws2")
    said = cluster.journal(active, "reel-mdcd.*(seat is lost|[Rr]eservation|RESERVATION CONFLICT)")
    assert said, cluster.journal(active, "reel-mdcd")[-3000:]


REFUSED = "reservation conflict|session is over"
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


def test_a_workstation_that_wakes_up_late_is_refused(cluster):
    """It stood still in the middle of its writes, and another one has read the file since."""
    writer = cluster.begin("ws2", WRITER)
    assert writer.stdout.readline() == "writing\n"
    cluster.await_true(lambda: int(cluster.on("ws1", f"stat -c %s {MOUNT}/contended")) > 1 << 20,
                       "a megabyte of the file")
    refusals = cluster.journal("ws2", REFUSED).count("\n")
    cluster.lab("power", "ws2", "suspend")
    cluster.on("ws1", f"cat {MOUNT}/contended >/dev/null")  # waits for the lease, and for the fence
    cluster.lab("power", "ws2", "resume")
    cluster.await_true(lambda: cluster.journal("ws2", REFUSED).count("\n") > refusals,
                       "it is refused")
    cluster.on("ws2", "touch /run/woken")
    said, _ = writer.communicate(timeout=240)
    cluster.on("ws2", "rm /run/woken")
    assert "refused" in said, said
    cluster.write("ws2", "contended", "and on")
    assert cluster.read("ws1", "contended") == "and on"


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
