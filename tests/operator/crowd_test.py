#!/usr/bin/env python3
"""The operator with a thousand simulated nodes: what it costs, that it rests when nothing changes, and that a rollout keeps
its promises, by what the API server's watch says.

Usage: crowd_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone and tests/kubernetes must be in
PYTHONPATH. TF_CROWD_NODES, TF_CROWD_KILLS and TF_CROWD_REST_S make it smaller, TF_CROWD_BATCH sets the percentage of a batch,
TF_CROWD_RECORD names a file for its figures.
"""
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
import unittest

from operator_process import NAMESPACE, Operator
from support import ClusterTest, condition, give_up_root

BIN = os.path.abspath(sys.argv.pop(1))
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
NODES = int(os.environ.get("TF_CROWD_NODES", "1000"))
KILLS = int(os.environ.get("TF_CROWD_KILLS", "200"))
REST_S = int(os.environ.get("TF_CROWD_REST_S", "60"))
BATCH_PERCENT = int(os.environ.get("TF_CROWD_BATCH", "5"))
MOST_MIB = 60
MOST_OF_A_CORE = 0.2
GROUP = "/apis/tensor-fusion.ai/v1"
HYPERVISORS = "labelSelector=tensor-fusion.ai%2Fcomponent%3Dhypervisor"
REVISION = "tensor-fusion.ai/pod-template-hash"


class PodWatch:
    """The hypervisors' pods as the watch tells of them since mark(): how many nodes have none that is Ready, at worst, and
    which pods somebody has asked to end. (KWOK ends a pod by its name, and now and then once too often: it then takes the next
    pod of that name away, at once and not after its grace period as everybody else.)"""

    def __init__(self, api):
        self.api, self.lock, self.pods, self.nodes = api, threading.Lock(), {}, set()
        self.worst, self.asked = 0, {}
        listed = api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{HYPERVISORS}")
        for pod in listed["items"]:
            self.pods[pod["metadata"]["name"]] = pod
        self.version = listed["metadata"]["resourceVersion"]
        self.connection = http.client.HTTPSConnection("127.0.0.1", self.api._port, context=self.api._context)  # pylint: disable=protected-access
        self.connection.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{HYPERVISORS}&watch=1&allowWatchBookmarks=true"
                                       f"&timeoutSeconds=3600&resourceVersion={self.version}")
        self.socket, self.answer = self.connection.sock, self.connection.getresponse()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        while True:
            try:
                line = self.answer.readline()
            except (OSError, http.client.HTTPException):
                line = b""
            if not line:
                return  # close(), or the server's end: goes_on() tells
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                continue
            if event["type"] == "ERROR":
                raise AssertionError(event)
            pod = event["object"]
            with self.lock:
                name = pod["metadata"]["name"]
                if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
                    self.asked[pod["metadata"]["uid"]] = pod
                if event["type"] == "DELETED":
                    self.pods.pop(name, None)
                else:
                    self.pods[name] = pod
                self.worst = max(self.worst, len(self.nodes - self._ready()))

    def _ready(self):
        return {pod["spec"].get("nodeName") for pod in self.pods.values()
                if "deletionTimestamp" not in pod["metadata"] and condition(pod, "Ready") == "True"}

    def mark(self):
        with self.lock:
            self.nodes, self.worst, self.asked = self._ready(), 0, {}
            return len(self.nodes)

    def revisions(self):
        with self.lock:
            return [pod["metadata"]["labels"][REVISION] for pod in self.pods.values()]

    def goes_on(self):
        return self.thread.is_alive()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.answer.close()
        self.connection.close()


