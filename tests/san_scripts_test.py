"""What administrators run on hosts with LUNs, against stand-ins for what it calls."""
import glob
import os
import re
import stat
import subprocess

import pytest

SAN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "deploy", "san")
ISCSID = """
# To request that the iscsi service scripts startup a session, use "automatic".
# node.startup = automatic
node.startup = manual
node.conn[0].timeo.noop_out_interval = 5
#node.conn[1].timeo.noop_out_interval = 7
node.session.timeo.replacement_timeout = 120
node.session.iscsi.FastAbort = Yes
"""


def stand_in(directory, name, script):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\n{script}\n")
    os.chmod(path, 0o755)


def run(directory, script, *arguments, **environment):
    path = f"{directory}:{os.environ['PATH']}"
    return subprocess.run([os.path.join(SAN, script), *arguments], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=30,
                          env={**os.environ, "PATH": path, **environment})


def set_iscsid(tmp_path, status):
    stand_in(tmp_path, "iscsiadm", f'echo "$@" >>{tmp_path}/asked\nexit {status}')
    return run(tmp_path, "iscsid-settings", ISCSID_CONF=f"{tmp_path}/iscsid.conf")


def test_settings_of_open_iscsi_are_there_once_however_often_it_is_run(tmp_path):
    conf = tmp_path / "iscsid.conf"
    conf.write_text(ISCSID)
    for _ in range(2):
        done = set_iscsid(tmp_path, 21)
        assert done.returncode == 0, done.stderr
        lines = conf.read_text().splitlines()
        settings = [line.split(" = ") for line in lines if re.match(r"\w", line)]
        assert len({name for name, _ in settings}) == len(settings), settings
        settings = dict(settings)
        assert settings["node.startup"] == "automatic"
        assert settings["node.conn[0].timeo.noop_out_interval"] == "2"
        assert settings["node.session.timeo.replacement_timeout"] == "3"
        assert settings["node.session.iscsi.FastAbort"] == "Yes", "others stay"
        assert "#node.conn[1].timeo.noop_out_interval = 7" in lines
    asked = (tmp_path / "asked").read_text()
    assert "-m node -o update -n node.conn[0].timeo.noop_out_timeout -v 2" in asked


def test_known_targets_that_cannot_be_changed_are_told(tmp_path):
    (tmp_path / "iscsid.conf").write_text(ISCSID)
    assert set_iscsid(tmp_path, 6).returncode != 0


def test_a_target_needs_devices(tmp_path):
    stand_in(tmp_path, "targetcli", f"cat >{tmp_path}/told")
    for device, words in (("a=/dev/no-such-lun", "no block device"), ("/dev/null", "lio-target")):
        done = run(tmp_path, "lio-target", "iqn.2026-11.lan.san:video", "10.0.1.5:3260", "iqn.a:b",
                   device)
        assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not os.path.exists(tmp_path / "told")


def test_a_target_is_made_and_looked_for_afterwards(tmp_path):
    """No LIO is here, so that it is missed."""
    device = next((path for path in glob.glob("/dev/*") if stat.S_ISBLK(os.stat(path).st_mode)),
                  None)
    if not device:
        pytest.skip("no block device here")
    stand_in(tmp_path, "targetcli", f"cat >{tmp_path}/told")
    stand_in(tmp_path, "mkdir", f'echo "$@" >{tmp_path}/made')
    done = run(tmp_path, "lio-target", "iqn.2026-11.lan.none:video", "10.0.1.5:3260,[fd00::5]:3261",
               "iqn.a:b,iqn.a:c", f"meta1={device},12-34", f"data1={device}")
    assert done.returncode == 1 and "the target lacks LUNs" in done.stderr, done.stderr
    tpg = "/iscsi/iqn.2026-11.lan.none:video/tpg1"
    assert (tmp_path / "made").read_text() == "-p /etc/rtslib-fb-target/pr\n"
    assert (tmp_path / "told").read_text().splitlines() == [
        f"/backstores/block create name=meta1 dev={device} wwn=12-34",
        f"/backstores/block create name=data1 dev={device}",
        "/iscsi create iqn.2026-11.lan.none:video",
        f"{tpg} set attribute authentication=0 generate_node_acls=0",
        f"{tpg}/luns create /backstores/block/meta1", f"{tpg}/luns create /backstores/block/data1",
        f"{tpg}/portals delete 0.0.0.0 3260",
        f"{tpg}/portals create 10.0.1.5 3260", f"{tpg}/portals create [fd00::5] 3261",
        f"{tpg}/acls create iqn.a:b", f"{tpg}/acls create iqn.a:c", "saveconfig"]


def test_rules_of_udev_are_whole():
    with open(os.path.join(SAN, "62-reelfs-san.rules")) as file:
        rules = [line for line in file.read().splitlines() if line and line[0] != "#"]
    item = r'[A-Z]+(\{\w+\})?(==|!=|\+=|=)"[^"]*"'
    assert all(re.fullmatch(rf"{item}(, {item})*", rule) for rule in rules), rules
