"""A host that begins as a tree of this machine does, this machine's own root or a small Debian's,
and keeps what it changes to itself. As root.

Its mounts are put together for each command, in a mount namespace, and end with it: nothing is to
be cleaned up but a directory.
"""
import os
import subprocess

SECONDS = 2 * 3600
# $1: where its root is put together, $2: of which tree, $3: with its changes, $4: PLACE=PATH
# for each directory of this machine that it has, too, $5: the command.
ENTER = """
mount -t overlay host -o lowerdir="$2",upperdir="$3/upper",workdir="$3/work" "$1"
# Not what is mounted below: volumes of this machine would be in its table of mounts.
for place in dev dev/pts sys; do mount --bind /$place "$1/$place"; done
mount -t proc proc "$1/proc"
for pair in $4; do mkdir -p "$1${pair%%=*}"; mount --bind "${pair#*=}" "$1${pair%%=*}"; done
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
  LANG=C.UTF-8 chroot "$1" sh -ec "$5"
"""


class OverlayHost:
    """`tree`: what it begins as. `directory`: where its changes are (in `upper`). `shared`: place →
    directory of this machine. `inside`: what a command begins with that is to run in a network."""

    def __init__(self, tree, directory, shared=None, inside=()):
        self.tree, self.dir, self.inside = tree, str(directory), list(inside)
        self.shared = " ".join(f"{place}={path}" for place, path in (shared or {}).items())
        self.upper, self.root = f"{directory}/upper", f"{directory}/root"
        for name in ("upper", "work", "root"):
            os.makedirs(f"{directory}/{name}", exist_ok=True)

    def shell(self, script):
        """What it says; AssertionError where it fails."""
        command = [*self.inside, "unshare", "--mount", "--propagation", "private", "sh", "-ec",
                   ENTER, "enter", self.root, self.tree, self.dir, self.shared, script]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS)
        assert done.returncode == 0, f"{script}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def changed_files(self):
        return {f"{parent}/{name}".removeprefix(self.upper)
                for parent, _, files in os.walk(self.upper) for name in files}
