"""A revoked host on LUNs that can fence: its key is taken off them, too."""
import pytest

import test_certificates

CLUSTER = {"tls": True, "lun_backend": "iscsi", "luns": "meta=1x1G,data=2x512M"}


@pytest.mark.seconds(180)
def test_a_revoked_host_is_cut_off_the_luns(cluster, room):
    def check_evicted(session):
        owners = [key["owner"] for lun in cluster.reeladm("reservations")["luns"]
                  for key in lun["keys"]]
        assert owners and all(f"session {session} of" not in owner for owner in owners), owners

    test_certificates.shut_out_and_let_in_again(cluster, room, check_evicted)
