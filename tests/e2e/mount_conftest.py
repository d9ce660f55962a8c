"""Fixtures for stories of a mount on a host that has a mount of a volume, and nothing else.

It is conftest.py there. REEL_ROOM is a directory of the volume; where a story looks through two
mounts, both are this one.
"""
import os

import pytest

# They see that one host's changes are another one's news, or know how large the volume is.
OF_TWO = ("test_a_single_writer", "test_an_inode_removed_elsewhere_is_stale", "test_statfs")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in OF_TWO:
            item.add_marker(pytest.mark.skip("here is one mount"))


class MountAlone:
    """What a cluster is to its tests, as far as a mount goes."""

    def __init__(self, mount, scratch):
        self.ws1 = self.ws2 = mount
        self.mounts, self.scratch = [mount, mount], scratch

    def __getattr__(self, name):
        pytest.skip(f"here is a mount alone, without a cluster's {name}")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    return MountAlone(os.environ["REEL_ROOM"], str(tmp_path_factory.mktemp("scratch")))


@pytest.fixture
def room(cluster, request):
    """An empty directory of the volume for one test, as seen through either mount."""
    path = os.path.join(cluster.ws1, request.node.name)
    os.mkdir(path)
    return path, path
