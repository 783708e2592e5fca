#!/usr/bin/env python3
"""A thousand simulated nodes, without root: they become Ready and stay so, and 2,000 pods run on them."""
import time
import unittest

from support import ClusterTest, condition, give_up_root, linux, parts

NODES, PODS = 1000, 2000
STAYS_READY_S = parts.CROWD_GRACE_S + 10


class CrowdTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        give_up_root()
        super().setUpClass()

    def test_a_thousand_nodes_and_two_thousand_pods(self):
        began = time.monotonic()
        cluster = self.up("crowd", "--profile", "crowd", "--nodes", str(NODES))
        api = self.api(cluster)
        ready_at = time.monotonic()
        print(f"{NODES} nodes Ready {ready_at - began:.1f} s after the start", flush=True)

        labels = {"app": "many"}
        processors = lambda: sum(linux.cpu_seconds(cluster.part_process(name))
                                 for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"))
        used = processors()
        created = time.monotonic()
        api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many", "namespace": "default"}, "spec": {
            "replicas": PODS, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [{"name": "main", "image": "simulated:1"}]}}}})
        ready = lambda: api.get("Deployment", "default", "many").get("status", {}).get("readyReplicas", 0)
        self.wait(f"{PODS} pods Ready", lambda: ready() == PODS, 600)
        seconds = time.monotonic() - created
        print(f"{PODS} pods of one Deployment Ready after {seconds:.1f} s ({PODS / seconds:.0f}/s), "
              f"{processors() - used:.1f} s of processor time in all parts", flush=True)

        def not_ready():
            return [node["metadata"]["name"] for node in api.items("Node") if condition(node, "Ready") != "True"]

        def long_enough():
            self.assertEqual(not_ready(), [])
            return time.monotonic() - ready_at > STAYS_READY_S
        self.wait("the time after which a node without a heartbeat is lost", long_enough, 2 * STAYS_READY_S)
        self.assertEqual(ready(), PODS)
        spread = {pod["spec"]["nodeName"] for pod in api.items("Pod", "default")}
        self.assertGreater(len(spread), NODES // 10)  # the scheduler looks at a sample of the nodes for each pod
        print(self.tool("status", "--name", "crowd"), flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
