#!/usr/bin/env python3
"""The operator with a thousand simulated nodes and hypervisor, worker and an application with a client on each: what it costs,
that it rests when nothing changes, and that a rollout keeps its promises, by what the API server's watch says.

Usage: crowd_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone and tests/kubernetes must be in
PYTHONPATH. TF_CROWD_NODES, TF_CROWD_KILLS and TF_CROWD_REST_S make it smaller, TF_CROWD_BATCH sets the percentage of a batch,
TF_CROWD_COMPONENTS=hypervisor leaves out workers and applications, TF_CROWD_RECORD names a file for its figures.
"""
import collections
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import re
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
POOL = "tf-all"
APPS = "apps"
PODS = f"labelSelector=tensor-fusion.ai%2Fgpupool%3D{POOL}"
REVISION = "tensor-fusion.ai/pod-template-hash"
COMPONENT = "tensor-fusion.ai/component"
COMPONENTS = ("hypervisor", "worker", "client")
MEASURED = tuple(os.environ.get("TF_CROWD_COMPONENTS", ",".join(COMPONENTS)).split(","))


class PodWatch:
    """The pods of all components as the watch tells of them since mark(): how many nodes have none that is Ready, at worst, and
    which pods somebody has asked to end, in this order. (KWOK ends a pod by its name, and now and then once too often: it then
    takes the next pod of that name away, at once and not after its grace period as everybody else.)"""

    def __init__(self, api):
        self.lock, self.pods, self.ready, self.events = threading.Lock(), {}, {one: {} for one in COMPONENTS}, 0
        self.nodes, self.worst, self.down = {one: set() for one in COMPONENTS}, {}, {}
        self.asked, self.known, self.together = [], set(), 0
        listed = api.request("GET", f"/api/v1/pods?{PODS}")
        for pod in listed["items"]:
            self._put(pod)
        self.connection = http.client.HTTPSConnection("127.0.0.1", api._port, context=api._context)  # pylint: disable=protected-access
        self.connection.request("GET", f"/api/v1/pods?{PODS}&watch=1&allowWatchBookmarks=true&timeoutSeconds=7200"
                                       f"&resourceVersion={listed['metadata']['resourceVersion']}")
        self.socket, self.answer = self.connection.sock, self.connection.getresponse()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    @staticmethod
    def component(pod):
        return pod["metadata"]["labels"].get(COMPONENT, "client")

    def _put(self, pod, gone=False):
        uid, component, node = pod["metadata"]["uid"], self.component(pod), pod["spec"].get("nodeName")
        if gone:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = {"component": component, "revision": pod["metadata"]["labels"][REVISION]}
        if node is None:
            return
        ready = self.ready[component].setdefault(node, set())
        if not gone and "deletionTimestamp" not in pod["metadata"] and condition(pod, "Ready") == "True":
            ready.add(uid)
        else:
            ready.discard(uid)
        if node in self.nodes[component]:
            if ready:
                self.down[component].discard(node)
            else:
                self.down[component].add(node)
            self.worst[component] = max(self.worst[component], len(self.down[component]))
        if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0 and uid not in self.known:
            self.known.add(uid)
            self.asked.append((component, pod["metadata"]["labels"][REVISION], node))
            if any(node in self.down[other] for other in COMPONENTS if other != component and other in self.down):
                self.together += 1

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
            with self.lock:
                self.events += 1
                self._put(event["object"], event["type"] == "DELETED")

    def mark(self):
        """{component: nodes with a Ready pod}."""
        with self.lock:
            self.nodes = {one: {node for node, pods in self.ready[one].items() if pods} for one in COMPONENTS}
            self.worst, self.down = {one: 0 for one in COMPONENTS}, {one: set() for one in COMPONENTS}
            self.asked, self.known, self.together = [], set(), 0
            return {one: len(self.nodes[one]) for one in COMPONENTS}

    def revisions(self, component):
        with self.lock:
            return collections.Counter(pod["revision"] for pod in self.pods.values() if pod["component"] == component)

    def goes_on(self):
        return self.thread.is_alive()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.answer.close()
        self.connection.close()


class Quiet:
    """The operator's CPU while no pod changes, in pieces of a quarter of a second: what it costs outside the edges of batches."""

    def __init__(self, operator, watch):
        self.operator, self.watch, self.stopped = operator, watch, threading.Event()
        self.seconds = self.cpu = 0.0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        now = lambda: (time.monotonic(), self.operator.cpu(), self.watch.events)
        before = now()
        while not self.stopped.wait(0.25):
            after = now()
            if after[2] == before[2]:
                self.seconds += after[0] - before[0]
                self.cpu += after[1] - before[1]
            before = after

    def close(self):
        self.stopped.set()
        self.thread.join()


