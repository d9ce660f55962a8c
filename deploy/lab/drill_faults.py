"""What drills do to a cluster, by name: each fault strikes, and returns when it has passed.

`active` has the seat, and there is a standby. `tell(what)` notes a moment of the timeline. What a
fault leaves behind (a cut, a host that stands still or does not run) is put right by `heal`, when
the programs have been judged.
"""
import functools
import time

from process import LabError

# A frame of a stream is some requests, one after the other, and each takes two answers or more of
# each LUN (a target asks for 256 KiB at once): several of them have to be under way at a time.
SLOW_MS, SLOW_SEAT_MS = 5, 150
SLOW_SECONDS = 5
# A host that is cut off finds out within a command's time, and has given up soon after.
EVICTED_SECONDS = 45


# Whoever asks an MDC is a process of its own, which takes CPU from the programs that are judged.
ASK_SECONDS = 0.5


def active_and_standby(cluster):
    active = cluster.active()
    if active is None or not any(mdc.role() == "standby" for mdc in cluster.mdcs):
        raise LabError("a drill needs an active MDC and a standby")
    return active


def _await_other(cluster, old, tell):
    new = cluster.await_active(lambda mdc: mdc is not old, pause=ASK_SECONDS)
    tell(f"{new.name} says that it is active")
    return new


def kill_active(cluster, active, tell):
    tell(f"{active.name}, which is active, is killed")
    active.kill("KILL")
    return _await_other(cluster, active, tell)


def pause_active(cluster, active, tell):
    tell(f"{active.name}, which is active, stands still (SIGSTOP)")
    active.kill("STOP")
    _await_other(cluster, active, tell)


def _cut_active(cluster, active, tell, net):
    tell(f"{active.name}, which is active, is cut off the {net.upper()}")
    cluster.partition(active.name, net)
    _await_other(cluster, active, tell)


def kill_active_and_client(cluster, active, tell):
    """What the client held is free when its lease is over: until then the new one waits for it."""
    if len(cluster.clients) < 4:
        raise LabError("this drill needs four clients: the last one is killed")
    client = cluster.clients[-1]
    tell(f"{active.name}, which is active, is killed, and {client.name} with it")
    active.kill("KILL")
    client.kill("KILL")
    _await_other(cluster, active, tell)


def kill_both(cluster, active, tell):
    other = next(mdc for mdc in cluster.mdcs if mdc is not active)
    for mdc in cluster.mdcs:
        if mdc is not active:
            mdc.kill("KILL")
    tell(f"{active.name}, which is active, is killed, and there is no standby any more")
    active.kill("KILL")
    tell(f"{other.name} is started")
    other.start()
    _await_other(cluster, active, tell)


def kill_active_twice(cluster, active, tell):
    second = kill_active(cluster, active, tell)
    tell(f"{active.name} is started again")
    active.start()
    cluster.await_role(active, "standby", pause=ASK_SECONDS)
    time.sleep(SLOW_SECONDS)  # programs at work again
    kill_active(cluster, second, tell)


def cut_san_client(cluster, active, tell):
    """What others want of it is free when it has found out, or has given up. Where it holds nothing
    that it has to write first it keeps its session: how long the others waited is told either way.
    """
    if len(cluster.clients) < 4:
        raise LabError("this drill needs four clients: the last one is cut off")
    client = cluster.clients[-1]
    tell(f"{client.name} is cut off the SAN, and not off the LAN")
    cluster.partition(client.name, "san")
    until = time.monotonic() + EVICTED_SECONDS
    while time.monotonic() < until:
        evicted = [line for line in (active.reeladm("show") or {}).get("alarms", [])
                   if f"at {client.mount_point} was evicted" in line]
        if evicted:
            tell(f"an alarm says: {evicted[-1]}")
            return
        time.sleep(ASK_SECONDS)
    tell(f"{client.name} keeps its session: nobody waits for what it would have to write")


def disk_slow(cluster, _active, tell):
    names = cluster.luns.names()
    for lun, ms in ((names[0], SLOW_SEAT_MS), (names[-1], SLOW_MS)):
        tell(f"each answer of {lun} comes {ms} ms later")
        cluster.slow(lun, ms)
        time.sleep(SLOW_SECONDS)  # a slow LUN, for a while
        tell(f"{lun} is as it was")
        cluster.slow(lun, 0)


def fail(cluster, _active, tell):
    tell("reeladm fail")
    old, new = cluster.fail()
    tell(f"{old.name} has handed over to {new.name}")


FAULTS = {
    "kill-active": kill_active,
    "pause-active": pause_active,
    "cut-lan": functools.partial(_cut_active, net="lan"),
    "cut-san": functools.partial(_cut_active, net="san"),
    "kill-active-and-client": kill_active_and_client,
    "kill-both": kill_both,
    "kill-active-twice": kill_active_twice,
    "cut-san-client": cut_san_client,
    "disk-slow": disk_slow,
    "fail": fail,
}


def heal(cluster):
    """All networks whole, all LUNs quick, all hosts running; and again one active MDC, and
    standbys."""
    for host in cluster.hosts:
        for net in cluster.network.cuts(host.name):
            cluster.partition(host.name, net, heal=True)
    for target in cluster.targets:
        target.delay_none()
    for host in cluster.hosts:
        if host.running():
            host.kill("CONT")
    for mdc in cluster.mdcs:
        # One whose term is over ends when it goes on, or when it finds out.
        cluster.await_role(mdc, "active", "standby", "stopped")
    for host in cluster.hosts:
        host.start()
    cluster.await_whole()
