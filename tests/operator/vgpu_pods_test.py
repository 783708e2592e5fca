#!/usr/bin/env python3
"""A pod that asks for a vGPU, from admission to a CUDA program that sees its slice, on nodes whose pods are processes.

Usage: vgpu_pods_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone must be in PYTHONPATH.
"""
import base64
import json
import os
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from cluster import Cluster
from operator_process import Operator, await_value, end, free_port, install, issue_license

BIN = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.abspath(sys.argv.pop(1))
BUILD = os.path.dirname(BIN)
LIBRARIES = [{"name": "TF_NVML_LIB_PATH", "value": f"{BUILD}/lib/sim/libnvidia-ml.so.1"},
             {"name": "TF_CUDA_LIB_PATH", "value": f"{BUILD}/lib/sim/libcuda.so.1"}]
PREFIX = "tensor-fusion.ai"
AUDIENCE = PREFIX

cluster = None
operator = None
temporary = None
endpoint = None


def webhook_configuration():
    """As the chart has it where webhooks are called by URL; the operator fills in authority and URL."""
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "tf-mutating-webhook"}, "webhooks": [{
                "name": "mpod.tensor-fusion.ai", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": 5, "failurePolicy": "Fail", "matchPolicy": "Equivalent", "reinvocationPolicy": "Never",
                "clientConfig": {"url": "https://127.0.0.1:9443/mutate-v1-pod"},
                "objectSelector": {"matchExpressions": [{"key": f"{PREFIX}/enabled", "operator": "In", "values": ["true"]}]},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                           "scope": "Namespaced"}]}]}


def setUpModule():
    global cluster, operator, temporary, endpoint
    temporary = tempfile.TemporaryDirectory(prefix="tf-vgpu-")
    licence = issue_license(BIN)
    cluster = Cluster(BIN)
    extender = free_port()
    cluster.up("--nodes", "2", "--gpus-per-node", "A100-80G:2", "--image", f"cuda-examples={BUILD}/examples",
               "--scheduler-extender", f"http://127.0.0.1:{extender}")
    install(cluster, SOURCE)
    cluster.kubectl("apply", "-f", os.path.join(SOURCE, "examples/pool/hypervisor-rights.yaml"))
    cluster.kubectl("apply", "-f", "-", input=json.dumps(webhook_configuration()))
    webhook, connections = free_port(), free_port()
    endpoint = f"http://127.0.0.1:{connections}"
    operator = Operator(cluster, temporary.name, "--webhook-bind-address", f"127.0.0.1:{webhook}", "--webhook-host", "127.0.0.1",
                        "--webhook-url", "--webhook-configuration", "tf-validating-webhook",
                        "--mutating-webhook-configuration", "tf-mutating-webhook",
                        "--connection-bind-address", f"127.0.0.1:{connections}", "--connection-endpoint", endpoint,
                        "--scheduler-extender-bind-address", f"127.0.0.1:{extender}").start()
    worker = {"containers": [{"name": "tensorfusion-worker", "env": LIBRARIES + [
        {"name": name, "value": value} for name, value in licence.items()]}]}
    cluster.kubectl("apply", "-f", "-", input=json.dumps({
        "apiVersion": f"{PREFIX}/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"},
        "spec": {"gpuPools": [{"name": "shared", "isDefault": True, "specTemplate": {
            "defaultUsingLocalGPU": False,
            "nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}]}},
            "componentConfig": {
                "hypervisor": {"image": "tensorfusion/tensor-fusion-hypervisor:1", "podTemplate": {"template": {"spec": {
                    "containers": [{"name": "tensorfusion-hypervisor", "env": LIBRARIES}]}}}},
                "worker": {"image": "tensorfusion/tensor-fusion-worker:1", "podTemplate": {"template": {"spec": worker}}},
                "client": {"image": "tensorfusion/tensor-fusion-client:1",
                           "patchToContainer": {"env": [{"name": "TF_LOG_PATH", "value": "/tmp/tf.log"}]}}}}}]}}))
    await_value(lambda: "tf-shared" in cluster.kubectl("get", "gpupools", "-o", "name").stdout, 60, operator.said)
    # A pod that found no card is not looked at again as soon as there is one.
    await_value(lambda: len(found := json.loads(cluster.kubectl("get", "gpus", "-o", "json").stdout)["items"]) == 4 and all(
        one.get("status", {}).get("phase") == "Running" for one in found), 60, operator.said)
    # The operator has told the API server where its webhook is.
    await_value(lambda: base64.b64decode(json.loads(cluster.kubectl(
        "get", "mutatingwebhookconfiguration", "tf-mutating-webhook", "-o", "json").stdout)["webhooks"][0]["clientConfig"].get(
            "caBundle", "")).startswith(b"-----BEGIN") and str(webhook) in cluster.kubectl(
                "get", "mutatingwebhookconfiguration", "tf-mutating-webhook", "-o", "yaml").stdout, 60, operator.said)


