"""The Debian packages of a build: without complaint, installed, upgraded and purged as a user does
it. All of that happens on an overlay of this machine's own file system, in a mount namespace, so
that nothing of it reaches the machine. As root; BUILD in the environment is the build's directory.
"""
import ctypes
import os
import re
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ["BUILD"]
PACKAGES = ("reelfs-mdc", "reelfs-client", "reelfs-tools", "reelfs-lab")
PROGRAMS = ("fsck.reelfs", "mkfs.reelfs", "mount.reelfs", "reel-bench", "reel-label", "reel-mdcd",
            "reeladm")
CLONE_NEWNS = 0x00020000
LIBC = ctypes.CDLL(None, use_errno=True)
# What dpkg, apt and their triggers keep for themselves.
OF_DPKG = re.compile(r"/(var/(lib/(dpkg|apt)|cache|log)|etc/ld\.so\.cache|(usr/)?share/info/dir)\b")
# systemd is not there: its client writes down what is asked of it, and says that all is well, as
# where a controller is active. Only links of units are made by the real one.
SYSTEMCTL = """#!/bin/sh
case $1 in
  --root=*) exec /usr/bin/systemctl.real "$@" ;;
  *) echo "$@" >>/run/systemctl.log ;;
esac
"""


def run(*command, check=True):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout}"
    return done.stdout


def make_packages(directory, *options):
    """name → path of each package."""
    # What is for debuggers takes the longest, and is not looked at here.
    os.environ["DEB_BUILD_OPTIONS"] = "noautodbgsym"
    os.environ["DPKG_DEB_COMPRESSOR_LEVEL"] = "1"
    run(f"{TOP}/deploy/package", "--no-install", "--from", BUILD, "--output", str(directory),
        *options)
    return {name.split("_")[0]: os.path.join(directory, name) for name in os.listdir(directory)}


class Host:
    """A host whose file system begins as this machine's is, and whose changes are in `upper`."""

    def __init__(self, directory):
        self.upper, self.root = f"{directory}/upper", f"{directory}/root"
        run("mount", "-t", "tmpfs", "-o", "size=2G", "host", directory)
        for name in ("upper", "work", "root"):
            os.mkdir(f"{directory}/{name}")
        run("mount", "-t", "overlay", "host", "-o",
            f"lowerdir=/,upperdir={self.upper},workdir={directory}/work", self.root)
        run("mount", "--bind", "/dev", f"{self.root}/dev")
        run("mount", "-t", "proc", "proc", f"{self.root}/proc")
        for place in ("run", "tmp"):
            run("mount", "-t", "tmpfs", place, f"{self.root}/{place}")
        shutil.copy("/usr/bin/systemctl", f"{self.root}/usr/bin/systemctl.real")
        self.write("/usr/bin/systemctl", SYSTEMCTL, mode=0o755)
        # Manual pages are unpacked, as on hosts that are no container.
        shutil.rmtree(f"{self.root}/etc/dpkg/dpkg.cfg.d", ignore_errors=True)
        # All may be started and stopped.
        self.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 0\n", mode=0o755)
        os.makedirs(f"{self.root}/run/systemd/system")
        self.began = self.changes()

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        if os.path.lexists(self.root + path):
            os.unlink(self.root + path)
        with open(self.root + path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.root + path, mode)

    def read(self, path):
        with open(self.root + path, encoding="utf-8") as file:
            return file.read()

    def has(self, path):
        return os.path.lexists(self.root + path)

    def run(self, *command, check=True):
        return run("env", "-i", "PATH=/usr/sbin:/usr/bin", "DEBIAN_FRONTEND=noninteractive",
                   "LC_ALL=C.UTF-8", "chroot", self.root, *command, check=check)

    def install(self, packages):
        for path in packages.values():
            shutil.copy(path, f"{self.root}/tmp")
        return self.run("apt-get", "install", "-q", "-y", "--no-install-recommends",
                        *(f"/tmp/{os.path.basename(path)}" for path in packages.values()))

    def asked_of_systemd(self):
        """What it was to start, restart or stop since the last time."""
        path = f"{self.root}/run/systemctl.log"
        asked = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                asked = file.read().splitlines()
            os.unlink(path)
        return [line for line in asked if re.search("start|stop|kill|reload .*reel", line)]

    def changes(self):
        """Every file and new directory that differs from the machine's."""
        found = set()
        for parent, directories, files in os.walk(self.upper):
            place = parent.removeprefix(self.upper)
            found |= {f"{place}/{name}" for name in files}
            found |= {f"{place}/{name}" for name in directories
                      if not os.path.isdir(f"{place}/{name}")}
        return {path for path in found if not OF_DPKG.match(path)}


