"""How test_quota_limits.py runs its programs, and what it asks about what they have used."""
import json
import os
import subprocess
import sys
from collections import Counter

from quota_load import BLOCK, blocks_of

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quota_load.py")


class Load:
    """A program of quota_load.py, ready to begin; `line` becomes what it has to tell."""

    def __init__(self, verb, directory, name, owner, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-B", LOAD, verb, directory, name, *map(str, (*owner, *arguments))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def begin(self, pool):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.line = pool.submit(self.process.stdout.readline)

    def told(self):
        return json.loads(self.line.result())

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def begin(pool, loads):
    for load in loads:
        load.begin(pool)


def blocks_and_files(told):
    return told["quotas"][0]["bytes"] // BLOCK, told["quotas"][0]["files"]


def usage(cluster, who):
    """Blocks and files."""
    return blocks_and_files(cluster.reeladm("quota", "get", *map(str, who)))


def usage_now(cluster, who):
    """None where no controller answers just now."""
    done = cluster.ask(",".join(cluster.where(mdc) for mdc in cluster.mdcs), "quota", "get",
                       *map(str, who))
    return blocks_and_files(json.loads(done.stdout)) if done.returncode == 0 else None


def until_all_are_refused(cluster, who, pool, loads, limit, unit, kill_at=None):
    """Looks at the usage all the while; kills the active controller when that has come so far."""
    begin(pool, loads)
    looked, old = False, None
    while not (looked and all(load.line.done() for load in loads)):
        used = usage_now(cluster, who)
        if used is None:
            continue
        looked = True
        assert used[unit] <= limit, "the limit was passed"
        if kill_at is not None and old is None and used[unit] >= kill_at:
            old = cluster.active()
            cluster.kill(old)
    assert (old is None) == (kill_at is None)
    assert usage(cluster, who)[unit] <= limit
    if old is not None:
        assert cluster.active() != old
        cluster.start(old)
    told = [load.told() for load in loads]
    assert {each["error"] for each in told} == {"EDQUOT"}
    return told


def below_at_refusals(told, limit):
    """By how much each refusal came too early, the first one first: what it asked for had room."""
    def had(load, at):
        return max((total for began, total in load["grown"] if began <= at), default=0)

    return [limit - sum(had(load, refused["at"]) for load in told) - refused["asked"] + 1
            for refused in sorted(told, key=lambda each: each["at"])]


def check_refusals(early, most):
    assert max(early) <= most, f"refused with as much room as that: {early}"


def written(directory):
    """Blocks of what was written there."""
    return sum(blocks_of(entry.stat().st_size) for entry in os.scandir(directory))


def allocated(directory):
    """Blocks of what is there, as stat(2) says."""
    return sum(entry.stat().st_blocks for entry in os.scandir(directory)) * 512 // BLOCK


def walk(top):
    """What each user and each group has: blocks and files."""
    found = {"user": Counter(), "group": Counter()}
    files = Counter(), Counter()
    for directory, _, names in os.walk(top):
        for path in (directory, *(f"{directory}/{name}" for name in names)):
            stat = os.lstat(path)
            for kind, count, number in (("user", files[0], stat.st_uid),
                                        ("group", files[1], stat.st_gid)):
                found[kind][number] += stat.st_blocks * 512 // BLOCK
                count[number] += 1
    return {(kind, number): (found[kind][number], count[number])
            for kind, count in zip(found, files) for number in count if number != 0}
