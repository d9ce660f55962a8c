#!/usr/bin/env python3
"""What is installed: with any part of it built, and a unit that starts whatever came to pass."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = sys.argv[1]
PROGRAMS = ("fsck.reelfs", "mkfs.reelfs", "mount.reelfs", "reel-bench", "reel-label", "reel-mdcd",
            "reeladm")


def install(script, root, **replaced):
    """Runs a part of `cmake --install`, as if `replaced` were somewhere else."""
    with open(os.path.join(BUILD, script), encoding="utf-8") as file:
        text = file.read()
    for old, new in replaced.items():
        text = text.replace(old, new)
    copy = os.path.join(root, "install.cmake")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={root}/usr", "-P", copy],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_manual_pages_need_not_be_built(root):
    empty = os.path.join(root, "empty")
    os.mkdir(empty)
    install("docs/man/cmake_install.cmake", root, **{os.path.join(BUILD, "docs/man"): empty})


def test_mount_8_finds_the_program_for_a_remount():
    with open(os.path.join(BUILD, "client/cmake_install.cmake"), encoding="utf-8") as file:
        text = file.read()
    if "mount.reelfs" in text.replace("umount.reelfs", ""):  # a build with gRPC
        assert "/mount.fuse.reelfs" in text, "the table of mounts shows the type fuse.reelfs"


def test_the_unit():
    with open(os.path.join(TOP, "deploy/systemd/reel-mdcd.service.in"), encoding="utf-8") as file:
        sections = file.read().split("\n[")
    unit = dict(line.split("=", 1) for line in sections[0].split("\n")
                if "=" in line and not line.startswith("#"))
    service = [line for line in sections[1].split("\n") if not line.startswith("#")]
    assert unit["StartLimitIntervalSec"] == "0", "it would stay failed"
    assert "TimeoutStartSec=infinity" in service, "it waits for LUNs"
    for hiding in ("ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
                   "PrivateDevices=yes"):
        assert hiding not in service, f"{hiding} hides LUNs"


def test_all_programs_tell_their_release_alike():
    said = set()
    for name in PROGRAMS:
        if not os.path.exists(os.path.join(BUILD, "bin", name)):
            continue  # a build of some targets
        for word in ("--version", "-V"):
            done = subprocess.run([os.path.join(BUILD, "bin", name), word], capture_output=True,
                                  text=True, check=False)
            assert done.returncode == 0, (name, done.stderr)
            program, release = done.stdout.split()
            assert program == name, done.stdout
            said.add(release)
    assert len(said) <= 1, said


def test_the_unit_and_the_udev_rule_are_installed(root):
    install("deploy/cmake_install.cmake", root)
    with open(f"{root}/usr/lib/udev/rules.d/61-reelfs.rules", encoding="utf-8") as file:
        rules = file.read()
    assert f"{root}/usr/sbin/reel-label udev $devnode" in rules
    assert 'ENV{UDISKS_IGNORE}="1"' in rules, "desktops offer LUNs to be formatted"
    units = f"{root}/usr/lib/systemd/system"
    assert os.path.exists(f"{units}/reel-mdcd.service")
    assert os.path.exists(f"{units}/plocate-updatedb.service.d/reelfs.conf")


def test_updatedb_is_told_of_the_type_in_the_table_of_mounts():
    with open(os.path.join(TOP, "deploy/systemd/updatedb.conf"), encoding="utf-8") as file:
        assert "--add-prunefs fuse.reelfs" in file.read()
    with open(os.path.join(TOP, "client/mount/tables/mount_table.cc"), encoding="utf-8") as file:
        assert 'kOurType[] = "fuse.reelfs"' in file.read()


def test_the_example_units_are_units():
    verify = "/usr/bin/systemd-analyze"
    if not os.path.exists(verify):
        return
    for name in ("mnt-reel.mount", "mnt-reel.automount", "reelfs-iscsi-login.timer"):
        done = subprocess.run([verify, "--man=no", "--recursive-errors=no", "verify",
                               os.path.join(TOP, "deploy/systemd", name)],
                              capture_output=True, text=True, check=False)
        # (open-iscsi need not be there.)
        wrong = [line for line in done.stderr.splitlines() if "iscsiadm is not exec" not in line]
        assert not wrong, wrong


with tempfile.TemporaryDirectory() as directory:
    test_manual_pages_need_not_be_built(directory)
    test_the_unit_and_the_udev_rule_are_installed(directory)
test_mount_8_finds_the_program_for_a_remount()
test_the_unit()
test_updatedb_is_told_of_the_type_in_the_table_of_mounts()
test_the_example_units_are_units()
test_all_programs_tell_their_release_alike()