class OperatorTest(ClusterTest):
    nodes, components = NODES, MEASURED

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
                           {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPS}},
                           {"apiVersion": "v1", "kind": "ServiceAccount",
                            "metadata": {"name": "tensor-fusion-hypervisor-sa", "namespace": NAMESPACE}})
        self.operator = Operator(self, folder.name, "--no-leader-elect")
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
        """Requests that the API server has answered, of everybody, by what was asked for; watches left out."""
        counted = collections.Counter()
        for line in self.server.request("GET", "/metrics").splitlines():
            if line.startswith("apiserver_request_total{"):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
                if labels["verb"] != "WATCH":
                    what = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                    counted[f"{labels['verb']} {what}"] += int(float(line.rsplit(" ", 1)[1]))
        return counted

    def say(self, what):
        requests = self.server_requests() - self.requests
        text = (f"{what}: {time.monotonic() - self.began:.1f} s, operator {self.operator.cpu() - self.used:.1f} s of CPU, "
                f"{self.operator.rss():.1f} MiB, {self.operator.requests() - self.asked} requests; "
                f"of everybody {sum(requests.values())} requests: "
                + ", ".join(f"{count} {what}" for what, count in requests.most_common(24)))
        self.tell(text)

    @staticmethod
    def tell(text):
        print(text, flush=True)
        if os.environ.get("TF_CROWD_RECORD"):
            with open(os.environ["TF_CROWD_RECORD"], "a", encoding="utf-8") as record:
                record.write(text + "\n")

    def apply(self, version, auto=True):
        images = {one: {"image": f"{one}:{version}"} for one in self.components}
        if "worker" in images:
            images["worker"]["podTemplate"] = {"template": {"spec": {
                "topologySpreadConstraints": [{  # one on each node
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {COMPONENT: "worker"}}}],
                "containers": [{"name": "tensorfusion-worker"}]}}}
        policy = {f"autoUpdate{one.capitalize()}": auto for one in COMPONENTS}
        cluster = {"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"}, "spec": {"gpuPools": [{
            "name": "all", "specTemplate": {
                "componentConfig": images,
                "nodeManagerConfig": {
                    "nodeSelector": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "type", "operator": "In", "values": ["kwok"]}]}]},
                    "nodePoolRollingUpdatePolicy": {**policy, "batchPercentage": BATCH_PERCENT, "batchInterval": "1s"}}}}]}}
        self.server.request("PATCH", f"{GROUP}/tensorfusionclusters/tf?fieldManager=test", cluster, "application/apply-patch+yaml")

    def apply_application(self, revision):
        """An application with a client on each node. Its label is what admission would set; nothing of it restarts by itself."""
        labels = {"app": "all", "tensor-fusion.ai/enabled": "true", "tensor-fusion.ai/gpupool": POOL, REVISION: revision}
        application = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "all", "namespace": APPS}, "spec": {
            "selector": {"matchLabels": {"app": "all"}}, "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": "application:1"}]}}}}
        path = f"/apis/apps/v1/namespaces/{APPS}/daemonsets/all"
        self.server.request("PATCH", f"{path}?fieldManager=test", application, "application/apply-patch+yaml")

        def status():
            application = self.server.request("GET", path)
            return application.get("status", {}) if (
                application.get("status", {}).get("observedGeneration") == application["metadata"]["generation"]) else {}
        self.wait("every node has the application", lambda: status().get("numberReady") == self.nodes, 600)

    def component_status(self):
        return self.pool().get("status", {}).get("componentStatus", {})

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
        self.apply(1)
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
        if "worker" in self.components:
            self.begin()
            amount = {"tflops": "1", "vram": "1Gi"}
            workloads = f"{GROUP}/namespaces/{APPS}/tensorfusionworkloads"
            self.server.request("POST", workloads, {
                "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionWorkload", "metadata": {"name": "all"},
                "spec": {"replicas": self.nodes, "poolName": POOL, "resources": {"requests": amount, "limits": amount}}})
            self.wait("all workers are Ready", lambda: self.server.request("GET", f"{workloads}/all").get("status", {}).get(
                "readyWorkers") == self.nodes, 900)
            self.say(f"{self.nodes} workers of one workload run")
        if "client" in self.components:
            self.begin()
            self.apply_application(self.component_status()["client"])
            self.say(f"{self.nodes} applications run")
        self.wait("all is in sync", lambda: all(self.component_status()[f"{one}ConfigSynced"] for one in COMPONENTS), 60)

    def rolls_out(self, version, measured=True):
        """New images of all components, at first without leave to restart anything, then with it."""
        watch = PodWatch(self.api(self.cluster))
        quiet = None
        try:
            old = self.component_status()
            self.apply(version, auto=False)
            self.wait("the new images are recorded", lambda: all(
                self.component_status()[one] != old[one] and not self.component_status()[f"{one}ConfigSynced"]
                for one in self.components), 60)
            new = self.component_status()
            if "client" in self.components:
                self.apply_application(new["client"])
            self.assertEqual(watch.asked, [])
            with_pods = watch.mark()
            self.assertEqual({one: with_pods[one] for one in self.components}, {one: self.nodes for one in self.components})
            if measured:
                self.begin()
                quiet = Quiet(self.operator, watch)
            self.apply(version)
            progress, synced = {one: [] for one in self.components}, {}

            def done():
                component = self.component_status()
                for one in self.components:
                    if progress[one][-1:] != [component[f"{one}UpdateProgress"]]:
                        progress[one].append(component[f"{one}UpdateProgress"])
                    if component[f"{one}ConfigSynced"] and one not in synced:
                        synced[one] = time.monotonic()
                return len(synced) == len(self.components)
            self.wait("the new images are everywhere", done, 3000)
            if measured:
                quiet.close()
                self.say(f"new images of {', '.join(self.components)} on {self.nodes} nodes, {BATCH_PERCENT} % at a time")
                self.tell("in sync after " + ", ".join(f"{at - self.began:.1f} s: {one}" for one, at in synced.items())
                          + f"; while no pod changed: {quiet.cpu:.2f} s of CPU in {quiet.seconds:.1f} s")
            limit = math.ceil(self.nodes * BATCH_PERCENT / 100)
            self.wait("the watch has come as far", lambda: all(
                watch.revisions(one) == {new[one]: self.nodes} for one in self.components), 30)
            self.assertTrue(watch.goes_on())
            with watch.lock:
                for one in self.components:
                    self.assertEqual(progress[one][-1], 100)
                    self.assertEqual(progress[one], sorted(progress[one]))
                    asked = [(revision, node) for component, revision, node in watch.asked if component == one]
                    self.assertEqual({revision for revision, _ in asked}, {old[one]}, self.operator.said())
                    self.assertEqual((len(asked), len(set(asked))), (self.nodes, self.nodes), f"{one}: each is restarted, once")
                    self.assertLessEqual(watch.worst[one], limit, one)
                # Of each node the hypervisor, then the worker, then the client.
                turns = {}
                for component, _, node in watch.asked:
                    turns.setdefault(node, []).append(component)
                self.assertEqual(set(map(tuple, turns.values())), {self.components})
                if measured:
                    self.tell(f"at worst without a Ready pod, of {limit} allowed: " +
                              ", ".join(f"{watch.worst[one]} nodes: {one}" for one in self.components) +
                              f"; restarts while another component of the node was away: {watch.together}")
                    self.assertLess(quiet.cpu, MOST_OF_A_CORE * max(quiet.seconds, 1))
        finally:
            if quiet:
                quiet.close()
            watch.close()


