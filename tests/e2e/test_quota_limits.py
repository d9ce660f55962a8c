"""The promise about quotas: 16 writers on four clients never exceed a limit, and none is refused
below it by more than one allocation unit a client; a failover changes nothing; and quotas are
switched on over very many files beside everybody's work (a million with REEL_LONG=1).

The unit is what one write asks for. How far below the limit writers were refused is told twice: at
each refusal, by what all had written and what was asked for; and when all have been refused and
have closed.
"""
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster import until
from quota_watch import (BLOCK, Load, allocated, begin, below_at_refusals,
                         check_refusals, until_all_are_refused, usage, walk, written)

LONG = bool(os.environ.get("REEL_LONG"))
CLUSTER = {"mdcs": 2, "clients": 4, "seat_ms": 6000,
           "luns": "meta=1x8G,data=2x8G" if LONG else "meta=1x1G,data=2x2G"}
CLIENTS, A_CLIENT = 4, 4
SPACE = (128 << 20) // BLOCK
FILES = 3000
MANY = 1_000_000 if LONG else 20_000
# Of the four writers of a client: bytes at a time, writes between two fsync(2), whether it appends.
PIECES = ((1000, 0, 1), (65_536, 16, 0), (300_000, 0, 1), (1 << 20, 4, 0))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4 * A_CLIENT * 2) as threads:
        yield threads


@pytest.fixture
def counted(cluster):
    cluster.reeladm("quota", "on")
    until(lambda: cluster.reeladm("quota")["state"] == "on")


def space_limit(cluster, room, kind, number):
    """Limits a user, a group or a tree: who that is, and whose files count."""
    who = (kind, f"t{number}" if kind == "tree" else number)
    if kind == "tree":
        cluster.reeladm("quota", "tree", "add", who[1], room[0])
    os.chmod(room[0], 0o777)
    cluster.reeladm("quota", "set", *map(str, who), f"hard={SPACE * BLOCK}")
    return who, (0, 0) if kind == "tree" else (number, number)


