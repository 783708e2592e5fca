#!/usr/bin/env python3
"""Hypervisors and workers on nodes whose pods are processes: real programs, simulated cards, a real licence.

Usage: pods_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone must be in PYTHONPATH.
"""
import json
import os
import sys
import tempfile
import unittest
import urllib.request

from cluster import Cluster
from operator_process import NAMESPACE, Operator, await_value, end, install, issue_license

BIN = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.abspath(sys.argv.pop(1))
SIMULATED = os.path.join(os.path.dirname(BIN), "lib/sim")
LIBRARIES = [{"name": "TF_NVML_LIB_PATH", "value": f"{SIMULATED}/libnvidia-ml.so.1"},
             {"name": "TF_CUDA_LIB_PATH", "value": f"{SIMULATED}/libcuda.so.1"}]
NODES = ["node-0", "node-1", "node-2"]
POOL = "tf-shared"

cluster = None
operator = None
temporary = None
licence = None


def setUpModule():
    global cluster, operator, temporary, licence
    temporary = tempfile.TemporaryDirectory(prefix="tf-operator-")
    licence = issue_license(BIN)
    cluster = Cluster(BIN)
    cluster.up("--nodes", str(len(NODES)), "--gpus-per-node", "A100-80G:2")
    install(cluster, SOURCE)
    cluster.kubectl("apply", "-f", os.path.join(SOURCE, "examples/pool/hypervisor-rights.yaml"))
    cluster.kubectl("create", "secret", "generic", "licence", f"--from-literal=sign={licence['TF_LICENSE_SIGN']}")
    operator = Operator(cluster, temporary.name).start()


def tearDownModule():
    end(cluster, operator, temporary)


def pool(worker_image="tensorfusion/tensor-fusion-worker:1", worker_container="tensorfusion-worker", libraries=None):
    return {"name": "shared", "isDefault": True, "specTemplate": {
        "capacityConfig": {"oversubscription": {"tflopsOversellRatio": 200}},
        "nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}]}},
        "componentConfig": {
            "hypervisor": {"image": "tensorfusion/tensor-fusion-hypervisor:1", "podTemplate": {"template": {"spec": {
                "containers": [{"name": "tensorfusion-hypervisor", "env": libraries or LIBRARIES}]}}}},
            "worker": {"image": worker_image, "podTemplate": {"template": {"spec": {"containers": [
                {"name": worker_container, "env": LIBRARIES + [
                    {"name": "TF_LICENSE", "value": licence["TF_LICENSE"]},
                    {"name": "TF_LICENSE_SIGN", "valueFrom": {"secretKeyRef": {"name": "licence", "key": "sign"}}}]}]}}}}}}}


