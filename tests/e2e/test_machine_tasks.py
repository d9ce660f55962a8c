"""The tasks of docs/operations.md, followed word by word on bare machines, one after the other:
from packages to two workstations with the volume, its certificates, hosts and an array replaced, a
release upgraded under load, a power cut, and away with it all.

REEL_LONG=1, as root. REEL_BARE_MACHINES=DIR takes a cluster that is there already (lab up --backend
vm --bare), and leaves it there.
"""
import json
import os
import re
import subprocess

import pytest

from cluster import TOP, scratch_directory
from machines import MOUNT, Load, why_not
import manual
from manual import INSTALL, LIST, RENEW, REVOKE, UPGRADE
from manual_hosts import ADMIN, CONTROLLERS, HOSTS, SET, WORKSTATIONS, YES, ManualHosts

# What a host has on its disk, with sums of what is in /etc, and what runs on it.
LOOK = r"""
cd /
find etc usr var -xdev ! -type d | sort
find etc -xdev -type f -exec cksum {} + | sort
systemctl list-units --plain --no-legend --state=active,failed --type=service,timer,socket |
  awk '{ print "unit", $1 }' | sort
"""
# What dpkg, apt, systemd and multipathd keep for themselves, and what comes and goes by itself.
OTHERS = re.compile(r"""(?x) (^|\s)(
    var/(lib/(dpkg|apt|systemd|private)|cache|log|tmp|backups)/
  | etc/(ld\.so\.cache|machine-id|multipath/wwids)$
  | unit\ (run-|user|session|systemd-|apt-|dpkg-|initrd|ssh@|iscsid|open-iscsi|dbus) )""")


@pytest.fixture(scope="module")
def cluster():
    if problem := why_not():
        pytest.skip(problem)
    given = os.environ.get("REEL_BARE_MACHINES")
    made = ManualHosts(given or os.path.join(scratch_directory(), "lab"))
    made.name_luns()
    yield made
    for title, seconds in made.took.items():
        print(f"followed '{title}' in {seconds:.0f} s")
    if not given:
        made.down()


@pytest.fixture(scope="module")
def first(cluster):
    """The packages of this build."""
    return os.path.join(cluster.dir, "packages")


@pytest.fixture(scope="module")
def second(cluster, first):
    """Those of the next release: another build, of the same sources. Its number."""
    name = next(name for name in os.listdir(first) if name.startswith("reelfs-mdc_"))
    version = name.split("_")[1] + "+next"
    directory = cluster.dir + ".next"
    subprocess.run([f"{TOP}/deploy/package", "--no-install", "--version", version, "--output",
                    directory], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym"})
    cluster.give_packages(directory)
    return version


def look(cluster, host):
    return {line for line in cluster.on(host, LOOK).splitlines() if not OTHERS.search(line)}


@pytest.fixture(scope="module")
def before(cluster):
    """What bare hosts have."""
    for host in HOSTS:
        cluster.on(host, YES)
    path = cluster.dir + ".before"
    if not os.path.exists(path):
        with open(path, "w") as file:
            json.dump({host: sorted(look(cluster, host)) for host in HOSTS}, file)
    with open(path) as file:
        return json.load(file)


def test_first_installation(cluster, before, first):
    # (The target's name is the lab's.)
    assert not any("reel" in line.replace("reelfs.lab", "") for host in HOSTS
                   for line in before[host])
    cluster.give_packages(first)
    said = cluster.follow(INSTALL)
    assert said[-1][1:] == ("ws2", "from ws1\n")
    # (The doctor's exit status has said that there is no failure.)
    assert [host for step, host, _ in said if "reeladm doctor" in step.script] == HOSTS
    cluster.await_standby()
    who = json.loads(cluster.on("mdc1", "reeladm --json who"))["sessions"]
    assert sorted(session["certificate"] for session in who) == WORKSTATIONS, who


def test_certificates_are_listed(cluster):
    (_, _, said), = cluster.follow(LIST)
    rows = [line.split() for line in said.splitlines()]
    assert {row[0] for row in rows} >= set(HOSTS)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row[3]) for row in rows if row[0] in HOSTS), said


def test_certificates_are_renewed_while_programs_work(cluster):
    load = Load(cluster, "ws1", "renewed")
    since = {host: cluster.now(host) for host in ("mdc1", "ws1")}
    cluster.follow(RENEW)
    seen = "the TLS files have changed: new connections use the certificate"
    cluster.await_true(lambda: cluster.journal("mdc1", seen, since["mdc1"]), "mdc1 has seen it")
    cluster.on("mdc1", "reeladm fail")  # a client looks when it connects next
    cluster.await_true(lambda: cluster.journal("ws1", seen, since["ws1"]), "ws1 has seen it")
    load.await_more()
    load.end()
    load.check("ws2")