class OperatorTest(ClusterTest):
    nodes, arguments = NODES, ()

    @classmethod
    def setUpClass(cls):
        give_up_root()
        super().setUpClass()

    def setUp(self):
        self.cluster = self.up("operator-crowd", "--profile", "crowd", "--nodes", str(self.nodes))
        self.server = self.api(self.cluster)
        folder = tempfile.TemporaryDirectory(prefix="tf-operator-")
        self.addCleanup(folder.cleanup)
        self.kubeconfig = str(self.cluster.description().kubeconfig)
        self.kubectl(self.cluster, "apply", "--server-side", "-f", str(SOURCE / "charts/tensor-fusion/crds"))
        self.kubectl(self.cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                           {"apiVersion": "v1", "kind": "ServiceAccount",
                            "metadata": {"name": "tensor-fusion-hypervisor-sa", "namespace": NAMESPACE}})
        self.operator = Operator(self, folder.name, *self.arguments)
        self.addCleanup(self.operator.close)
        self.operator.start()

    @staticmethod
    def program(name):
        return os.path.join(BIN, name)

    def wait(self, what, predicate, timeout=300):
        def alive():
            if self.operator.process.poll() not in (None, -9):
                raise AssertionError(f"the operator has ended\n{self.operator.said()}")
            return predicate()
        try:
            return super().wait(what, alive, timeout)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{json.dumps(self.pool().get('status'))}\n{self.operator.said()}") from error

    def pool(self):
        return next(iter(self.server.request("GET", f"{GROUP}/gpupools")["items"]), {})

    def begin(self):
        self.began, self.used, self.asked = time.monotonic(), self.operator.cpu(), self.operator.requests()
        self.requests = self.server_requests()

    def server_requests(self):
        """Requests that the API server has answered, of everybody, watches left out."""
        lines = self.server.request("GET", "/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith("apiserver_request_total{") and 'verb="WATCH"' not in line)

    def say(self, what):
        text = (f"{what}: {time.monotonic() - self.began:.1f} s, operator {self.operator.cpu() - self.used:.1f} s of CPU, "
                f"{self.operator.rss():.1f} MiB, {self.operator.requests() - self.asked} requests; "
                f"of everybody {self.server_requests() - self.requests:.0f} requests")
        print(text, flush=True)
        if os.environ.get("TF_CROWD_RECORD"):
            with open(os.environ["TF_CROWD_RECORD"], "a", encoding="utf-8") as record:
                record.write(text + "\n")

    def apply(self, image):
        cluster = {"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"}, "spec": {"gpuPools": [{
            "name": "all", "specTemplate": {
                "componentConfig": {"hypervisor": {"image": image}},
                "nodeManagerConfig": {
                    "nodeSelector": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "type", "operator": "In", "values": ["kwok"]}]}]},
                    "nodePoolRollingUpdatePolicy": {"autoUpdateHypervisor": True, "batchPercentage": BATCH_PERCENT,
                                                    "batchInterval": "1s"}}}}]}}
        self.server.request("PATCH", f"{GROUP}/tensorfusionclusters/tf?fieldManager=test", cluster, "application/apply-patch+yaml")

    def make_cards(self):
        """One for each GPUNode, as the hypervisors would: those here are simulated, and run nothing."""
        def make(node):
            if not hasattr(local, "api"):
                local.api = self.api(self.cluster)
            api = local.api
            name, meta = f"gpu-{node['metadata']['name']}", node["metadata"]
            api.request("POST", f"{GROUP}/gpus", {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPU", "metadata": {
                "name": name, "labels": {"tensor-fusion.ai/managed-by": meta["name"], "tensor-fusion.ai/gpupool": "tf-all"},
                "ownerReferences": [{"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUNode", "name": meta["name"],
                                     "uid": meta["uid"], "controller": True}]}})
            amount = {"tflops": "312", "vram": "80Gi"}
            api.request("PATCH", f"{GROUP}/gpus/{name}/status", {"status": {
                "phase": "Pending", "vendor": "NVIDIA", "capacity": amount, "available": amount, "uuid": name,
                "nodeSelector": {"kubernetes.io/hostname": meta["name"]}, "gpuModel": "simulated", "message": ""}},
                "application/merge-patch+json")
        local = threading.local()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(make, self.server.request("GET", f"{GROUP}/gpunodes")["items"]))

    def runs(self):
        self.begin()
        self.apply("hypervisor:1")
        self.wait(f"{self.nodes} nodes are in the pool", lambda: self.pool().get("status", {}).get("totalNodes") == self.nodes)
        self.say(f"{self.nodes} nodes in the pool")
        self.make_cards()
        self.wait("all nodes are Running", lambda: self.pool()["status"]["readyNodes"] == self.nodes, 600)
        self.say(f"{self.nodes} hypervisors run, their cards counted in")
        status = self.pool()["status"]
        self.assertEqual(status["totalGPUs"], self.nodes)
        self.assertEqual(status["totalTFlops"].replace("k", "000"), str(312 * self.nodes))
        self.wait("the cluster is Running", lambda: self.server.request("GET", f"{GROUP}/tensorfusionclusters/tf")["status"][
            "phase"] == "Running")

    def rolls_out(self, image, measured=True):
        watch = PodWatch(self.api(self.cluster))
        try:
            self.assertEqual(watch.mark(), self.nodes)
            old = self.pool()["status"]["componentStatus"]["hypervisor"]
            if measured:
                self.begin()
            self.apply(image)
            progress = []

            def done():
                component = self.pool()["status"]["componentStatus"]
                if component["hypervisor"] == old:
                    return False
                if not progress or progress[-1] != component["hypervisorUpdateProgress"]:
                    progress.append(component["hypervisorUpdateProgress"])
                return component["hypervisorConfigSynced"]
            self.wait("the new image is everywhere", done, 900)
            if measured:
                self.say(f"the hypervisor's image changed on {self.nodes} nodes, {BATCH_PERCENT} % at a time")
            self.assertEqual(progress[-1], 100)
            self.assertEqual(progress, sorted(progress))
            new = self.pool()["status"]["componentStatus"]["hypervisor"]
            self.wait("the watch has come as far", lambda: watch.revisions() == [new] * self.nodes, 30)
            self.assertTrue(watch.goes_on())
            with watch.lock:
                asked = [(pod["metadata"]["labels"][REVISION], pod["spec"]["nodeName"]) for pod in watch.asked.values()]
                self.assertEqual({revision for revision, _ in asked}, {old}, self.operator.said())
                self.assertEqual((len(asked), len(set(asked))), (self.nodes, self.nodes), "each node is restarted, once")
                self.assertLessEqual(watch.worst, math.ceil(self.nodes * BATCH_PERCENT / 100))
                print(f"at worst {watch.worst} nodes were without a hypervisor", flush=True)
        finally:
            watch.close()