class OperatorCrowdTest(OperatorTest):
    def test_a_thousand_nodes(self):
        self.runs()
        self.rests()
        self.assertLess(self.operator.rss(), MOST_MIB)

        self.rolls_out(2)
        self.assertLess(self.operator.rss(), MOST_MIB)

    def rests(self):
        """Nothing changes but the heartbeats of the nodes: nobody is looked at, nothing is written."""
        def steady():
            before = self.operator.reconciles()
            time.sleep(12)  # longer than a restart may take untold; what is measured is that nothing happens meanwhile
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
    nodes, components = min(NODES, 60), ("hypervisor",)

    def test_killed(self):
        self.runs()
        seed = int(os.environ.get("TF_CROWD_SEED", time.time()))
        print(f"TF_CROWD_SEED={seed}", flush=True)
        moments, kills, image = random.Random(seed), 0, 1
        while kills < KILLS:
            image += 1
            done = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(1) as thread:
                rollout = thread.submit(self.rolls_out, image, False)
                rollout.add_done_callback(lambda _, done=done: done.set())
                while not done.wait(moments.uniform(0.05, 3)):
                    self.operator.kill()
                    self.operator.start()
                    kills += 1
                rollout.result()
        print(f"killed {kills} times in {image - 1} rollouts", flush=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
