"""Two controllers on LUNs behind a real target: reservations keep them apart."""
import os
import threading

import failover
from cluster import until

LUNS = ("meta1", "data1", "data2")
CLUSTER = {"mdcs": 2, "seat_ms": 1500, "lun_backend": "iscsi", "luns": "meta=1x1G,data=2x512M"}


def controllers(cluster):
    """Of each LUN: the keys of controllers that are registered there."""
    return {lun["name"]: [key for key in lun["keys"] if key["owner"].startswith("controller")]
            for lun in cluster.reeladm("reservations")["luns"]}


def only_the_active_one_may_write(cluster):
    for name, keys in controllers(cluster).items():
        assert len(keys) == 1 and keys[0]["holder"], f"{name}: {keys}"


def test_a_killed_controller_is_replaced(cluster):
    only_the_active_one_may_write(cluster)
    failover.a_killed_controller_is_replaced(cluster)
    only_the_active_one_may_write(cluster)


def test_a_paused_controller_is_replaced_and_ends_when_it_wakes(cluster):
    before = controllers(cluster)
    failover.a_paused_controller_is_replaced_and_ends_when_it_wakes(cluster)
    only_the_active_one_may_write(cluster)
    after = controllers(cluster)
    assert all(before[lun][0]["key"] != after[lun][0]["key"] for lun in before)


def registered(cluster, urls):
    """Of each LUN: who may write, as the target says."""
    listed = [cluster.tool("reel-label", "reservations", url) for url in urls]
    assert all(done.returncode == 0 for done in listed), listed
    return [done.stdout for done in listed]


def test_a_woken_controller_changes_no_byte_of_any_lun(cluster, room):
    """It stops with changes under way, and wakes when nobody else writes any more: the reservations
    and all bytes are as they were before it woke."""
    old = cluster.active()
    old_keys = {key["key"] for keys in controllers(cluster).values() for key in keys}
    urls = [lun["path"] for pool in cluster.reeladm("show")["pools"] for lun in pool["luns"]]
    assert all(any(key in listed for key in old_keys) for listed in registered(cluster, urls))
    made, enough = [], threading.Event()

    def make(who):
        while not enough.is_set():
            fd = os.open(os.path.join(room[0], f"{who}.{len(made)}"), os.O_CREAT | os.O_EXCL)
            os.close(fd)
            made.append(fd)

    makers = [threading.Thread(target=make, args=(who,)) for who in range(4)]
    for maker in makers:
        maker.start()
    until(lambda: len(made) > 100)
    cluster.kill(old, "STOP")
    stopped_at = len(made)
    until(lambda: len(made) > stopped_at + 100)  # the other one serves
    new = cluster.active()
    assert new != old
    enough.set()
    for maker in makers:
        maker.join()
    assert len(os.listdir(room[1])) == len(made)
    for host in ("ws1", "ws2", new):  # so that nobody else writes
        cluster.kill(host)
    before, held = registered(cluster, urls), cluster.lun_digest(*LUNS)
    assert all(key not in listed for key in old_keys for listed in before), (old_keys, before)
    cluster.kill(old, "CONT")
    until(lambda: cluster.hosts()[old]["pid"] is None)
    assert cluster.lun_digest(*LUNS) == held
    assert registered(cluster, urls) == before
    cluster.up()


def test_a_handover_disturbs_no_program(cluster):
    failover.a_handover_disturbs_no_program(cluster)
    only_the_active_one_may_write(cluster)


def test_two_controllers_die_one_after_the_other(cluster, room):
    failover.two_controllers_die_one_after_the_other(cluster, room)


def test_all_controllers_die_and_one_comes_back(cluster, room):
    failover.all_controllers_die_and_one_comes_back(cluster, room)


def test_show_says_what_keeps_two_controllers_apart(cluster):
    assert cluster.reeladm("show")["arbitration"].startswith("reservations")