@pytest.fixture(scope="module", name="first")
def fixture_first(tmp_path_factory):
    return make_packages(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module", name="second")
def fixture_second(tmp_path_factory, first):
    version = os.path.basename(first["reelfs-mdc"]).split("_")[1]
    return make_packages(tmp_path_factory.mktemp("second"), "--version", version + "+2")


@pytest.fixture(name="host")
def fixture_host(tmp_path):
    assert LIBC.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    run("mount", "--make-rprivate", "/")
    yield Host(tmp_path)
    run("umount", "--lazy", "--recursive", str(tmp_path))


def test_there_are_all_packages_and_lintian_has_no_complaint(first):
    assert set(first) == set(PACKAGES)
    complaints = run("lintian", "--fail-on", "none", "--tag-display-limit", "0", "--allow-root",
                     *first.values())
    assert not re.findall(r"(?m)^[EW]: .*", complaints), complaints


def test_programs_are_stripped(first, tmp_path):
    run("dpkg-deb", "-x", first["reelfs-mdc"], str(tmp_path))
    assert ".debug_info" not in run("readelf", "--sections", f"{tmp_path}/usr/sbin/reel-mdcd")


def test_a_version_that_the_build_is_not_is_refused(tmp_path):
    said = run(f"{TOP}/deploy/package", "--no-install", "--from", BUILD, "--output", str(tmp_path),
               "--version", "99.1", check=False)
    assert re.search(r"(?m)^package: .* is release .*, and not 99\.1; ", said), said
    assert not os.listdir(tmp_path)


def test_installed_upgraded_and_purged(host, first, second):
    host.install(first)
    assert host.has("/etc/systemd/system/multi-user.target.wants/reel-mdcd.service")
    assert not host.asked_of_systemd(), "nothing starts without configuration"
    for program in PROGRAMS:
        assert host.run(program, "--version").split()[0] == program
        assert host.run("man", "-w", program).strip(), program
    for name in os.listdir(f"{host.root}/usr/share/doc/reelfs/examples"):
        assert not host.has(f"/etc/reelfs/{name}"), "an example is no configuration"
    host.run("systemd-analyze", "verify", "/lib/systemd/system/reel-mdcd.service")

    changed = "# changed by hand\n"
    host.write("/etc/needrestart/conf.d/reelfs-mdc.conf", changed)
    configured = ("/etc/reelfs/mdc.toml", "/etc/reelfs/client.toml", "/etc/reelfs/reeladm.toml")
    for path in configured:
        host.write(path, changed)
    said = host.install(second)
    assert "reel-mdcd runs on as before" in said, said
    assert not host.asked_of_systemd(), "what serves goes on"
    for path in (*configured, "/etc/needrestart/conf.d/reelfs-mdc.conf"):
        assert host.read(path) == changed, path
    assert "+2" in host.run("dpkg-query", "-W", *PACKAGES)

    host.run("apt-get", "purge", "-q", "-y", *PACKAGES)
    assert any("stop" in line for line in host.asked_of_systemd())
    assert host.changes() == host.began, "something is left"
    assert "reelfs" not in host.run("dpkg-query", "-W", "reelfs*", check=False).replace(
        "no packages found matching reelfs*", "")


def test_keys_and_certificates_stay_after_a_purge(host, first):
    host.install(first)
    host.write("/etc/reelfs/tls/ca.key", "", mode=0o600)
    host.run("apt-get", "purge", "-q", "-y", *PACKAGES)
    left = host.changes() - host.began
    assert left == {"/etc/reelfs", "/etc/reelfs/tls", "/etc/reelfs/tls/ca.key"}


def test_the_client_is_not_removed_while_a_volume_is_mounted(host, first):
    host.install(first)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    assert LIBC.mount(b"reel", f"{host.root}/mnt".encode(), b"fuse.reelfs", 0, options) == 0
    said = host.run("apt-get", "remove", "-q", "-y", "reelfs-client", check=False)
    assert "reelfs-client: not removed, as volumes are mounted; run: umount /mnt" in said, said
    assert host.has("/usr/sbin/mount.reelfs")
    os.close(fuse)
    run("umount", "--lazy", f"{host.root}/mnt")
    host.run("apt-get", "remove", "-q", "-y", "reelfs-client")
    assert not host.has("/usr/sbin/mount.reelfs")


def test_the_installed_lab_mounts_a_volume(host, first):
    host.install(first)
    lab = ("/tmp/lab", "--clients", "1", "--mdcs", "1", "--luns", "meta=1x256M,data=1x256M")
    host.run("reelfs-lab", "up", "--dir", *lab)
    try:
        host.run("cp", "/usr/share/doc/reelfs/operations.md", "/tmp/lab/ws1/")
        assert "fuse.reelfs" in host.run("findmnt", "-n", "/tmp/lab/ws1")
    finally:
        host.run("reelfs-lab", "down", "--dir", "/tmp/lab")