class OperatorCrowdTest(OperatorTest):
    def test_a_thousand_nodes(self):
        self.runs()
        self.rests()
        self.assertLess(self.operator.rss(), MOST_MIB)

        self.rolls_out("hypervisor:2")
        self.assertLess(self.operator.cpu() - self.used, MOST_OF_A_CORE * (time.monotonic() - self.began))
        self.assertLess(self.operator.rss(), MOST_MIB)

        self.begin()
        self.server.request("DELETE", f"{GROUP}/tensorfusionclusters/tf")
        self.wait("the cluster is gone", lambda: not self.server.request("GET", f"{GROUP}/tensorfusionclusters")["items"], 600)
        self.assertEqual(self.server.request("GET", f"{GROUP}/gpunodes")["items"], [])
        self.say("the cluster and all that was its own is gone")
        self.assertLess(self.operator.rss(), MOST_MIB)

    def rests(self):
        """Nothing changes but the heartbeats of the nodes: nobody is looked at, nothing is written."""
        def steady():
            before = self.operator.reconciles()
            time.sleep(5)  # what is measured is that nothing happens meanwhile
            return before == self.operator.reconciles()
        self.wait("the operator has come to rest", steady, 120)
        before = self.operator.reconciles()
        objects = {kind: self.versions(kind) for kind in ("tensorfusionclusters", "gpupools", "gpunodes", "gpus")}
        self.begin()
        time.sleep(REST_S)
        self.say(f"at rest for {REST_S} s")
        self.assertEqual(before, self.operator.reconciles())
        self.assertEqual(objects, {kind: self.versions(kind) for kind in objects})
        self.assertLess(self.operator.cpu() - self.used, 0.02 * REST_S)

    def versions(self, kind):
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"]
                for item in self.server.request("GET", f"{GROUP}/{kind}")["items"]}


class OperatorKilledTest(OperatorTest):
    """kill -9 at random moments of rollouts: whoever comes after goes on, as if nothing had happened."""
    nodes, arguments = min(NODES, 60), ("--no-leader-elect",)

    def test_killed(self):
        self.runs()
        seed = int(os.environ.get("TF_CROWD_SEED", time.time()))
        print(f"TF_CROWD_SEED={seed}", flush=True)
        moments, kills, image = random.Random(seed), 0, 1
        while kills < KILLS:
            image += 1
            done = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(1) as thread:
                rollout = thread.submit(self.rolls_out, f"hypervisor:{image}", False)
                rollout.add_done_callback(lambda _, done=done: done.set())
                while not done.wait(moments.uniform(0.05, 3)):
                    self.operator.kill()
                    self.operator.start()
                    kills += 1
                rollout.result()
        print(f"killed {kills} times in {image - 1} rollouts", flush=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
