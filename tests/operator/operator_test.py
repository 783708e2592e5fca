#!/usr/bin/env python3
"""The operator against a real control plane and nodes whose pods are processes: from a TensorFusionCluster to what runs.

Usage: operator_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone must be in PYTHONPATH.
"""
import json
import os
import sys
import tempfile
import unittest

from cluster import Cluster
from operator_process import Operator, await_value, end, install

BIN = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.abspath(sys.argv.pop(1))

cluster = None
operator = None
temporary = None


def setUpModule():
    global cluster, operator, temporary
    temporary = tempfile.TemporaryDirectory(prefix="tf-operator-")
    cluster = Cluster(BIN)
    cluster.up("--nodes", "4", "--gpus-per-node", "A100-80G:2")
    install(cluster, SOURCE)
    operator = Operator(cluster, temporary.name).start()


def tearDownModule():
    end(cluster, operator, temporary)


def pool(name, label, worker="tensorfusion/tensor-fusion-worker:1", **manager):
    return {"name": name, "specTemplate": {
        "componentConfig": {"worker": {"image": worker}, "hypervisor": {"image": "tensorfusion/tensor-fusion-hypervisor:1"}},
        "nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": label, "operator": "Exists"}]}]}, **manager}}}


class Operators(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        self.kubectl("delete", "tensorfusionclusters", "--all", "--timeout=60s")
        self.kubectl("delete", "gpupools", "--all", "--timeout=60s")
        self.kubectl("delete", "gpunodes", "--all", "--timeout=60s")
        self.kubectl("uncordon", "--selector=!never")
        self.kubectl("label", "nodes", "--all", "a-", "b-")

    def kubectl(self, *arguments, **options):
        return cluster.kubectl(*arguments, **options).stdout

    def apply(self, *pools, name="tf", **metadata):
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": name, **metadata},
            "spec": {"gpuPools": list(pools)}}))

    def get(self, *what):
        done = cluster.kubectl("get", *what, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def names(self, kind):
        return sorted(item["metadata"]["name"] for item in self.get(kind)["items"])

    def await_that(self, what, so, limit=60):
        return await_value(so, limit, lambda: f"{what}\n{self.kubectl('get', 'tfc,gp,gn', '-o', 'yaml')}\n{operator.said()}")

    def await_names(self, kind, names):
        self.await_that(f"{kind} are not {names}", lambda: self.names(kind) == names)

    def condition(self, kind, name, type_):
        found = self.get(kind, name) or {}
        return next((one for one in found.get("status", {}).get("conditions", []) if one["type"] == type_), {})

    # Pools. ---------------------------------------------------------------------------------------------------------

    def test_pools_follow_their_cluster(self):
        self.apply(pool("x", "a"), pool("y", "b"), labels={"team": "vision"})
        self.await_names("gpupools", ["tf-x", "tf-y"])
        made = self.get("gpupool", "tf-x")
        self.assertEqual(made["metadata"]["labels"], {"tensor-fusion.ai/managed-by": "tf", "team": "vision"})
        self.assertEqual(made["metadata"]["ownerReferences"][0]["kind"], "TensorFusionCluster")
        self.await_that("the cluster is not Running", lambda: self.get("tfc", "tf")["status"].get("phase") == "Running")
        status = self.get("tfc", "tf")["status"]
        self.assertEqual((status["totalPools"], status["readyGPUPools"]), (2, ["tf-x", "tf-y"]))
        self.assertEqual({one["type"]: one["status"] for one in status["conditions"]},
                         {"Ready": "True", "GPUPoolReady": "True", "TimeSeriesDatabaseReady": "True"})

        # What a person adds to a pool stays; what the cluster says of its spec comes back.
        self.kubectl("label", "gpupool", "tf-x", "mine=yes", "--overwrite", "team=other")
        self.kubectl("annotate", "gpupool", "tf-x", "note=hello", "--overwrite", "tensor-fusion.ai/is-default-pool=true")
        self.kubectl("patch", "gpupool", "tf-x", "--type=merge", "-p", '{"spec":{"defaultUsingLocalGPU":false}}')
        self.await_that("the pool's spec is not the cluster's", lambda: (
            (found := self.get("gpupool", "tf-x")) and "defaultUsingLocalGPU" not in found["spec"] or
            found["spec"]["defaultUsingLocalGPU"] is True))
        self.await_that("the annotation does not come back", lambda: self.get("gpupool", "tf-x")["metadata"]["annotations"][
            "tensor-fusion.ai/is-default-pool"] == "false")
        metadata = self.get("gpupool", "tf-x")["metadata"]
        self.assertEqual((metadata["labels"]["mine"], metadata["labels"]["team"], metadata["annotations"]["note"]),
                         ("yes", "other", "hello"))

        # A change reaches its pool and no other.
        before = self.get("gpupool", "tf-y")["metadata"]
        self.apply(pool("x", "a", worker="tensorfusion/tensor-fusion-worker:2"), pool("y", "b"), labels={"team": "vision"})
        self.await_that("the new image is not in the pool", lambda: self.get("gpupool", "tf-x")["spec"]["componentConfig"][
            "worker"]["image"].endswith(":2"))
        after = self.get("gpupool", "tf-y")["metadata"]
        self.assertEqual((after["generation"], after["uid"]), (before["generation"], before["uid"]))

        # Deleted by hand: made again. Taken out of the cluster: gone.
        uid = self.get("gpupool", "tf-x")["metadata"]["uid"]
        self.kubectl("delete", "gpupool", "tf-x", "--timeout=60s")
        self.await_that("the pool is not made again", lambda: (
            (found := self.get("gpupool", "tf-x")) and found["metadata"]["uid"] != uid))
        self.apply(pool("y", "b"), labels={"team": "vision"})
        self.await_names("gpupools", ["tf-y"])
        self.kubectl("delete", "tfc", "tf", "--timeout=60s")
        self.assertEqual(self.names("gpupools"), [])

    def test_nothing_is_written_while_nothing_changes(self):
        """Also of values that upstream writes again and again."""
        odd = pool("odd", "a")
        odd["specTemplate"]["capacityConfig"] = {"oversubscription": {"vramExpandToHostMem": 0, "vramExpandToHostDisk": 0}}
        odd["specTemplate"]["componentConfig"]["hypervisor"]["enableVector"] = False
        odd["specTemplate"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"] = {"batchPercentage": 50, "paused": False}
        self.apply(odd, {"name": "bare", "specTemplate": {"nodeManagerConfig": {}}})
        self.await_that("the cluster is not Running", lambda: self.get("tfc", "tf")["status"].get("phase") == "Running")

        def versions():
            return [item["metadata"]["resourceVersion"] for kind in ("tfc", "gpupools") for item in self.get(kind)["items"]]

        seen = versions()
        # Each of these wakes the operator, and the last one is answered after all that came before it.
        for i in range(5):
            self.kubectl("annotate", "tfc", "tf", f"note={i}", "--overwrite")
        self.kubectl("label", "gpupool", "tf-bare", "tensor-fusion.ai/managed-by-")
        self.await_that("the label does not come back", lambda: self.get("gpupool", "tf-bare")["metadata"]["labels"].get(
            "tensor-fusion.ai/managed-by") == "tf")
        now = versions()
        self.assertEqual([a == b for a, b in zip(seen, now)], [False, False, True], (seen, now))

    def test_one_bad_pool_stops_no_other(self):
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": "tf-taken"},
            "spec": {"nodeManagerConfig": {}}}))
        self.apply(pool("taken", "a"), pool("x" * 60, "a"), pool("good", "b"))
        self.await_that("the good pool is not there", lambda: "tf-good" in self.names("gpupools"))
        self.await_that("the bad ones are not named", lambda: "label of nodes" in self.condition("tfc", "tf", "Ready").get(
            "message", ""))
        self.assertIn("tf-taken: a GPUPool of this name is there", self.condition("tfc", "tf", "Ready")["message"])
        self.await_that("the good pool is not ready", lambda: self.get("tfc", "tf")["status"]["readyGPUPools"] == ["tf-good"])
        # Handed over, it is the cluster's.
        self.kubectl("label", "gpupool", "tf-taken", "tensor-fusion.ai/managed-by=tf")
        self.await_that("the pool is not taken over", lambda: self.get("gpupool", "tf-taken")["metadata"].get(
            "ownerReferences"))

    def test_pools_of_one_name(self):
        """Two clusters want a pool of the same name: the first has it, the second gets it when the first lets go."""
        self.apply(pool("b-c", "a"), name="a")
        self.await_names("gpupools", ["a-b-c"])
        self.apply(pool("c", "b"), name="a-b")
        self.await_that("the second says nothing", lambda: "is there that the cluster did not make" in self.condition(
            "tfc", "a-b", "Ready").get("message", ""))
        self.kubectl("delete", "tfc", "a", "--timeout=60s")
        self.await_that("the second does not get it", lambda: (
            (found := self.get("gpupool", "a-b-c")) and
            found["metadata"]["labels"]["tensor-fusion.ai/managed-by"] == "a-b"))

    def test_manifests_of_every_kind(self):
        """With every field that there is; the operator goes on, whatever they say."""
        folder = os.path.join(SOURCE, "src/api/testdata")
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name != "core.yaml"]
        for file in files:
            self.kubectl("apply", "--validate=ignore", "-f", file)
        self.await_that("not all pools are made", lambda: {"tensor-fusion-shared", "everything-mixed"} <= set(self.names("gpupools")))
        for file in files:
            self.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", file)
        self.await_that("something is left", lambda: not self.names("tfc") and not self.names("gpupools"))
        self.assertIsNone(operator.process.poll(), operator.said())

    # Nodes. ---------------------------------------------------------------------------------------------------------

    def test_nodes_are_found_and_lost(self):
        self.kubectl("label", "node", "node-0", "node-1", "a=1")
        self.kubectl("cordon", "node-2")
        self.kubectl("label", "node", "node-2", "a=1")
        self.apply(pool("x", "a"))
        self.await_names("gpunodes", ["node-0", "node-1"])
        found = self.get("gpunode", "node-0")["metadata"]
        self.assertEqual(found["labels"], {"tensor-fusion.ai/managed-by": "tf-x", "tensor-fusion.ai/pool-tf-x": "true",
                                           "tensor-fusion.ai/hardware-vendor": "NVIDIA"})
        self.assertEqual((found["ownerReferences"][0]["kind"], found["ownerReferences"][0]["name"]), ("GPUPool", "tf-x"))
        self.await_that("the node has no vendor", lambda: self.get("node", "node-0")["metadata"]["labels"].get(
            "tensor-fusion.ai/hardware-vendor") == "NVIDIA")
        self.await_that("the pool does not count its nodes", lambda: self.get("gpupool", "tf-x")["status"]["totalNodes"] == 2)

        # A cordoned node is taken once it no longer is; one that is there stays when it becomes one.
        self.kubectl("cordon", "node-0")
        self.kubectl("uncordon", "node-2")
        self.await_names("gpunodes", ["node-0", "node-1", "node-2"])
        self.kubectl("label", "node", "node-1", "a-")
        self.await_names("gpunodes", ["node-0", "node-2"])
        self.await_that("the vendor stays", lambda: "tensor-fusion.ai/hardware-vendor" not in self.get("node", "node-1")[
            "metadata"]["labels"])
        # Deleted by hand: found again.
        uid = self.get("gpunode", "node-2")["metadata"]["uid"]
        self.kubectl("delete", "gpunode", "node-2", "--timeout=60s")
        self.await_that("the GPUNode does not come back", lambda: (
            (again := self.get("gpunode", "node-2")) and again["metadata"]["uid"] != uid))
        self.kubectl("uncordon", "node-0")
        # A node that is gone.
        self.kubectl("label", "node", "node-3", "a=1")
        self.await_names("gpunodes", ["node-0", "node-2", "node-3"])
        self.kubectl("delete", "node", "node-3")
        self.await_names("gpunodes", ["node-0", "node-2"])

    def test_a_node_changes_its_pool(self):
        self.kubectl("label", "node", "node-0", "a=1", "b=1")
        self.apply(pool("x", "a"))
        self.await_names("gpunodes", ["node-0"])
        # A pool that comes later takes nothing away.
        self.apply(pool("x", "a"), pool("w", "b", defaultVendor="AMD"))
        self.await_names("gpupools", ["tf-w", "tf-x"])
        self.kubectl("label", "node", "node-1", "b=1")
        self.await_names("gpunodes", ["node-0", "node-1"])
        self.assertEqual(self.get("gpunode", "node-0")["metadata"]["labels"]["tensor-fusion.ai/managed-by"], "tf-x")
        # When its own does not match any more, the other has it.
        self.kubectl("label", "node", "node-0", "a-")
        self.await_that("the node does not change its pool", lambda: (
            (found := self.get("gpunode", "node-0")) and
            found["metadata"]["labels"]["tensor-fusion.ai/managed-by"] == "tf-w" and
            found["metadata"]["labels"]["tensor-fusion.ai/hardware-vendor"] == "AMD"))

    def test_selectors_by_vendor(self):
        self.kubectl("label", "node", "node-0", "node-1", "a=1")
        one = pool("x", "a")
        one["specTemplate"]["nodeManagerConfig"]["multiVendorNodeSelector"] = {
            "AMD": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
            "Intel": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Gt", "values": ["3"]}]}]}}
        self.apply(one)
        self.await_names("gpunodes", ["node-1"])
        self.kubectl("label", "node", "node-0", "b=4")
        self.await_names("gpunodes", ["node-0", "node-1"])
        self.assertEqual(self.get("gpunode", "node-0")["metadata"]["labels"]["tensor-fusion.ai/hardware-vendor"], "Intel")

    # Ends. ----------------------------------------------------------------------------------------------------------

    def test_a_pool_ends_in_any_order_of_its_parts(self):
        self.kubectl("label", "node", "node-0", "node-1", "node-2", "a=1")
        self.apply(pool("x", "a"))
        self.await_names("gpunodes", ["node-0", "node-1", "node-2"])
        self.kubectl("delete", "gpunode", "node-0", "--wait=false")
        self.kubectl("delete", "gpupool", "tf-x", "--wait=false")
        self.kubectl("delete", "gpunode", "node-1", "--wait=false", "--ignore-not-found")
        self.kubectl("delete", "tfc", "tf", "--timeout=60s")
        self.assertEqual(self.names("gpunodes") + self.names("gpupools"), [])

        # The parts first, then what owns them; and the other way round, without anybody to look after them meanwhile.
        for order in (["gpunodes", "gpupools", "tfc"], ["tfc", "gpupools", "gpunodes"]):
            self.apply(pool("x", "a"))
            self.await_names("gpunodes", ["node-0", "node-1", "node-2"])
            operator.stop()
            for kind in order:
                self.kubectl("delete", kind, "--all", "--wait=false")
            operator.start()
            self.await_that("something is left", lambda: not self.names("tfc") and not self.names("gpupools") and
                            not self.names("gpunodes"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