class Pods(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        self.kubectl("delete", "tensorfusionworkloads", "--all", "--timeout=60s")
        self.kubectl("delete", "tensorfusionclusters", "--all", "--timeout=60s")
        self.kubectl("wait", "--for=delete", "pods", "--all", "-A", "--timeout=60s")

    def kubectl(self, *arguments, **options):
        return cluster.kubectl(*arguments, **options).stdout

    def get(self, *what):
        done = cluster.kubectl("get", *what, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def await_that(self, what, so, limit=60):
        return await_value(so, limit, lambda: "\n".join([
            what, self.kubectl("get", "gpunodes,gpus,tensorfusionworkloads,pods", "-A", "-o", "wide"),
            self.kubectl("get", "tensorfusionworkloads", "-A", "-o", "yaml"), operator.said()]))

    def apply_cluster(self, **worker):
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"},
            "spec": {"gpuPools": [pool(**worker)]}}))

    def apply_workload(self, replicas=2, name="infer", **spec):
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionWorkload",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas, **spec}}))

    def workers(self, name="infer"):
        found = self.get("pods", "-l", f"tensor-fusion.ai/component=worker,tensor-fusion.ai/workload={name}")["items"]
        return {pod["metadata"]["uid"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def status(self, name="infer"):
        return (self.get("tensorfusionworkload", name) or {}).get("status", {})

    def ready(self, name="infer"):
        return next((one for one in self.status(name).get("conditions", []) if one["type"] == "Ready"), {})

    def await_workers(self, count, name="infer"):
        def so():
            status = self.status(name)
            generation = self.get("tensorfusionworkload", name)["metadata"]["generation"]
            found = self.workers(name)
            return (status.get("observedGeneration") == generation and status.get("readyWorkers") == count and
                    status.get("workerCount") == count and len(found) == count and found)
        return self.await_that(f"there are not {count} workers of {name}", so)

    def await_nodes(self):
        self.await_that("the GPUNodes are not Running", lambda: [
            node["metadata"]["name"] for node in self.get("gpunodes")["items"]
            if node.get("status", {}).get("phase") == "Running"] == NODES)

    def hypervisors(self):
        found = self.get("pods", "-n", NAMESPACE, "-l", "tensor-fusion.ai/component=hypervisor")["items"]
        return {pod["spec"]["nodeName"]: pod for pod in found}

    # ----------------------------------------------------------------------------------------------------------------

    def test_hypervisors_publish_their_gpus(self):
        self.apply_cluster()
        self.await_nodes()
        pods = self.hypervisors()
        self.assertEqual(sorted(pods), NODES)
        pod = pods["node-1"]
        self.assertEqual(pod["metadata"]["name"], "hypervisor-node-1")
        self.assertEqual([owner["kind"] for owner in pod["metadata"]["ownerReferences"]], ["GPUNode", "Node"])
        self.assertEqual(pod["metadata"]["labels"][f"tensor-fusion.ai/pool-{POOL}"], "true")

        gpus = self.get("gpus")["items"]
        self.assertEqual(len(gpus), 6)
        mine = [gpu for gpu in gpus if gpu["metadata"]["labels"]["tensor-fusion.ai/managed-by"] == "node-1"]
        self.assertEqual([gpu["status"]["index"] for gpu in sorted(mine, key=lambda one: one["status"]["index"])], [0, 1])
        for gpu in gpus:
            status = gpu["status"]
            self.assertEqual(gpu["metadata"]["name"], status["uuid"].lower())
            self.assertEqual(gpu["metadata"]["labels"]["tensor-fusion.ai/gpupool"], POOL)
            self.assertEqual(gpu["metadata"]["ownerReferences"][0]["kind"], "GPUNode")
            self.assertEqual(status["gpuModel"], "NVIDIA A100-SXM4-80GB")
            self.assertEqual(status["capacity"], {"tflops": "312", "vram": "80Gi"})
            self.assertEqual(status["available"], status["capacity"])
            self.assertEqual(status["nodeSelector"],
                             {"kubernetes.io/hostname": gpu["metadata"]["labels"]["tensor-fusion.ai/managed-by"]})
        self.await_that("the GPUs are not Running and ours", lambda: all(
            (gpu["status"]["phase"], gpu["status"].get("usedBy")) == ("Running", "tensor-fusion")
            for gpu in self.get("gpus")["items"]))

        self.await_that("the node's totals are not there", lambda: (
            (status := self.get("gpunode", "node-1")["status"]) and
            (status["totalGPUs"], status["totalTFlops"], status["totalVRAM"]) == (2, "624", "160Gi") and
            (status["availableTFlops"], status["virtualTFlops"]) == ("624", "1248") and
            status.get("nodeInfo", {}).get("ramSize") and
            status.get("managedGPUDeviceIDs") == sorted(
                (gpu["metadata"]["name"] for gpu in mine),
                key=[gpu["metadata"]["name"] for gpu in sorted(mine, key=lambda one: one["status"]["index"])].index)))
        self.await_that("the pool's totals are not there", lambda: (
            (status := self.get("gpupool", POOL)["status"]) and (status["totalGPUs"], status["phase"]) == (6, "Running")))

        # Its page is on the pod's own address.
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8000/metrics", timeout=10) as answer:
            self.assertIn("tensor_fusion_gpu_memory_bytes{", answer.read().decode())

        # A GPU object that somebody deletes comes back; one of a card that is not there is marked.
        name = mine[0]["metadata"]["name"]
        uid = mine[0]["metadata"]["uid"]
        self.kubectl("delete", "gpu", name)
        self.await_that("the GPU does not come back", lambda: (
            (found := self.get("gpu", name)) and found["metadata"]["uid"] != uid and
            found.get("status", {}).get("phase") == "Running"))
        ghost = {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPU", "metadata": {
            "name": "gpu-ghost", "labels": mine[0]["metadata"]["labels"],
            "ownerReferences": mine[0]["metadata"]["ownerReferences"]}}
        self.kubectl("create", "-f", "-", input=json.dumps(ghost))
        self.await_that("the ghost is not marked", lambda: self.get("gpu", "gpu-ghost")["metadata"].get(
            "annotations", {}).get("tensor-fusion.ai/gpu-missing-since"))
        self.assertEqual(self.get("gpunode", "node-1")["status"]["totalGPUs"], 2)

    def test_a_hypervisor_without_a_driver_says_so(self):
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"},
            "spec": {"gpuPools": [pool(libraries=[{"name": "TF_NVML_LIB_PATH", "value": "/nowhere/libnvidia-ml.so.1"}])]}}))
        self.await_that("the missing driver is not named", lambda: any(
            event["reason"] == "GPUsNotPublished" and "/nowhere/libnvidia-ml.so.1" in event["message"]
            for event in self.get("events", "-A", "--field-selector", "involvedObject.kind=GPUNode")["items"]))
        node = self.get("gpunode", "node-0")["status"]
        self.assertEqual((node["phase"], node["totalGPUs"]), ("Pending", 0))
        self.assertEqual([one["status"] for one in node["conditions"] if one["type"] == "HypervisorReady"], ["False"])

    def test_a_hypervisor_is_made_again(self):
        self.apply_cluster()
        self.await_nodes()
        before = self.hypervisors()
        self.kubectl("delete", "pod", "-n", NAMESPACE, "hypervisor-node-0", "--wait=false")
        self.await_that("it is not made again", lambda: (
            (now := self.hypervisors().get("node-0")) and now["metadata"]["uid"] != before["node-0"]["metadata"]["uid"]))
        self.await_nodes()
        after = self.hypervisors()
        for node in ("node-1", "node-2"):
            self.assertEqual(after[node]["metadata"]["uid"], before[node]["metadata"]["uid"])

    def test_all_of_a_pool_goes_with_it(self):
        self.apply_cluster()
        self.await_nodes()
        self.kubectl("delete", "tensorfusionclusters", "tf", "--timeout=60s")
        for kind in ("gpupools", "gpunodes", "gpus"):
            self.assertEqual(self.get(kind)["items"], [], kind)
        self.await_that("hypervisors are left", lambda: not self.hypervisors())

    def test_licensed_workers(self):
        self.apply_cluster()
        self.await_nodes()
        self.apply_workload(2, poolName=POOL, resources={
            "requests": {"tflops": 10, "vram": "1Gi"}, "limits": {"tflops": 20, "vram": "2Gi", "compute": "25"}})
        workers = self.await_workers(2)
        self.assertEqual(self.ready()["message"], "All workers are running")
        self.assertEqual(self.status()["selector"], "tensor-fusion.ai/component=worker,tensor-fusion.ai/workload=infer")
        for pod in workers.values():
            name = pod["metadata"]["name"]
            self.assertRegex(name, "^infer-tf-worker-[a-z0-9]{5}$")
            said = self.kubectl("logs", name, "-c", "tensorfusion-worker")
            self.assertRegex(said, "License verification passed: edition=enterprise expires=")
            container = pod["spec"]["containers"][0]
            env = {one["name"]: one.get("value") for one in container["env"]}
            self.assertEqual(len(env), len(container["env"]))
            self.assertEqual((env["TF_GPU_MEMORY_LIMIT"], env["TF_CUDA_SM_PERCENT_LIMIT"]), ("2048", "25"))
            self.assertEqual(pod["metadata"]["labels"]["tensor-fusion.ai/pod-template-hash"],
                             self.status()["podTemplateHash"])

    def test_scaling_and_qos_restart_nothing_and_limits_one_at_a_time(self):
        self.apply_cluster()
        self.apply_workload(2)
        first = set(self.await_workers(2))
        self.kubectl("scale", "tensorfusionworkload", "infer", "--replicas=3")
        three = set(self.await_workers(3))
        self.assertLessEqual(first, three)
        self.apply_workload(3, qos="high")
        self.assertEqual(set(self.await_workers(3)), three)
        self.kubectl("scale", "tensorfusionworkload", "infer", "--replicas=1")
        self.assertLessEqual(set(self.await_workers(1)), three)
        self.kubectl("scale", "tensorfusionworkload", "infer", "--replicas=0")
        self.await_that("it is not scaled to zero", lambda: self.ready().get("reason") == "ScaledToZero")

        self.apply_workload(3, qos="high")
        old = set(self.await_workers(3))
        self.apply_workload(3, qos="high", resources={"requests": {"tflops": 1, "vram": "1Gi"},
                                                      "limits": {"tflops": 1, "vram": "3Gi"}})
        least = 3

        def replaced():
            nonlocal least
            found = self.workers()
            least = min(least, sum(
                any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
                for pod in found.values()))
            return not set(found) & old
        self.await_that("the limits do not reach the workers", replaced, 90)
        self.assertGreaterEqual(least, 2)
        self.await_workers(3)

    def test_workers_that_go_are_made_again(self):
        self.apply_cluster()
        self.apply_workload(2)
        before = self.await_workers(2)
        gone = next(iter(before.values()))["metadata"]
        self.kubectl("delete", "pod", gone["name"], "--wait=false")
        self.await_that("it is not replaced", lambda: gone["uid"] not in self.workers())
        after = set(self.await_workers(2))
        self.assertEqual(len(after & set(before)), 1)
        # The same under an operator that dies again and again: never more than there should be.
        for replicas in (4, 1, 3):
            operator.kill()
            self.kubectl("scale", "tensorfusionworkload", "infer", f"--replicas={replicas}")
            operator.start()
            self.await_workers(replicas)

    def test_what_is_wrong_is_said(self):
        self.apply_cluster(worker_container="some-other-name")
        self.apply_workload(1, poolName="nowhere")
        self.await_that("the missing pool is not named", lambda: "spec.poolName" in self.ready().get("message", ""))
        self.apply_workload(1, poolName=POOL)
        self.await_that("the container is not named", lambda: (
            "spec.componentConfig.worker.podTemplate.template.spec.containers" in self.ready().get("message", "")))
        self.assertEqual(self.ready()["reason"], "InvalidTemplate")
        self.assertEqual(self.workers(), {})
        self.apply_cluster(worker_image="nowhere/no-such-image:1")
        self.await_that("the image is not named", lambda: "no-such-image:1" in self.ready().get("message", ""))
        # Once it is right the next pods have it; the one that never ran is replaced by rollouts, or by hand.
        self.apply_cluster()
        self.kubectl("delete", "pods", "-l", "tensor-fusion.ai/workload=infer", "--wait=false")
        self.await_workers(1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
