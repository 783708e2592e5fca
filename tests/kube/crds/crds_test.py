#!/usr/bin/env python3
"""The CustomResourceDefinitions of the chart on a real API server: accepted, refusing what is wrong with a message that
says what is allowed, defaults, columns, short names, scale, what becomes of unknown fields, upgrades.

Usage: crds_test.py CONTROLPLANE SOURCE TYPED_TEST [unittest arguments]
"""
import base64
import copy
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

PROGRAM, SOURCE, TYPED_TEST = sys.argv[1:4]
CRDS = os.path.join(SOURCE, "charts/tensor-fusion/crds")
SAMPLES = os.path.join(SOURCE, "src/api/testdata")
GROUP = "tensor-fusion.ai"
TOKEN = "test"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Server:
    """etcd and kube-apiserver, on loopback, with one user who may do everything."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="crds-test-")
        self.children = []
        client, peer, api = free_ports(3)
        self.url = f"https://127.0.0.1:{api}"
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        path = lambda name: os.path.join(self.folder, name)
        with open(path("tokens"), "w", encoding="utf-8") as file:
            file.write(f"{TOKEN},admin,admin,system:masters\n")
        # A P-256 key as SEC 1 writes it: version, the number, the curve.
        key = bytes.fromhex("303102010104") + b"\x20" + os.urandom(32) + bytes.fromhex("a00a06082a8648ce3d030107")
        with open(path("key"), "w", encoding="utf-8") as file:
            file.write(f"-----BEGIN EC PRIVATE KEY-----\n{base64.b64encode(key).decode()}\n-----END EC PRIVATE KEY-----\n")
        self.start("etcd", "--data-dir", path("etcd"), "--unsafe-no-fsync", "--log-level=error",
                   f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}",
                   f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                   f"--initial-cluster=default=http://127.0.0.1:{peer}")
        self.start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", "--bind-address=127.0.0.1",
                   f"--secure-port={api}", f"--cert-dir={path('certificates')}", f"--token-auth-file={path('tokens')}",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={path('key')}",
                   f"--service-account-signing-key-file={path('key')}", "--authorization-mode=RBAC",
                   "--disable-admission-plugins=ServiceAccount", "--v=0")
        self.wait(lambda: self.call("GET", "/readyz")[0] == 200, "the API server is ready", 120)

    def start(self, *arguments):
        log = open(os.path.join(self.folder, arguments[0] + ".log"), "wb")
        self.children.append(subprocess.Popen([PROGRAM, *arguments], stdout=log, stderr=log, start_new_session=True))
        log.close()

    def wait(self, condition, what, limit=30):
        """Until `condition` holds; a server of its own process has no event to wait for."""
        deadline = time.monotonic() + limit
        while True:
            for child in self.children:
                if child.poll() is not None:
                    raise RuntimeError(f"{child.args[1]} ended: {self.log(child.args[1])}")
            try:
                if condition():
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {limit} s: {what}; {self.log('kube-apiserver')}")
            time.sleep(0.1)  # between two looks at another process

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def call(self, method, path, body=None, content="application/json"):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {TOKEN}", "Content-Type": content},
                                         method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode(errors="replace")

    def kubectl(self, *arguments, check=True):
        done = subprocess.run([PROGRAM, "kubectl", f"--server={self.url}", f"--token={TOKEN}", "--insecure-skip-tls-verify",
                               f"--cache-dir={self.folder}/kubectl", *arguments], capture_output=True, text=True,
                              env={**os.environ, "KUBECONFIG": "/dev/null", "HOME": self.folder}, timeout=120, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done

    def stop(self):
        for child in reversed(self.children):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Crds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        try:
            cls.server.kubectl("apply", "-f", CRDS)
            cls.wait_established()
        except BaseException:
            cls.server.stop()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @classmethod
    def conditions(cls):
        _, answer = cls.server.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        return {crd["metadata"]["name"]: {c["type"]: c for c in crd.get("status", {}).get("conditions") or []}
                for crd in answer["items"]}

    @classmethod
    def wait_established(cls):
        cls.server.wait(lambda: len(cls.conditions()) >= 12 and all(
            c.get("Established", {}).get("status") == "True" for c in cls.conditions().values()), "the kinds are served")
        # A kind is served a moment after it is established, and by its newest schema a moment after an update.
        cls.server.wait(lambda: len(cls.server.call("GET", f"/apis/{GROUP}/v1")[1].get("resources", [])) >= 24,
                        "the kinds are found")

    def path(self, plural, name="", namespace=""):
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"/apis/{GROUP}/v1{where}/{plural}" + (f"/{name}" if name else "")

    def make(self, plural, body, namespace=""):
        """Creates an object under a name of its own that goes away with the test."""
        kinds = {"gpupools": "GPUPool", "tensorfusionclusters": "TensorFusionCluster", "gpus": "GPU",
                 "tensorfusionworkloads": "TensorFusionWorkload", "workloadprofiles": "WorkloadProfile",
                 "schedulingconfigtemplates": "SchedulingConfigTemplate", "gpuresourcequotas": "GPUResourceQuota",
                 "gpunodes": "GPUNode", "gpunodeclaims": "GPUNodeClaim", "gpunodeclasses": "GPUNodeClass",
                 "providerconfigs": "ProviderConfig", "tensorfusionconnections": "TensorFusionConnection"}
        body = {"apiVersion": f"{GROUP}/v1", "kind": kinds[plural], "metadata": {"generateName": "t-"}, **body}
        status, answer = self.server.call("POST", self.path(plural, namespace=namespace), body)
        if status == 201:
            self.addCleanup(self.server.call, "DELETE", self.path(plural, answer["metadata"]["name"], namespace))
        return status, answer

    def test_accepted_and_structural(self):
        for name, conditions in self.conditions().items():
            self.assertEqual(conditions["Established"]["status"], "True", name)
            self.assertEqual(conditions["NamesAccepted"]["status"], "True", name)
            self.assertNotIn("NonStructuralSchema", conditions, name)

    def test_samples_are_accepted(self):
        for name in sorted(os.listdir(SAMPLES)):
            if name == "core.yaml":
                continue
            done = self.server.kubectl("apply", "--validate=ignore", "-f", os.path.join(SAMPLES, name))
            self.assertEqual(done.stderr, "", name)
            self.addCleanup(self.server.kubectl, "delete", "--wait=false", "-f", os.path.join(SAMPLES, name))
            # Nothing in them is unknown to the schemas, except in free-form templates.
            done = self.server.kubectl("apply", "--validate=strict", "--dry-run=server", "-f", os.path.join(SAMPLES, name))
            self.assertEqual(done.stderr, "", name)

    def test_samples_status_is_kept(self):
        """The status of a sample, written to the status subresource, comes back as it is."""
        done = self.server.kubectl("create", "--dry-run=client", "-o", "json", "-f", os.path.join(SAMPLES, "gpu_pool.yaml"))
        sample = json.loads(done.stdout)
        status, made = self.make("gpupools", {"spec": sample["spec"]})
        self.assertEqual(status, 201, made)
        made["status"] = sample["status"]
        status, answer = self.server.call("PUT", self.path("gpupools", made["metadata"]["name"]) + "/status", made)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["status"], sample["status"])

    # What is refused: kind, spec, the field that the message names, what it says is allowed.
    POLICY = ("gpupools", lambda policy: {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": policy}})
    WINDOW = ("gpupools", lambda window: {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"maintenanceWindow": window}}})
    POOL = ("gpupools", lambda spec: {"nodeManagerConfig": {}, **spec})
    CLUSTER = ("tensorfusionclusters", lambda spec: spec)
    WORKLOAD = ("tensorfusionworkloads", lambda spec: spec)
    BAD = [
        (("gpupools", lambda spec: spec), {}, "spec.nodeManagerConfig", "Required value"),
        (POLICY, {"batchPercentage": 0}, "batchPercentage", "greater than or equal to 1"),
        (POLICY, {"batchPercentage": 101}, "batchPercentage", "less than or equal to 100"),
        (POLICY, {"batchPercentage": "20"}, "batchPercentage", "must be of type integer"),
        (POLICY, {"batchInterval": "soon"}, "batchInterval", "must be a duration such as 30s, 5m or 1h30m"),
        (POLICY, {"batchInterval": "10"}, "batchInterval", "must be a duration such as"),
        (POLICY, {"batchInterval": "-1s"}, "batchInterval", "must be a duration such as"),
        (POLICY, {"maxDuration": "1 hour"}, "maxDuration", "must be a duration such as"),
        (POLICY, {"onFailure": "Ignore"}, "onFailure", 'supported values: "Pause", "Rollback"'),
        (POLICY, {"maxFailures": -1}, "maxFailures", "greater than or equal to 0"),
        (POLICY, {"minReadySeconds": -1}, "minReadySeconds", "greater than or equal to 0"),
        (POLICY, {"progressDeadlineSeconds": 0}, "progressDeadlineSeconds", "greater than or equal to 1"),
        (POLICY, {"maxUnavailable": 0}, "maxUnavailable", "greater than or equal to 1"),
        (POLICY, {"maxUnavailable": "0%"}, "maxUnavailable", "should match '^([1-9][0-9]?|100)%$'"),
        (POLICY, {"maxUnavailable": "101%"}, "maxUnavailable", "should match '^([1-9][0-9]?|100)%$'"),
        (POLICY, {"maxUnavailable": "some"}, "maxUnavailable", "should match '^([1-9][0-9]?|100)%$'"),
        (POLICY, {"autoUpdateWorker": "yes"}, "autoUpdateWorker", "must be of type boolean"),
        (WINDOW, {"enforced": True}, "maintenanceWindow", "at least one entry in includes"),
        (WINDOW, {"enforced": True, "includes": []}, "maintenanceWindow", "at least one entry in includes"),
        (WINDOW, {"enforced": True, "includes": ["0 2 * * 6", "@daily"]}, "maintenanceWindow", "each of five cron fields"),
        (WINDOW, {"timeZone": ""}, "timeZone", "should be at least 1 chars long"),
        (POOL, {"capacityConfig": {"oversubscription": {"tflopsOversellRatio": 99}}}, "tflopsOversellRatio",
         "greater than or equal to 100"),
        (POOL, {"capacityConfig": {"oversubscription": {"vramExpandToHostMem": 101}}}, "vramExpandToHostMem",
         "less than or equal to 100"),
        (POOL, {"capacityConfig": {"minResources": {"vram": "10GB"}}}, "minResources.vram", "should match"),
        (POOL, {"capacityConfig": {"minResources": {"tflops": "-1"}}}, "minResources.tflops", "should match"),
        (POOL, {"nodeManagerConfig": {"provisioningMode": "Auto"}}, "provisioningMode",
         'supported values: "Provisioned", "AutoSelect", "Karpenter"'),
        (POOL, {"nodeManagerConfig": {"defaultIsolationMode": "none"}}, "defaultIsolationMode",
         'supported values: "shared", "soft", "hard", "partitioned"'),
        (POOL, {"nodeManagerConfig": {"isolationModeRules": [{"mode": "hard"}]}}, "isolationModeRules[0].selector",
         "Required value"),
        (POOL, {"nodeManagerConfig": {"nodeSelector": {}}}, "nodeSelector.nodeSelectorTerms", "Required value"),
        (POOL, {"nodeManagerConfig": {"nodeCompaction": {"defrag": {"enabled": True}}}}, "defrag.timezone", "Required value"),
        (POOL, {"nodeManagerConfig": {"nodeCompaction": {"period": "x"}}}, "nodeCompaction.period", "must be a duration"),
        (POOL, {"componentConfig": {"hypervisor": {"portNumber": 65536}}}, "portNumber", "less than or equal to 65535"),
        (POOL, {"componentConfig": {"worker": {"podTemplate": "x"}}}, "podTemplate", "must be of type object"),
        (POOL, {"qosConfig": {"defaultQoS": "best"}}, "defaultQoS", 'supported values: "low", "medium", "high", "critical"'),
        (CLUSTER, {"gpuPools": [{"name": "a"}]}, "spec.gpuPools[0].specTemplate", "Required value"),
        (CLUSTER, {"gpuPools": [{"specTemplate": {"nodeManagerConfig": {}}}]}, "spec.gpuPools[0].name", "Required value"),
        (CLUSTER, {"gpuPools": [{"name": "Shared", "specTemplate": {"nodeManagerConfig": {}}}]}, "spec.gpuPools[0].name",
         "should match"),
        (CLUSTER, {"gpuPools": [{"name": "a", "specTemplate": {"nodeManagerConfig": {}}}] * 2}, "spec.gpuPools[1]",
         "Duplicate value"),
        (CLUSTER, {"gpuPools": [{"name": n, "isDefault": True, "specTemplate": {"nodeManagerConfig": {}}} for n in "ab"]},
         "spec", "at most one pool may have isDefault: true"),
        (CLUSTER, {"gpuPools": [{"name": "a", "specTemplate": {"nodeManagerConfig": {
            "nodePoolRollingUpdatePolicy": {"batchPercentage": 0}}}}]},
         "spec.gpuPools[0].specTemplate.nodeManagerConfig.nodePoolRollingUpdatePolicy.batchPercentage",
         "greater than or equal to 1"),
        (CLUSTER, {"computingVendor": {"type": "moon"}}, "computingVendor.type", 'supported values: "aws"'),
        (WORKLOAD, {"replicas": -1}, "spec.replicas", "greater than or equal to 0"),
        (WORKLOAD, {"gpuCount": 0}, "spec.gpuCount", "greater than or equal to 1"),
        (WORKLOAD, {"gpuCount": 129}, "spec.gpuCount", "less than or equal to 128"),
        (WORKLOAD, {"qos": "best"}, "spec.qos", 'supported values: "low", "medium", "high", "critical"'),
        (WORKLOAD, {"isolation": "none"}, "spec.isolation", 'supported values: "shared", "soft", "hard", "partitioned"'),
        (WORKLOAD, {"resources": {"requests": {"tflops": 1, "vram": "1Gi"}}}, "spec.resources.limits", "Required value"),
        (WORKLOAD, {"resources": {"requests": {"tflops": -1, "vram": "1Gi"}, "limits": {"tflops": 1, "vram": "1Gi"}}},
         "spec.resources.requests.tflops", "greater than or equal to 0"),
        (WORKLOAD, {"gangScheduling": {"minMembers": 1}}, "spec.gangScheduling", "minMembers must be 0 (all replicas) or at least 2"),
        (WORKLOAD, {"replicas": 2, "gangScheduling": {"minMembers": 3}}, "spec", "gangScheduling.minMembers must not exceed replicas"),
        (WORKLOAD, {"gangScheduling": {"mode": "Loose"}}, "gangScheduling.mode", 'supported values: "Strict"'),
        (WORKLOAD, {"gangScheduling": {"timeout": "x"}}, "gangScheduling.timeout", "must be a duration"),
        (("workloadprofiles", lambda spec: spec), {"gangScheduling": {"minMembers": 1}}, "spec.gangScheduling", "at least 2"),
        (("schedulingconfigtemplates", lambda spec: spec), {}, "spec.placement", "Required value"),
        (("schedulingconfigtemplates", lambda spec: spec), {"placement": {"mode": "Random"}}, "spec.placement.mode",
         'supported values: "CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad"'),
        (("schedulingconfigtemplates", lambda spec: spec),
         {"placement": {}, "hypervisor": {"autoFreezeAndResume": {"autoFreeze": [{"qos": "low", "freezeToMemTTL": "1 day"}]}}},
         "autoFreeze[0].freezeToMemTTL", "must be a duration such as 30s, 5m, 1d, 2w or 1y"),
        (("gpuresourcequotas", lambda spec: spec), {"total": {"alertThresholdPercent": 101}}, "alertThresholdPercent",
         "less than or equal to 100"),
        (("gpuresourcequotas", lambda spec: spec), {"total": {"limits": {"tflops": "1"}}}, "spec.total.limits.vram", "Required value"),
        (("gpunodes", lambda spec: spec), {"manageMode": "x"}, "spec.manageMode", 'supported values: "Manual"'),
        (("gpunodeclaims", lambda spec: spec), {"tflopsOffered": "1", "vramOffered": "1"}, "spec.gpuDeviceOffered", "Required value"),
        (("gpunodeclaims", lambda spec: spec), {"tflopsOffered": 1, "vramOffered": 1, "gpuDeviceOffered": 1, "capacityType": "Cheap"},
         "spec.capacityType", 'supported values: "OnDemand", "Reserved", "Spot"'),
        (("gpunodeclasses", lambda spec: spec), {"osImageType": "x"}, "spec.osImageType", 'supported values: "Private"'),
        (("providerconfigs", lambda spec: spec), {"vendor": "NVIDIA"}, "spec.images", "Required value"),
        (("providerconfigs", lambda spec: spec), {"vendor": "", "images": {"middleware": "x"}}, "spec.vendor", "at least 1 chars"),
        (("tensorfusionconnections", lambda spec: spec), {"workloadName": "w"}, "spec.clientPod", "Required value"),
    ]
    NAMESPACED = {"tensorfusionworkloads", "workloadprofiles", "gpuresourcequotas", "tensorfusionconnections"}

    def test_bad_values_are_refused(self):
        for (plural, place), value, field, allowed in self.BAD:
            with self.subTest(plural=plural, value=value):
                namespace = "default" if plural in self.NAMESPACED else ""
                status, answer = self.make(plural, {"spec": place(value)}, namespace)
                self.assertEqual(status, 422, answer)
                self.assertIn(field, answer["message"])
                self.assertIn(allowed, answer["message"])
                self.assertNotIn("internal error", answer["message"].lower())

    # What is accepted although it looks odd: whole specs.
    GOOD = [
        ("gpupools", {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"batchInterval": "0"}}}),
        ("gpupools", {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"batchInterval": "1.5h", "maxUnavailable": 3}}}),
        ("gpupools", {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"maxUnavailable": "100%", "maxFailures": 0}}}),
        # Lines that nothing is made of are ignored, as in older versions.
        ("gpupools", {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"maintenanceWindow": {"includes": ["@daily"]}}}}),
        ("gpupools", {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"maintenanceWindow": {
            "enforced": True, "timeZone": "Europe/Berlin", "includes": ["0 2 * * 6", " 30  3 * * 0 "]}}}}),
        ("gpupools", {"nodeManagerConfig": {}, "capacityConfig": {"minResources": {"tflops": 20, "vram": "1.5e3"}}}),
        ("gpupools", {"nodeManagerConfig": {}, "capacityConfig": {}, "componentConfig": {}, "qosConfig": {}}),
        ("tensorfusionclusters", {}),
        ("tensorfusionclusters", {"gpuPools": []}),
        ("tensorfusionworkloads", {"gangScheduling": {}}),
        ("tensorfusionworkloads", {"replicas": 3, "gangScheduling": {"minMembers": 3, "timeout": "5m"}}),
        ("schedulingconfigtemplates", {"placement": {}}),
        ("gpuresourcequotas", {}),
        ("gpunodes", {}),
    ]

    def test_odd_values_are_accepted(self):
        for plural, spec in self.GOOD:
            with self.subTest(plural=plural, spec=spec):
                status, answer = self.make(plural, {"spec": spec}, "default" if plural in self.NAMESPACED else "")
                self.assertEqual(status, 201, answer)

    def test_objects_without_a_spec(self):
        for plural in ("gpupools", "gpunodes", "gpunodeclasses", "schedulingconfigtemplates", "tensorfusionclusters"):
            for body in ({}, {"spec": None}):
                with self.subTest(plural=plural, body=body):
                    status, answer = self.make(plural, body)
                    self.assertEqual(status, 201, answer)

    def test_defaults(self):
        _, pool = self.make("gpupools", {"spec": {
            "capacityConfig": {"oversubscription": {}}, "componentConfig": {"hypervisor": {}},
            "qosConfig": {"pricing": [{"requests": {}}]},
            "nodeManagerConfig": {"nodeCompaction": {"defrag": {"timezone": "UTC"}}, "nodeProvisioner": {
                "gpuTaints": [{"key": "a"}], "gpuRequirements": [{"key": "kubernetes.io/os"}]},
                "nodePoolRollingUpdatePolicy": {"maintenanceWindow": {}}}}})
        spec = pool["spec"]
        self.assertEqual(spec["capacityConfig"]["oversubscription"],
                         {"vramExpandToHostMem": 50, "vramExpandToHostDisk": 70, "tflopsOversellRatio": 500})
        self.assertEqual(spec["componentConfig"]["hypervisor"], {"portNumber": 8000})
        self.assertEqual(spec["qosConfig"], {
            "evictionProtectionPriceRatio": "1.2", "pricing": [{"limitsOverRequests": "1", "requests": {
                "perFP16TFlopsPerHour": "$0.0069228", "perGBOfVRAMPerHour": "$0.01548"}}]})
        manager = spec["nodeManagerConfig"]
        self.assertEqual((manager["provisioningMode"], manager["defaultIsolationMode"], manager["defaultVendor"]),
                         ("AutoSelect", "soft", "NVIDIA"))
        self.assertEqual(manager["nodePoolRollingUpdatePolicy"], {
            "batchPercentage": 100, "batchInterval": "1s", "maxDuration": "1h", "progressDeadlineSeconds": 600,
            "onFailure": "Pause", "maxFailures": 0, "maintenanceWindow": {"timeZone": "UTC"}})
        self.assertEqual(manager["nodeCompaction"], {"period": "5m", "defrag": {
            "enabled": False, "schedule": "0 3 * * *", "timezone": "UTC", "maxDuration": "2h", "utilizationThresholdPercent": 40,
            "evictedPodMarkerTTL": "never", "sourceNodeMarkerTTL": "30m"}})
        self.assertEqual(manager["nodeProvisioner"], {"gpuTaints": [{"key": "a", "effect": "NoSchedule"}],
                                                      "gpuRequirements": [{"key": "kubernetes.io/os", "operator": "In"}]})
        _, workload = self.make("tensorfusionworkloads", {"spec": {"gangScheduling": {}}}, "default")
        self.assertEqual(workload["spec"], {"isolation": "soft", "gangScheduling": {"minMembers": 0, "mode": "Strict"}})
        _, quota = self.make("gpuresourcequotas", {"spec": {"total": {}}}, "default")
        self.assertEqual(quota["spec"]["total"], {"maxWorkers": 32768, "alertThresholdPercent": 95})
        _, template = self.make("schedulingconfigtemplates", {"spec": {"placement": {}}})
        self.assertEqual(template["spec"]["placement"], {"mode": "NodeCompactGPULowLoad", "allowUsingLocalGPU": True})
        _, node = self.make("gpunodes", {"spec": {}})
        self.assertEqual(node["spec"], {"manageMode": "AutoSelect"})

    def test_unknown_fields(self):
        template = {"template": {"spec": {"containers": [{"name": "tensorfusion-worker", "env": [{"name": "A", "vaule": "b"}]}]}}}
        status, pool = self.make("gpupools", {"spec": {"nodeManagerConfig": {"typo": 1}, "typo": {"a": 1},
                                                       "componentConfig": {"worker": {"podTemplate": template}}}})
        self.assertEqual(status, 201)
        self.assertNotIn("typo", pool["spec"])
        self.assertNotIn("typo", pool["spec"]["nodeManagerConfig"])
        self.assertEqual(pool["spec"]["componentConfig"]["worker"]["podTemplate"], template)  # free form

    def test_columns(self):
        def table(what, *arguments):
            lines = self.server.kubectl("get", what, "-A", *arguments).stdout.splitlines()
            return lines[0], "\n".join(lines[1:])

        for name in ("tensor_fusion_cluster", "gpu_pool", "gpu_node", "gpu", "cloud_nodes", "provider_config", "scheduling",
                     "workload"):
            path = os.path.join(SAMPLES, name + ".yaml")
            self.server.kubectl("apply", "--validate=ignore", "-f", path)
            self.addCleanup(self.server.kubectl, "delete", "--wait=false", "-f", path)
            # The statuses, which apply does not write.
            for sample in json_documents(self.server.kubectl("create", "--dry-run=client", "-o", "json", "-f", path).stdout):
                if "status" not in sample:
                    continue
                plural = sample["kind"].lower() + "s"
                where = self.path(plural, sample["metadata"]["name"], sample["metadata"].get("namespace", ""))
                status, answer = self.server.call("PATCH", where + "/status", {"status": sample["status"]},
                                                  "application/merge-patch+json")
                self.assertEqual(status, 200, answer)
        head, rows = table("gpupools")
        self.assertEqual(head.split(maxsplit=1)[0], "NAME")
        for word in ("PHASE", "TOTAL NODES", "HYPERVISOR %", "WORKER %", "CLIENT %", "ROLLOUT", "LICENSE"):
            self.assertIn(word, head)
        self.assertRegex(rows, r"gpupool-sample +Updating +5 +4 +40 +100 +1Gi +100 +20 +0 +Progressing +valid +\d+s")
        _, rows = table("gpupools", "-o", "wide")
        self.assertRegex(rows, r"AutoSelect")
        head, rows = table("gpus")
        self.assertRegex(rows, r"NVIDIA A100-SXM4-80GB +Running +312 +80Gi +200 +40Gi +GPU-8a1b +tensor-fusion +node-1 ")
        _, rows = table("gpuresourcequotas")
        self.assertRegex(rows, r"production +10 +1Gi +1 +90 +\d+s")
        _, rows = table("schedulingconfigtemplates")
        self.assertRegex(rows, r"tf-scheduling-config +NodeCompactGPULowLoad +true +true +\d+s")
        _, rows = table("tensorfusionworkloads")
        self.assertRegex(rows, r"everything +Running +4 +4 +tensor-fusion-shared +high +false +2 +4 +\d+s")
        _, rows = table("tensorfusionclusters")
        self.assertRegex(rows, r"everything +Running +1 +2 +16 +4992 +1280Gi +-1 +0 +\d+s")
        _, rows = table("gpunodes")
        self.assertRegex(rows, r"node-1 +Running +624 +160Gi +3120 +200Gi +31250m +10Gi +2 +\d+s")
        _, rows = table("gpunodeclaims")
        self.assertRegex(rows, r"gpunodeclaim-sample +Bound +gpu-node-1 +g5.xlarge +\d+s")
        _, rows = table("tensorfusionconnections")
        self.assertRegex(rows, r"Running +native\+10.0.0.1\+8000\S+ +everything-tf-worker-x +everything +app +\d+s")
        _, rows = table("providerconfigs")
        self.assertRegex(rows, r"nvidia-provider +NVIDIA +\d+s")

    def test_short_names_and_category(self):
        self.make("gpupools", {"metadata": {"name": "short"}, "spec": {"nodeManagerConfig": {}}})
        self.make("tensorfusionworkloads", {"metadata": {"name": "short"}, "spec": {}}, "default")
        for name in ("tfc", "gp", "gn", "gpu", "gnc", "gnclass", "pcfg", "sct", "gquota", "tfw", "tfconn", "wp"):
            self.server.kubectl("get", name)
        listed = self.server.kubectl("get", "tensor-fusion", "-o", "name").stdout
        self.assertIn("gpupool.tensor-fusion.ai/short", listed)
        self.assertIn("tensorfusionworkload.tensor-fusion.ai/short", listed)
        self.assertIn("gpupool.tensor-fusion.ai/short", self.server.kubectl("get", "gp", "short", "-o", "name").stdout)

    def test_explain(self):
        text = self.server.kubectl(
            "explain", "gpupool.spec.nodeManagerConfig.nodePoolRollingUpdatePolicy.batchPercentage").stdout
        self.assertIn("Percent of the nodes in a batch", text)

    def test_scale(self):
        self.make("tensorfusionworkloads", {"metadata": {"name": "scaled"}, "spec": {"replicas": 1}}, "default")
        where = self.path("tensorfusionworkloads", "scaled", "default")
        status, answer = self.server.call("PATCH", where + "/status", {"status": {"workerCount": 1, "selector": "a=b"}},
                                          "application/merge-patch+json")
        self.assertEqual(status, 200, answer)
        self.server.kubectl("scale", "tfw/scaled", "-n", "default", "--replicas=5")
        _, scale = self.server.call("GET", where + "/scale")
        self.assertEqual((scale["spec"]["replicas"], scale["status"]["replicas"], scale["status"]["selector"]), (5, 1, "a=b"))
        self.assertEqual(self.server.call("GET", where)[1]["spec"]["replicas"], 5)

    def test_status_is_apart(self):
        _, pool = self.make("gpupools", {"spec": {"nodeManagerConfig": {}}, "status": {"phase": "Running"}})
        self.assertNotEqual(pool.get("status", {}).get("phase"), "Running")
        where = self.path("gpupools", pool["metadata"]["name"])
        status, answer = self.server.call("PATCH", where + "/status", {"status": {"phase": "Running"}},
                                          "application/merge-patch+json")
        self.assertEqual(status, 422)  # not complete
        self.assertIn("status.componentStatus", answer["message"])

    def test_structs(self):
        """src/api against this server: typed_test.cc."""
        done = subprocess.run([TYPED_TEST], env={**os.environ, "TF_TEST_SERVER": self.server.url, "TF_TEST_TOKEN": TOKEN},
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
        self.assertRegex(done.stdout, r"\[  PASSED  \] [1-9]")

    def test_upgrade_keeps_objects(self):
        """From a schema that knew less and checked less to this one, and back: objects stay, readable and writable."""
        name = "gpupools.tensor-fusion.ai"
        where = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        _, ours = self.server.call("GET", where)
        older = copy.deepcopy(ours)
        version = older["spec"]["versions"][0]
        version["additionalPrinterColumns"] = []
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        for added in ("rollouts", "license", "observedGeneration"):
            del properties["status"]["properties"][added]
        policy = properties["spec"]["properties"]["nodeManagerConfig"]["properties"]["nodePoolRollingUpdatePolicy"]
        for added in ("paused", "maxUnavailable", "minReadySeconds", "progressDeadlineSeconds", "onFailure", "maxFailures"):
            del policy["properties"][added]
        policy["properties"]["batchPercentage"]["minimum"] = 0
        policy["properties"]["maintenanceWindow"] = {"type": "object", "properties": {
            "includes": {"type": "array", "items": {"type": "string"}}}}
        policy["properties"]["batchInterval"] = {"type": "string", "default": "1s"}
        policy["properties"]["maxDuration"] = {"type": "string", "default": "10m"}

        def put(definition):
            definition["metadata"].pop("resourceVersion", None)
            _, current = self.server.call("GET", where)
            definition["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
            status, answer = self.server.call("PUT", where, definition)
            self.assertEqual(status, 200, answer)

        def created(policy):
            return self.make("gpupools", {"spec": {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": policy}}})

        put(older)
        self.addCleanup(put, ours)
        # The schema in force is the older one as soon as it takes what the newer one refuses.
        self.server.wait(lambda: created({"batchPercentage": 0})[0] == 201, "the older schema is in force")
        status, pool = created({"batchPercentage": 0, "batchInterval": "soon", "autoUpdateWorker": True})
        self.assertEqual(status, 201, pool)
        self.assertEqual(pool["spec"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"]["maxDuration"], "10m")

        put(ours)
        self.server.wait(lambda: created({"batchPercentage": 0})[0] == 422, "the newer schema is in force")
        there = self.path("gpupools", pool["metadata"]["name"])
        status, read = self.server.call("GET", there)
        self.assertEqual(status, 200)
        policy = read["spec"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"]
        # What it said stays, what is new has its default.
        self.assertEqual((policy["batchPercentage"], policy["batchInterval"], policy["maxDuration"], policy["onFailure"]),
                         (0, "soon", "10m", "Pause"))
        # A change elsewhere is not held up by values that were there before.
        status, answer = self.server.call("PATCH", there, {"metadata": {"labels": {"a": "b"}},
                                                           "spec": {"schedulingConfigTemplate": "t"}},
                                          "application/merge-patch+json")
        self.assertEqual(status, 200, answer)

        put(older)
        self.server.wait(lambda: created({"batchPercentage": 0})[0] == 201, "the older schema is in force again")
        status, answer = self.server.call("GET", there)
        self.assertEqual(status, 200)
        self.assertEqual(answer["spec"]["schedulingConfigTemplate"], "t")


def json_documents(text):
    """What kubectl prints for several documents: one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        yield from document["items"] if document.get("kind") == "List" else [document]
        while at < len(text) and text[at].isspace():
            at += 1


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
