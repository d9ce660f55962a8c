"""LUNs leave a volume, take others' places and come back, while programs use its files."""
from cluster import until
from test_jobs import MIB, Worker, digest, finish, kill_active, pool_of, start, write_in_pieces

CLUSTER = {"mdcs": 2, "luns": "meta=1x512M,data=2x512M"}


def test_a_lun_is_removed_another_replaced_and_one_added(cluster, room):
    """While their files are in use, with a kill of a controller each time."""
    one, two = room
    written = {name: write_in_pieces(f"{one}/{name}", 24 * MIB, seed)
               for seed, name in enumerate(("a", "b", "c"))}
    worker = Worker(f"{two}/worker", seed=11)
    worker.start()
    before = pool_of(cluster, "data")
    first, second = before["luns"][:2]

    def changes(*words):
        """A job that moves all files; how the pool is then."""
        number = start(cluster, *words)
        kill_active(cluster)
        done = finish(cluster, number)
        assert done["state"] == "done" and done["moved_bytes"] >= 72 * MIB, done
        until(lambda: cluster.alarms() == [])
        assert {name: digest(f"{two}/{name}") for name in written} == written
        pool = pool_of(cluster, "data")
        return pool, {lun["path"] for lun in pool["luns"]}

    after, paths = changes("lun", "remove", second["name"])
    assert paths == {first["path"]} and after["total_bytes"] == before["total_bytes"] // 2
    after, paths = changes("lun", "replace", first["name"], second["path"])
    assert paths == {second["path"]} and after["total_bytes"] == before["total_bytes"] // 2
    cluster.reeladm("lun", "add", "data", first["path"])
    until(lambda: pool_of(cluster, "data")["total_bytes"] > after["total_bytes"])
    balanced = finish(cluster, start(cluster, "rebalance", "data"))
    assert balanced["state"] == "done" and balanced["moved_bytes"] > 0, balanced
    content = worker.stop()
    assert digest(f"{one}/worker") == content
    assert {name: digest(f"{one}/{name}") for name in written} == written
