"""`deploy/package` on a Debian 12 that has nothing, and its packages on another one.

Both are a minimal system by mmdebstrap, entered by chroot: one gets a clone of this checkout (of
what is committed), the other one the packages alone. REEL_LONG=1, as root; takes Debian's archive
and, where the cache of objects (ccache) is cold, an hour.
"""
import os
import re
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUITE = "bookworm"
ARCHIVE = (f"deb http://deb.debian.org/debian {SUITE} main",
           f"deb http://deb.debian.org/debian {SUITE}-updates main",
           f"deb http://deb.debian.org/debian-security {SUITE}-security main")
CACHE = os.path.expanduser("~/.cache/ccache")
SECONDS = 2 * 3600
# What dpkg, apt, their triggers and the machine's own programs keep for themselves.
KEPT = re.compile(r"/(var/(lib/(dpkg|apt|systemd)|cache|log)|etc/(ld\.so\.cache|mtab)|tmp|run|root)\b")
# $1: where the host's root is put together, of what is bare ($2) and what it has changed ($3).
ENTER = """
mount -t overlay host -o lowerdir="$2",upperdir="$3/upper",workdir="$3/work" "$1"
for place in dev sys; do mount --rbind /$place "$1/$place"; done
mount -t proc proc "$1/proc"
mkdir -p "$1/root/.cache/ccache"; mount --bind "$4" "$1/root/.cache/ccache"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
  LC_ALL=C.UTF-8 chroot "$1" sh -ec "$5"
"""


def run(*command, seconds=SECONDS):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command)[:200]}: {done.stdout[-4000:]}"
    return done.stdout


class Host:
    """Begins as the bare system does; what it changes is in `upper`. Its mounts end with each
    command."""

    def __init__(self, bare, directory):
        self.bare, self.dir = bare, str(directory)
        self.upper, self.root = f"{directory}/upper", f"{directory}/root"
        for name in ("upper", "work", "root"):
            os.makedirs(f"{directory}/{name}")

    def sh(self, script):
        return run("unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, "enter",
                   self.root, self.bare, self.dir, CACHE, script)

    def changes(self):
        """Every file that differs from the bare system's."""
        found = {f"{parent}/{name}".removeprefix(self.upper)
                 for parent, _, files in os.walk(self.upper) for name in files}
        return sorted(path for path in found if not KEPT.match(path))


@pytest.fixture(scope="module", name="bare")
def fixture_bare(tmp_path_factory):
    if not os.environ.get("REEL_LONG"):
        pytest.skip("takes minutes, and Debian's archive: REEL_LONG=1")
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("takes root, and mmdebstrap: deploy/install-deps machines")
    os.makedirs(CACHE, exist_ok=True)
    # Beside the other large things: /tmp may be in memory.
    place = run("mktemp", "-d", "-p", "/var/tmp", "reelfs-bare-XXXXXX").strip()
    run("mmdebstrap", "--mode=root", "--variant=minbase", "--include=ca-certificates", SUITE,
        f"{place}/bare", *ARCHIVE)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module", name="builder")
def fixture_builder(bare):
    host = Host(f"{bare}/bare", f"{bare}/builder")
    os.makedirs(f"{host.upper}/root")
    run("git", "clone", "-q", TOP, f"{host.upper}/root/reelfs")
    host.said = host.sh("cd /root/reelfs; deploy/package --output /root/packages")
    return host


def test_one_command_makes_all_packages_and_lintian_has_no_complaint(builder):
    made = re.findall(r"(?m)^[\d.]+[KM]\t/root/packages/(reelfs-[a-z]+)_\S+\.deb$", builder.said)
    assert {"reelfs-client", "reelfs-lab", "reelfs-mdc", "reelfs-tools"} <= set(made), builder.said
    said = builder.sh("apt-get -q install -y --no-install-recommends lintian >/dev/null 2>&1\n"
                      "lintian --fail-on error,warning --allow-root /root/packages/*.deb")
    assert not re.findall(r"(?m)^[EW]: .*", said), said


def test_packages_bring_what_they_need_and_a_purge_takes_it_away(bare, builder):
    host = Host(f"{bare}/bare", f"{bare}/user")
    shutil.copytree(f"{builder.upper}/root/packages", f"{host.upper}/root/packages")
    host.sh("rm /root/packages/*-dbgsym_*; apt-get -q update\n"
            "apt-get -q install -y --no-install-recommends /root/packages/*.deb")
    for program in ("reel-mdcd", "mount.reelfs", "mkfs.reelfs", "fsck.reelfs", "reel-label",
                    "reeladm", "reel-bench"):
        assert host.sh(f"{program} --version").split()[0] == program
    host.sh("apt-get -q purge -y --auto-remove 'reelfs-*'")
    assert "reelfs" not in host.sh("dpkg-query -W -f '${Package}\\n'")
    assert host.changes() == []
