"""Directories that ignore case and take NFC and NFD for one (`chattr +F`), on two clients."""
import errno
import os
import subprocess

import pytest

from smb_gateway import SambaGateway
from test_names import fails, read, write

COMPOSED, DECOMPOSED = "Caf\u00e9.mov", "CAFE\u0301.MOV"
CLUSTER = {"mdcs": 2}


@pytest.fixture
def share(room):
    """A directory that folds names, as each client sees it."""
    os.mkdir(f"{room[0]}/share")
    subprocess.run(["chattr", "+F", f"{room[0]}/share"], check=True)
    return tuple(f"{mount}/share" for mount in room)


def test_any_spelling_finds_the_file(share):
    one, two = share
    write(f"{one}/{COMPOSED}", "text")
    for spelling in (COMPOSED, DECOMPOSED, "caf\u00e9.mov", "CAFE\u0301.mov"):
        for mount in share:
            assert read(f"{mount}/{spelling}") == "text"
            assert os.stat(f"{mount}/{spelling}").st_ino == os.stat(f"{one}/{COMPOSED}").st_ino
    assert os.listdir(two) == [COMPOSED], "as it was spelled"
    fails(errno.EEXIST, os.mkdir, f"{two}/{DECOMPOSED}")
    fails(errno.EILSEQ, os.open, os.fsencode(two) + b"/\xff", os.O_CREAT)
    assert not os.path.exists(f"{two}/other")


def test_no_spelling_outlives_a_change(share):
    one, two = share
    for turn in range(20):
        changer, watcher = (one, two) if turn % 2 else (two, one)
        write(f"{one}/Take", "1")
        spellings = [f"{mount}/{name}" for mount in share for name in ("Take", "take", "TAKE")]
        assert [read(path) for path in spellings] == ["1"] * 6
        os.rename(f"{changer}/TAKE", f"{changer}/Next")
        assert not any(os.path.exists(path) for path in spellings)
        assert read(f"{watcher}/next") == "1"
        write(f"{watcher}/tAKE", "2")
        os.rename(f"{changer}/NEXT", f"{changer}/Take")
        assert [read(path) for path in spellings] == ["1"] * 6
        assert os.listdir(watcher) == ["Take"], "a rename brings its spelling"
        os.unlink(f"{changer}/take")
        assert not any(os.path.exists(path) for path in spellings)


def test_directories_below_fold_too(share):
    one, two = share
    os.makedirs(f"{one}/Day 1/Card A")
    write(f"{two}/DAY 1/card a/Clip", "text")
    assert read(f"{one}/day 1/CARD A/clip") == "text"
    assert "F" in subprocess.run(["lsattr", "-d", f"{two}/day 1"], check=True, text=True,
                                 capture_output=True).stdout.split()[0]
    os.chdir(f"{one}/DAY 1")
    try:
        assert os.listdir(".") == ["Card A"]
        assert os.listdir("../day 1") == ["Card A"]
    finally:
        os.chdir("/")
    os.rename(f"{two}/day 1/CARD A/CLIP", f"{two}/clip")
    os.rmdir(f"{two}/DAY 1/card A")
    os.rmdir(f"{one}/day 1")
    assert os.listdir(one) == ["clip"]


def test_a_directory_with_names_stays_as_it_is(room, share):
    one, two = share
    write(f"{room[0]}/plain", "")
    for command in (["chattr", "+F", room[1]], ["chattr", "+F", f"{room[1]}/plain"]):
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    write(f"{one}/a", "")
    assert subprocess.run(["chattr", "-F", two], capture_output=True, check=False).returncode != 0
    os.unlink(f"{one}/A")
    subprocess.run(["chattr", "-F", two], check=True)
    write(f"{one}/a", "small")
    write(f"{two}/A", "large")
    assert sorted(os.listdir(one)) == ["A", "a"] and read(f"{one}/a") == "small"


def test_a_rename_of_the_case_alone_harms_nothing(share):
    """The kernel takes both for one file."""
    one, two = share
    write(f"{one}/take", "text")
    os.rename(f"{one}/take", f"{one}/TAKE")
    moved = subprocess.run(["mv", f"{two}/take", f"{two}/TAKE"], capture_output=True, text=True,
                           check=False)
    assert "are the same file" in moved.stderr
    assert os.listdir(two) == ["take"] and read(f"{two}/Take") == "text"
    os.rename(f"{two}/take", f"{two}/between")
    os.rename(f"{two}/between", f"{two}/TAKE")
    assert os.listdir(one) == ["TAKE"]


def test_a_gateway_of_it_reads_no_directory_to_find_a_name(cluster, share):
    gateway = SambaGateway(os.path.join(cluster.scratch, "gateway"), share[0],
                           {"# case sensitive = yes": "case sensitive = yes"})
    os.chmod(share[0], 0o777)
    source = os.path.join(cluster.scratch, "source")
    write(source, "text")
    try:
        listings = cluster.counters().get("op.read_dir", 0)
        gateway.does(f"put {source} Clip.MOV; mkdir Day; put {source} DAY/{COMPOSED}")
        gateway.does(f"get clip.mov {source}.1; get day/{DECOMPOSED} {source}.2; rename CLIP.mov b")
        assert cluster.counters().get("op.read_dir", 0) == listings
        assert read(f"{source}.1") == read(f"{source}.2") == "text"
        assert sorted(os.listdir(share[1])) == ["Day", "b"]
    finally:
        gateway.end()


def test_a_failover_keeps_it(cluster, share):
    one, two = share
    write(f"{one}/Take", "text")
    cluster.reeladm("fail")
    assert read(f"{two}/tAKE") == "text"
    write(f"{two}/TAKE", "more")
    assert read(f"{one}/take") == "more" and os.listdir(one) == ["Take"]
