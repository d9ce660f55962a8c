"""The LUNs of a cluster, labelled by reel-label: image files in DIR/luns, sparse or not, named to
the hosts either as they are or, behind a target, by iscsi:// URLs.
"""
import os
import shutil
import subprocess

from network import HUB
from process import LabError

ZEROS = bytes(1 << 20)


def make_image(path, size_bytes, allocated):
    """A file of zeros; `allocated`: each of its blocks has been written once, as a disk's have."""
    with open(path, "wb", buffering=0) as image:
        image.truncate(size_bytes)
        for offset in range(0, size_bytes if allocated else 0, len(ZEROS)):
            image.write(ZEROS[:size_bytes - offset])
        os.fsync(image.fileno())


def run_program(command, inside=()):
    """Runs one of ReelFS's tools (`inside`: network.py); its words become the error."""
    done = subprocess.run([*inside, *command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise LabError(f"{' '.join(command)}: {words}")


class ImageLuns:
    def __init__(self, directory, spec):
        self.dir, self.spec = os.path.join(directory, "luns"), spec

    def patterns(self):
        """What daemons and tools are told to look through."""
        return [os.path.join(self.dir, "*.img")]

    def image(self, name):
        return os.path.join(self.dir, name + ".img")

    def names(self):
        return [name for pool in self.spec.pools for name in pool.lun_names()]

    def make(self):
        """Labelled LUNs, from nothing: what an interrupted attempt left is taken away."""
        self.make_images()
        for name in self.names():
            run_program([self.spec.program("reel-label"), "write", name, self.image(name)])

    def make_images(self):
        self.remove()
        os.makedirs(self.dir)
        for pool in self.spec.pools:
            for name in pool.lun_names():
                self.make_image(self.image(name), pool.size_bytes)

    def make_image(self, path, size_bytes):
        make_image(path, size_bytes, self.spec.allocated)

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def exist(self):
        return os.path.isdir(self.dir)


class IscsiLuns(ImageLuns):
    """The same images, behind `target` (target.py)."""

    def __init__(self, directory, spec, target):
        super().__init__(directory, spec)
        self.target = target

    def patterns(self):
        return [self.target.url(number) for number in range(1, len(self.names()) + 1)]

    def make(self):
        self.make_images()
        for host in self.target.cluster.san:
            host.start()
        for name, url in zip(self.names(), self.patterns()):
            run_program([self.spec.program("reel-label"), "write", name, url],
                        self.target.cluster.network.inside(HUB))

    def remove(self):
        for host in reversed(self.target.cluster.san):
            host.stop()
        super().remove()