def test_a_certificate_is_revoked_and_another_one_taken(cluster):
    cluster.follow(REVOKE, end=2)
    cluster.await_true(lambda: "No such device" in cluster.on("ws2", f"ls {MOUNT} 2>&1", code=None),
                       "ws2 is shut out")
    cluster.write("ws1", "revoked", "others work on")
    cluster.follow(REVOKE, first=2)
    cluster.await_true(lambda: cluster.on("ws2", f"cat {MOUNT}/revoked", code=None) ==
                       "others work on", "ws2 goes on by itself")
    (_, _, said), = cluster.follow(LIST)
    assert len(re.findall(r"(?m)^ws2 .* revoked ", said)) == 1, said


def test_a_controller_is_replaced_while_programs_work(cluster):
    load = Load(cluster, "ws1", "new-controller")
    cluster.lab("power", "mdc2", "off")
    cluster.lab("replace", "mdc2")
    cluster.on("mdc2", YES)
    load.await_more()
    cluster.follow(manual.CONTROLLER)
    cluster.await_standby()
    load.await_more()
    load.end()
    load.check("ws2")
    follow_the_timer(cluster, "mdc2")


def test_a_workstation_is_replaced(cluster):
    cluster.write("ws2", "kept", "by the old ws2")
    cluster.lab("power", "ws2", "off")
    cluster.lab("replace", "ws2")
    cluster.on("ws2", YES)
    cluster.follow(manual.WORKSTATION)
    assert cluster.read("ws2", "kept") == "by the old ws2"
    follow_the_timer(cluster, "ws2")


def follow_the_timer(cluster, host):
    """The step of the installation that the manual sends there for."""
    timer, = (step for step in manual.steps(INSTALL) if "iscsi-login" in step.script)
    cluster.act(host, timer.script)


def test_all_hosts_are_upgraded_while_programs_work(cluster, second):
    cluster.words["VERSION"] = second
    steps = [step.where for step in manual.steps(UPGRADE)]
    mounts = steps.index("each workstation")
    loads = {host: Load(cluster, host, f"upgrade-{host}") for host in WORKSTATIONS}
    cluster.follow(UPGRADE, end=steps.index("the active controller"))
    cluster.await_standby()  # it takes an emulated one a while to begin
    cluster.follow(UPGRADE, first=steps.index("the active controller"), end=mounts - 1)
    cluster.await_standby()
    shown = cluster.follow(UPGRADE, first=mounts - 1, end=mounts)
    assert all(answer.count(second) == len(CONTROLLERS) for _, _, answer in shown), shown
    for host in WORKSTATIONS:  # one after the other, when nobody works there
        loads[host].await_more()
        loads[host].end()
        cluster.act(host, manual.steps(UPGRADE)[mounts].script)
        loads[host].check(host)
        loads[host] = Load(cluster, host, f"upgraded-{host}")
    (_, _, said), = cluster.follow(UPGRADE, first=mounts + 1)
    assert said.count(second) == len(WORKSTATIONS), said
    for load in loads.values():
        load.end()
        load.check("ws1")


def test_a_luns_array_is_replaced(cluster):
    cluster.write("ws1", "moved", "to another array")
    load = Load(cluster, "ws1", "moved-files")
    load.end()
    said = cluster.follow(manual.ARRAY)
    assert any("nobody is registered" in answer for _, _, answer in said), said
    assert cluster.read("ws2", "moved") == "to another array"
    load.check("ws2")
    disks = cluster.on(cluster.active(), "reeladm disks")
    assert cluster.words["NEW1"] in disks, disks
    # From now on it is DATA1.
    cluster.words["DATA1"], cluster.words["NEW1"] = cluster.words["NEW1"], cluster.words["DATA1"]


def test_everything_comes_back_after_a_power_cut(cluster):
    loads = [Load(cluster, host, f"cut-{host}") for host in WORKSTATIONS]
    for host in [*HOSTS, "san1"]:
        cluster.lab("power", host, "off")
    for load in loads:
        load.lost()
    for host in ("ws2", "mdc1", "ws1", "san1", "mdc2"):
        cluster.lab("power", host, "on")
    cluster.await_mounts()
    cluster.await_standby()
    shown = cluster.follow(manual.POWER_CUT)
    assert "ALARM" not in shown[-1][2], shown
    for load in loads:
        load.check("ws1")


def test_nothing_is_left_of_it(cluster, before):
    cluster.follow(manual.UNINSTALL)
    for host in HOSTS:
        left = look(cluster, host)
        assert sorted(left - set(before[host])) == sorted(set(before[host]) - left) == [], host
        assert cluster.on(host, "ls /run/reelfs /mnt/reel /etc/reelfs 2>/dev/null", code=None) == ""
    assert f"{SET}\n" == cluster.act(ADMIN, f"ls -d {SET}\n")  # which the manual says
