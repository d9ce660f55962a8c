"""Storage, two controllers and a workstation come up after a power cut, in any order: the
workstation's mount of fstab is there in the end, and nobody had to lend a hand."""
import itertools
import os

import pytest

import booted_host

pytestmark = pytest.mark.skipif(booted_host.why_not() is not None,
                                reason=str(booted_host.why_not()))

CLUSTER = {"mdcs": 2, "seat_ms": 1_500}
MACHINES = ("storage", "mdc1", "mdc2", "workstation")
UNIT = "mnt-reel.mount"
SOME = (("workstation", "mdc1", "mdc2", "storage"), ("mdc1", "workstation", "storage", "mdc2"),
        ("storage", "workstation", "mdc2", "mdc1"), MACHINES)
ORDERS = tuple(itertools.permutations(MACHINES)) if os.environ.get("REEL_LONG") else SOME


@pytest.fixture(scope="module")
def workstation(cluster):
    mdcs = ",".join(f"mdc={cluster.hosts()[name]['where']}" for name in cluster.mdcs)
    made = booted_host.BootedHost(
        os.path.join(cluster.scratch, "workstation"),
        fstab=f"reel /mnt/reel reelfs {mdcs},luns={cluster.luns()},config={cluster.own_config()},"
              "_netdev,nofail,x-systemd.mount-timeout=infinity 0 0\n")
    yield made
    made.down()


def cut_power_of_all(cluster, workstation):
    workstation.cut_power()
    for name in cluster.mdcs:
        cluster.kill(name)
    luns = os.path.join(cluster.dir, "luns")
    os.rename(luns, f"{luns}.away")


def power_on(machine, cluster, workstation):
    luns = os.path.join(cluster.dir, "luns")
    if machine == "storage":
        os.rename(f"{luns}.away", luns)
    elif machine == "workstation":
        workstation.boot()
        workstation.expect("logins")  # whatever is missing
    else:
        cluster.start(machine)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_mounted_after_a_power_cut_in_any_order(cluster, workstation, order):
    cut_power_of_all(cluster, workstation)
    for machine in order:
        power_on(machine, cluster, workstation)
    workstation.run("systemctl", "start", UNIT)  # waits for what the boot has begun
    here = "-".join(order)
    with open(workstation.path(f"/mnt/reel/{here}"), "w") as file:
        file.write(here)
    with open(f"{cluster.ws1}/{here}") as file:
        assert file.read() == here