def write_up(cluster, room, pool, capsys, kind, number, kill_at=None):
    """Writers at a limit of space: how far below it they were refused, and what they left of it."""
    who, owner = space_limit(cluster, room, kind, number)
    loads = [Load("write", room[n % CLIENTS], f"file{n}", owner, *PIECES[n // CLIENTS])
             for n in range(CLIENTS * A_CLIENT)]
    told = until_all_are_refused(cluster, who, pool, loads, SPACE, 0, kill_at)
    while_open = usage(cluster, who)[0]
    for load in loads:
        load.end()
    # What a file had ahead goes back soon after its last close (if nobody looks at it meanwhile).
    blocks = sum(load["total"] for load in told)
    until(lambda: usage(cluster, who)[0] == blocks)
    early, left = below_at_refusals(told, SPACE), SPACE - blocks
    small = [Load("write", room[n], f"small{n}", owner, BLOCK, 0, 0) for n in range(CLIENTS)]
    blocks += sum(load["total"]
                  for load in until_all_are_refused(cluster, who, pool, small, SPACE, 0))
    for load in small:
        load.end()
    until(lambda: usage(cluster, who)[0] == blocks)
    at_last = SPACE - blocks
    with capsys.disabled():
        print(f"\nquota of a {kind}{', failover' if kill_at else ''}: {SPACE} blocks; left: open "
              f"{SPACE - while_open}, closed {left}, after small files {at_last}; refused below it "
              f"by {early}")
    assert while_open <= SPACE and allocated(room[0]) == written(room[0]) == blocks
    assert 0 <= at_last <= CLIENTS
    return early, left


@pytest.mark.parametrize("number, kind", [(5001, "user"), (5002, "group"), (5003, "tree")])
def test_space_is_used_up_to_its_limit(cluster, room, pool, counted, capsys, number, kind):
    write_up(cluster, room, pool, capsys, kind, number)


@pytest.mark.parametrize("number, kind", [(5011, "user"), (5012, "group"), (5013, "tree")])
def test_space_is_used_up_through_a_failover(cluster, room, pool, counted, capsys, number, kind):
    write_up(cluster, room, pool, capsys, kind, number, kill_at=SPACE // 2)


@pytest.mark.parametrize("number, kill_at", [(5021, None), (5022, SPACE // 2)])
def test_no_writer_is_refused_below_the_limit(cluster, room, pool, counted, capsys, number,
                                              kill_at):
    early, left = write_up(cluster, room, pool, capsys, "user", number, kill_at)
    # (Seldom, and through a failover: what one write of an open file has ahead.)
    check_refusals([*early, left], CLIENTS + (max(PIECES)[0] // BLOCK if kill_at else 0))


def test_a_file_that_is_only_open_keeps_nothing_from_others(cluster, room, pool, counted, capsys):
    who, owner = space_limit(cluster, room, "user", 5023)
    idle = Load("stay-open", room[0], "idle", owner, SPACE * BLOCK // 4)
    begin(pool, [idle])
    idle.told()
    writer = Load("write", room[1], "written", owner, BLOCK, 0, 0)
    until_all_are_refused(cluster, who, pool, [writer], SPACE, 0)
    left = SPACE - written(room[0])
    for load in (idle, writer):
        load.end()
    with capsys.disabled():
        print(f"\nquota of a user: of {SPACE} blocks {left} were kept by a file that is only open")
    check_refusals([left], CLIENTS)


def test_blocks_ahead_go_back_whoever_has_looked(cluster, room):
    with open(f"{room[0]}/file", "wb", buffering=0) as file:
        for _ in range(20):
            file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        os.stat(f"{room[1]}/file")
    until(lambda: os.stat(f"{room[0]}/file").st_blocks * 512 == 20 << 20)
    assert os.stat(f"{room[1]}/file").st_blocks * 512 == 20 << 20


def make_up(cluster, room, pool, capsys, number, kill_at):
    """Files up to a limit, each program in a directory that is delegated to its client."""
    who = ("user", number)
    cluster.reeladm("quota", "set", *map(str, who), f"files-hard={FILES}")
    inside = [f"{room[n % CLIENTS]}/{n}" for n in range(CLIENTS * A_CLIENT)]
    for directory in inside:
        os.mkdir(directory)
        os.chmod(directory, 0o777)
    loads = [Load("create", directory, "file", (number, number)) for directory in inside]
    told = until_all_are_refused(cluster, who, pool, loads, FILES, 1, kill_at)
    for load in loads:
        load.end()
    made, early = sum(len(os.listdir(directory)) for directory in inside), \
        below_at_refusals(told, FILES)
    with capsys.disabled():
        print(f"\nquota of files{', failover' if kill_at else ''}: {FILES}; left: {FILES - made}; "
              f"refused below it by {early}")
    assert usage(cluster, who)[1] == made <= FILES
    assert FILES - made <= CLIENTS
    return early


@pytest.mark.parametrize("number, kill_at", [(5024, None), (5025, FILES // 2)])
def test_files_are_made_up_to_their_limit(cluster, room, pool, counted, capsys, number, kill_at):
    make_up(cluster, room, pool, capsys, number, kill_at)


def test_no_creator_is_refused_below_the_limit(cluster, room, pool, counted, capsys):
    # (Numbers of one directory, of which a client does not give up the last in a second.)
    check_refusals(make_up(cluster, room, pool, capsys, 5026, None), CLIENTS + 16)


@pytest.mark.seconds(7000 if LONG else 600)
def test_they_are_switched_on_over_many_files(cluster, room, pool, capsys):
    owners = [(5031 + n % 2, 5033 + n % 3) for n in range(2 * CLIENTS)]
    os.chmod(room[0], 0o777)
    cluster.reeladm("quota", "off")
    began = time.monotonic()
    makers = [Load("fill", room[n % CLIENTS], f"fill{n}", owner, MANY // len(owners))
              for n, owner in enumerate(owners)]
    begin(pool, makers)
    assert sum(maker.told()["made"] for maker in makers) == MANY
    for maker in makers:
        maker.end()
    made = time.monotonic()
    churners = [Load("churn", f"{room[n % CLIENTS]}/fill{n}.0", f"churn{n}", owner, n)
                for n, owner in enumerate(owners)]
    begin(pool, churners)
    on = time.monotonic()
    cluster.reeladm("quota", "on")
    until(lambda: cluster.reeladm("quota")["state"] == "on")
    counted = time.monotonic()
    for churner in churners:
        churner.end()
    times = [when for churner in churners for when in churner.told()["times"]]
    beside = sum(on <= when <= counted for when in times)
    there = walk(room[1])
    with capsys.disabled():
        print(f"\nquotas switched on over {MANY} files (made in {made - began:.0f} s): counted in "
              f"{counted - on:.1f} s, beside {beside} changes: {there}")
    assert beside > 0, "nothing was done meanwhile"
    # Of what was removed, blocks go back in the background.
    until(lambda: {who: usage(cluster, who) for who in there} == there)
