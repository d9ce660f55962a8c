"""`deploy/package` on a Debian 12 that has nothing, and its packages on another one.

Both are a minimal system by mmdebstrap: one gets a clone of this checkout (of what is committed),
the other one the packages alone. REEL_LONG=1, as root; takes Debian's archive and, where the cache
of objects (ccache) is cold, an hour.
"""
import os
import re
import shutil
import subprocess

import pytest

from overlay_host import OverlayHost

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUITE = "bookworm"
ARCHIVE = (f"deb http://deb.debian.org/debian {SUITE} main",
           f"deb http://deb.debian.org/debian {SUITE}-updates main",
           f"deb http://deb.debian.org/debian-security {SUITE}-security main")
CACHE = os.path.expanduser("~/.cache/ccache")
# What dpkg, apt, their triggers and libraries keep for themselves: also accounts, which a purge of
# their packages leaves in Debian.
KEPT = re.compile(r"/(var/(lib/(dpkg|apt|systemd)|cache|log)|etc/(ld\.so\.cache|mtab)|tmp|run)\b|"
                  r"/etc/(\.pwd\.lock|(passwd|group|g?shadow|sub[ug]id)-?)$")


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """A directory with a bare Debian in `bare`."""
    if not os.environ.get("REEL_LONG"):
        pytest.skip("takes minutes, and Debian's archive: REEL_LONG=1")
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("takes root, and mmdebstrap: deploy/install-deps machines")
    # Beside other large things: /tmp may be in memory.
    place = run("mktemp", "-d", "-p", "/var/tmp", "reelfs-bare-XXXXXX").strip()
    run("mmdebstrap", "--mode=root", "--variant=minbase", SUITE, f"{place}/bare", *ARCHIVE)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module", name="builder")
def fixture_builder(place):
    os.makedirs(CACHE, exist_ok=True)
    host = OverlayHost(f"{place}/bare", f"{place}/builder", {"/root/.cache/ccache": CACHE})
    # By the same path as here: objects in the cache are known by it.
    run("git", "clone", "-q", TOP, f"{host.upper}{TOP}")
    host.said = host.shell(f"cd {TOP}; deploy/package --output /packages")
    return host


def test_one_command_makes_all_packages_and_lintian_has_no_complaint(builder):
    made = re.findall(r"(?m)^[\d.]+[KM]\s+/packages/(reelfs-[a-z]+)_\S+\.deb$", builder.said)
    assert made == ["reelfs-client", "reelfs-lab", "reelfs-mdc", "reelfs-tools"], builder.said
    said = builder.shell("apt-get -q install -y --no-install-recommends lintian >/dev/null 2>&1\n"
                         "lintian --fail-on error,warning --allow-root /packages/*.deb")
    assert not re.findall(r"(?m)^[EW]: .*", said), said


def test_packages_bring_what_they_need_and_a_purge_takes_it_away(place, builder):
    host = OverlayHost(f"{place}/bare", f"{place}/user",
                       {"/packages": f"{builder.upper}/packages"})
    host.shell("apt-get -q update; apt-get -q install -y --no-install-recommends "
               "$(ls /packages/*.deb | grep -v dbgsym)")
    for program in ("reel-mdcd", "mount.reelfs", "mkfs.reelfs", "fsck.reelfs", "reel-label",
                    "reeladm", "reel-bench"):
        assert host.shell(f"{program} --version").split()[0] == program
    host.shell("apt-get -q purge -y --auto-remove 'reelfs-*'")
    assert "reelfs" not in host.shell("dpkg-query -W -f '${Package}\\n'")
    assert "reel" not in host.shell("cat /etc/passwd /etc/group")
    left = sorted(path for path in host.changed_files() if not KEPT.match(path))
    assert left == []
