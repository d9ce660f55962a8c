"""POSIX, call by call: names, permissions, errnos, modes and times, beside a local file system."""
import os
import shutil
import tempfile

import pytest

import posix_corners
import posix_data
import posix_names
import posix_permissions
import posix_rights
import posix_sizes
from twin import differences, tell

STORIES = [story for module in (posix_names, posix_permissions, posix_sizes, posix_data,
                                posix_corners, posix_rights)
           for story in vars(module).values()
           if getattr(story, "__module__", "") == module.__name__
           and story.__code__.co_varnames[:story.__code__.co_argcount] == ("t",)]


@pytest.fixture(scope="module")
def reference():
    """A directory of a local file system, as far as possible not tmpfs."""
    made = tempfile.mkdtemp(prefix="reelfs-posix-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_as_a_local_file_system(cluster, reference, story):
    local = os.path.join(reference, story.__name__)
    mounted = os.path.join(cluster.ws1, story.__name__)
    os.mkdir(local)
    os.mkdir(mounted)
    found = differences(tell(story, local), tell(story, mounted))
    assert not found, f"{story.__name__}: the mount differs:\n{found[:6000]}"
