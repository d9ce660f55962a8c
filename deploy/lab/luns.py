"""The LUNs of a cluster: here, sparse image files in DIR/luns, labelled by reel-label.

Another kind of LUN (iSCSI targets) is another class with the same four methods.
"""
import os
import shutil
import subprocess

from process import LabError
from spec import format_size


def run_program(command):
    """Runs one of ReelFS's tools; its words become the error."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise LabError(f"{' '.join(command)}: {words}")


class ImageLuns:
    def __init__(self, directory, spec):
        self.dir, self.spec = os.path.join(directory, "luns"), spec

    def pattern(self):
        """What daemons and tools are told to look through."""
        return os.path.join(self.dir, "*.img")

    def make(self):
        """Labelled LUNs, from nothing: what an interrupted attempt left is taken away."""
        self.remove()
        os.makedirs(self.dir)
        for pool in self.spec.pools:
            for name in pool.lun_names():
                run_program([self.spec.program("reel-label"), "write", name,
                             os.path.join(self.dir, name + ".img"),
                             "--size", format_size(pool.size_bytes)])

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def exist(self):
        return os.path.isdir(self.dir)