def tearDownModule():
    end(cluster, operator, temporary)


def pod(name, command, annotations=None, restart="Never", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": name, "namespace": "default", "labels": {f"{PREFIX}/enabled": "true"},
        "annotations": {f"{PREFIX}/{key}": value for key, value in (annotations if annotations is not None else {
            "compute-percent-limit": "50", "vram-limit": "2Gi"}).items()}},
            "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, **spec, "containers": [
                {"name": "app", "image": "cuda-examples", "command": command}]}}


class VgpuPods(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        for kind in ("deployments", "pods"):
            cluster.kubectl("delete", kind, "--all", "--timeout=60s")
        self.await_that("something is left of the pods", lambda: not any(
            self.get(kind)["items"] for kind in ("tensorfusionconnections", "tensorfusionworkloads", "pods")))

    def get(self, *what):
        done = cluster.kubectl("get", *what, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def create(self, what, *arguments, check=True):
        return cluster.kubectl("create", *arguments, "-f", "-", input=json.dumps(what), check=check)

    def await_that(self, what, so, limit=60):
        return await_value(so, limit, lambda: "\n".join([
            what, cluster.kubectl("get", "tensorfusionworkloads,tensorfusionconnections,pods", "-o", "wide").stdout,
            cluster.kubectl("get", "tensorfusionworkloads,tensorfusionconnections,pods", "-o", "yaml").stdout[-6000:],
            cluster.kubectl("get", "events").stdout[-3000:], operator.said()]))

    def workers(self):
        return {one["metadata"]["uid"]: one for one in self.get("pods", "-l", f"{PREFIX}/component=worker")["items"]
                if "deletionTimestamp" not in one["metadata"]}

    def phase(self, name):
        return (self.get("pod", name) or {}).get("status", {}).get("phase")

    def logs(self, name):
        return cluster.kubectl("logs", name, "-c", "app", check=False).stdout

    # ----------------------------------------------------------------------------------------------------------------

    def test_a_program_sees_its_slice(self):
        self.create(pod("slice", ["out_of_memory", "2048"]))
        self.await_that("the program does not end", lambda: self.phase("slice") in ("Succeeded", "Failed"))
        self.assertEqual(self.phase("slice"), "Succeeded", self.logs("slice"))
        made = self.get("pod", "slice")
        annotations = made["metadata"]["annotations"]
        self.assertEqual(annotations[f"{PREFIX}/gpupool"], "tf-shared")
        self.assertEqual(annotations[f"{PREFIX}/selected-workload"], "slice")
        self.assertEqual(made["metadata"]["labels"][f"{PREFIX}/component"], "client")
        workload = self.get("tensorfusionworkload", "slice")
        self.assertEqual(workload["spec"]["resources"]["limits"], {"tflops": "0", "compute": "50", "vram": "2Gi"})
        self.assertNotIn("replicas", workload["spec"])
        self.assertEqual([owner["kind"] for owner in workload["metadata"]["ownerReferences"]], ["Pod"])
        # What has ended holds nothing.
        self.await_that("the connection stays", lambda: not self.get("tensorfusionconnections")["items"])
        self.await_that("the worker stays", lambda: not self.workers())

    def worker_of(self, name):
        """The one worker of a pod's workload, once it has cards."""
        def bound():
            found = [one for one in self.workers().values() if one["metadata"]["labels"][f"{PREFIX}/workload"] == name]
            return len(found) == 1 and f"{PREFIX}/gpu-ids" in found[0]["metadata"]["annotations"] and found[0]
        return self.await_that(f"{name} has no worker with cards", bound)

    def test_cards_are_chosen_and_never_more_than_there_is_of_them(self):
        gpus = {gpu["metadata"]["name"]: gpu for gpu in self.get("gpus")["items"]}
        # 156 of a card's 312 TFLOPS are half of it, and two of them one card.
        for name in ("half", "other"):
            self.create(pod(name, ["sh", "-c", "two_gpus; out_of_memory 40960 && sleep 1000"], {"tflops-limit": "156", "vram-limit": "40Gi"}))
        workers = {name: self.worker_of(name) for name in ("half", "other")}
        cards = {name: one["metadata"]["annotations"][f"{PREFIX}/gpu-ids"] for name, one in workers.items()}
        for name, worker in workers.items():
            self.assertEqual(worker["spec"]["schedulerName"], "tensor-fusion-scheduler")
            self.assertEqual(worker["metadata"]["annotations"][f"{PREFIX}/effective-hard-sm-percent"], "50")
            gpu = gpus[cards[name]]
            self.assertEqual(gpu["metadata"]["labels"][f"{PREFIX}/managed-by"], worker["spec"]["nodeName"])
        self.await_that("the program does not see its slice", lambda: "PASS" in self.logs("half"))
        # A whole node is two cards: the node of the halves has no room for it, the other one has.
        self.create(pod("pair", ["sleep", "1000"], {"compute-percent-limit": "100", "vram-limit": "80Gi", "gpu-count": "2"}))
        pair = self.worker_of("pair")
        chosen = pair["metadata"]["annotations"][f"{PREFIX}/gpu-ids"].split(",")
        self.assertEqual(len(set(chosen)), 2)
        self.assertFalse(set(chosen) & set(cards.values()))
        # A second one has to wait, and is told why.
        self.create(pod("waits", ["sleep", "1000"], {"compute-percent-limit": "100", "vram-limit": "80Gi", "gpu-count": "2"}))
        self.await_that("nobody says why it waits", lambda: "no room in pool tf-shared for 2 cards with 100 %" in cluster.kubectl(
            "get", "events", "-A").stdout)
        cluster.kubectl("delete", "pod", "pair")
        self.assertEqual(set(self.worker_of("waits")["metadata"]["annotations"][f"{PREFIX}/gpu-ids"].split(",")), set(chosen))

    def test_the_client_revision_is_that_of_the_pool(self):
        self.create(pod("held", ["sleep", "1000"]))
        revision = self.await_that("the pool has no client revision", lambda: self.get("gpupool", "tf-shared")["status"].get(
            "componentStatus", {}).get("client"))
        self.assertEqual(self.get("pod", "held")["metadata"]["labels"][f"{PREFIX}/pod-template-hash"], revision)

    def test_a_lost_worker_is_replaced_and_its_client_comes_back(self):
        self.create(pod("again", ["sh", "-c", "while true; do out_of_memory 2048 && echo passed; sleep 0.2; done"]))
        self.await_that("the program does not run", lambda: "passed" in self.logs("again"))
        first = self.workers()
        name = next(iter(first.values()))["metadata"]["name"]
        cluster.kubectl("delete", "pod", name, "--wait=false")
        second = self.await_that("the worker is not replaced", lambda: (now := self.workers()) and not set(now) & set(first) and now, 30)
        self.assertEqual(len(second), 1)
        connection = self.await_that("the connection has no new worker", lambda: (
            one := self.get("tensorfusionconnections")["items"][0]) and one["status"]["workerName"] == next(
                iter(second.values()))["metadata"]["name"] and one)
        self.assertRegex(connection["status"]["connectionURL"], r"^native\+127\.[0-9.]+\+8000\+")
        passed = self.logs("again").count("passed")
        self.await_that("the client does not come back", lambda: self.logs("again").count("passed") > passed + 1)

    def test_pods_of_a_deployment_share_a_workload_and_have_a_worker_each(self):
        template = pod("", ["sleep", "1000"], restart="Always")
        del template["metadata"]["name"], template["metadata"]["namespace"]
        template["metadata"]["labels"]["app"] = "web"
        self.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
                     "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                              "template": {"metadata": template["metadata"], "spec": template["spec"]}}})
        connections = self.await_that("not every client has a worker", lambda: len(
            ready := [one for one in self.get("tensorfusionconnections")["items"] if one["status"].get("connectionURL")]) == 3 and ready)
        self.assertEqual(len({one["status"]["workerName"] for one in connections}), 3)
        self.assertEqual([one["metadata"]["name"] for one in self.get("tensorfusionworkloads")["items"]], ["web"])
        cluster.kubectl("scale", "deployment", "web", "--replicas=1")
        self.await_that("workers of clients that are gone stay", lambda: len(self.workers()) == 1)

    def test_mistakes_are_refused_with_what_is_allowed(self):
        for annotations, expected in (
                ({"vram-limit": "2Gi", "isolation": "soft"}, "isolation: \"soft\" is not supported yet; allowed: hard"),
                ({"vram-limit": "2Gi", "is-local-gpu": "true"}, "is-local-gpu: \"true\" (or the same from a WorkloadProfile or the pool) is not supported yet"),
                ({"vram-limit": "lots"}, "vram-limit: \"lots\" is not allowed; allowed: an amount of memory"),
                ({"vram-limit": "2Gi", "gpupool": "nowhere"}, "gpupool: \"nowhere\" is not allowed: there is no such GPUPool; allowed: tf-shared"),
                ({}, "the pod asks for no share of a GPU")):
            done = self.create(pod("wrong", ["true"], annotations), check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr)
        done = self.create(pod("dry", ["true"]), "--dry-run=server", "-o", "json")
        self.assertEqual(json.loads(done.stdout)["metadata"]["annotations"][f"{PREFIX}/selected-workload"], "dry")
        self.assertEqual(self.get("tensorfusionworkloads")["items"], [])
        # Once more over what it has made: nothing changes.
        again = json.loads(done.stdout)
        for field in ("uid", "creationTimestamp", "resourceVersion"):
            again["metadata"].pop(field, None)
        twice = json.loads(self.create(again, "--dry-run=server", "-o", "json").stdout)
        self.assertEqual((again["metadata"]["annotations"], again["metadata"]["labels"]),
                         (twice["metadata"]["annotations"], twice["metadata"]["labels"]))
        self.assertEqual(again["spec"], twice["spec"])

    def test_a_connection_is_for_its_own_pod(self):
        self.create(pod("mine", ["sleep", "1000"]))
        connection = self.await_that("there is no connection", lambda: (found := self.get("tensorfusionconnections")["items"]) and
                                     found[0]["status"].get("connectionURL") and found[0])
        self.create(pod("other", ["sleep", "1000"]))
        uid = {name: self.get("pod", name)["metadata"]["uid"] for name in ("mine", "other")}

        def ask(token, namespace="default"):
            question = urllib.request.Request(
                f"{endpoint}/api/connection?name={connection['metadata']['name']}&namespace={namespace}",
                headers={"Authorization": f"Bearer {token}"} if token else {})
            try:
                with urllib.request.urlopen(question, timeout=40) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        def token(name, *arguments):
            return cluster.kubectl("create", "token", "default", *arguments, "--bound-object-kind", "Pod", "--bound-object-name",
                                   name, "--bound-object-uid", uid[name]).stdout.strip()

        self.assertEqual(ask(token("mine", "--audience", AUDIENCE)), (200, connection["status"]["connectionURL"]))
        self.assertEqual(ask(token("other", "--audience", AUDIENCE))[0], 403)
        self.assertEqual(ask(token("mine", "--audience", AUDIENCE), "kube-system")[0], 403)
        self.assertEqual(ask(token("mine"))[0], 401, "a token for the API server is none for us")
        self.assertEqual(ask("")[0], 401)
        self.assertEqual(ask("a.b.c")[0], 401)
        self.assertEqual(ask(cluster.kubectl("create", "token", "default", "--audience", AUDIENCE).stdout.strip())[0], 401)

    def test_z_other_pods_do_not_wait_for_the_operator(self):
        operator.kill()
        plain = pod("plain", ["true"])
        del plain["metadata"]["labels"]
        self.create(plain)
        self.assertNotEqual(self.create(pod("wants", ["true"]), check=False).returncode, 0)
        operator.start()
        self.await_that("admission does not come back", lambda: self.create(pod("wants", ["true"]), check=False).returncode == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
