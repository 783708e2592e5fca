"""A pool on process nodes with the real operator as a child process, and a record of what the API server's watch says of
its pods: what is checked comes from there and not from the operator's own counters."""
import json
import subprocess
import tempfile
import threading
from urllib.parse import quote

from cluster import Cluster, await_value
from operator_process import NAMESPACE, Operator, install

POOL = "tensor-fusion-shared"
IDLE = ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 0.2; done"]


def worker_template(env=(), command=tuple(IDLE)):
    return {"template": {"spec": {
        "terminationGracePeriodSeconds": 2,
        # One on each node, so that nodes are what is counted.
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"tensor-fusion.ai/component": "worker"}}}],
        "containers": [{"name": "tensorfusion-worker", "command": list(command), "env": list(env),
                        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}]}}}


def hypervisor_template():
    return {"template": {"spec": {
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "tensorfusion-hypervisor", "command": IDLE,
                        "livenessProbe": {"exec": {"command": ["true"]}},
                        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}]}}}


class PodRecord:
    """All pods of a component that the watch has told of: {uid: newest state}, and the most nodes that were without a
    ready pod at a time since `mark`."""

    def __init__(self, cluster, selector):
        self.lock = threading.Lock()
        self.pods = {}      # uid -> object, also of those that are gone
        self.gone = set()
        self.nodes = set()  # that matter for `worst`
        self.worst = 0
        self.process = subprocess.Popen(
            [cluster.program("kubectl"), "get", "--raw",
             f"/api/v1/pods?watch=1&timeoutSeconds=3600&labelSelector={quote(selector)}"],
            env=cluster.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with self.lock:
                pod = event["object"]
                self.pods[pod["metadata"]["uid"]] = pod
                if event["type"] == "DELETED":
                    self.gone.add(pod["metadata"]["uid"])
                down = len(self.nodes) - len(self._ready_nodes() & self.nodes)
                self.worst = max(self.worst, down)

    def _ready_nodes(self):
        return {pod["spec"].get("nodeName") for uid, pod in self.pods.items()
                if uid not in self.gone and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]}

    def mark(self):
        with self.lock:
            self.nodes = self._ready_nodes()
            self.worst = 0
            return set(self.pods)

    def since(self, mark):
        with self.lock:
            return set(self.pods) - mark

    def alive(self):
        with self.lock:
            return {uid: pod for uid, pod in self.pods.items() if uid not in self.gone}


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


class Rig:
    def __init__(self, programs, source, nodes):
        self.cluster = Cluster(programs)
        self.source = source
        self.folder = tempfile.TemporaryDirectory(prefix="tf-rollouts-")
        self.nodes = nodes
        self.records = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for record in self.records:
            record.close()
        self.operator.close()
        self.cluster.close()
        self.folder.cleanup()

    def start(self):
        self.operator = Operator(self.cluster, self.folder.name, "--no-leader-elect")
        self.cluster.up("--nodes", str(self.nodes), "--gpus-per-node", "A100-80G:1", "--image", "busybox=/")
        install(self.cluster, self.source)
        self.cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "tensor-fusion-hypervisor-sa")
        self.cluster.kubectl("create", "namespace", "apps")
        self.cluster.kubectl("label", "nodes", "--all", "pool=shared")

    def record(self, component):
        record = PodRecord(self.cluster, f"tensor-fusion.ai/component={component}")
        self.records.append(record)
        return record

    def apply(self, *objects):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.cluster.kubectl("apply", "-f", "-", input=text)

    def make_pool(self, worker=None, **policy):
        self.apply({
            "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tensor-fusion"},
            "spec": {"gpuPools": [{"name": "shared", "isDefault": True, "specTemplate": {
                "componentConfig": {
                    "hypervisor": {"image": "busybox:1", "podTemplate": hypervisor_template()},
                    "worker": worker or {"image": "busybox:1", "podTemplate": worker_template()},
                    "client": {"image": "busybox:1"}},
                "nodeManagerConfig": {
                    "nodeSelector": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["shared"]}]}]},
                    "nodePoolRollingUpdatePolicy": {
                        "autoUpdateHypervisor": True, "autoUpdateWorker": True, "autoUpdateClient": True,
                        "batchPercentage": 34, "batchInterval": "1s", **policy}}}}]}})

    def make_workload(self, replicas, ns="apps", name="workers"):
        self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionWorkload",
                    "metadata": {"name": name, "namespace": ns},
                    "spec": {"replicas": replicas, "poolName": POOL,
                             "resources": {"requests": {"tflops": "1", "vram": "1Gi"},
                                           "limits": {"tflops": "1", "vram": "1Gi"}}}})

    def patch(self, operations):
        """JSON patch of the TensorFusionCluster below its one pool's specTemplate."""
        prefix = "/spec/gpuPools/0/specTemplate"
        patch = [{**operation, "path": prefix + operation["path"]} for operation in operations]
        self.cluster.kubectl("patch", "tensorfusioncluster", "tensor-fusion", "--type=json", "-p", json.dumps(patch))

    def set_image(self, component, image):
        self.patch([{"op": "replace", "path": f"/componentConfig/{component}/image", "value": image}])

    def set_policy(self, **policy):
        self.patch([{"op": "add", "path": f"/nodeManagerConfig/nodePoolRollingUpdatePolicy/{key}", "value": value}
                    for key, value in policy.items()])

    def pool(self):
        done = self.cluster.kubectl("get", "gpupool", POOL, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self):
        return (self.pool() or {}).get("status", {})

    def rollout(self, component):
        found = [one for one in self.status().get("rollouts", []) if one["component"] == component]
        return found[0] if found else {}

    def events(self):
        done = self.cluster.kubectl("get", "events", "-A", "-o", "json")
        return [event for event in json.loads(done.stdout)["items"]
                if event.get("involvedObject", {}).get("kind") == "GPUPool"]

    def await_synced(self, component, revision_not=None, limit=120):
        def synced():
            status = self.status().get("componentStatus", {})
            return (status.get(f"{component}ConfigSynced") and status.get(f"{component}UpdateProgress") == 100
                    and status.get(component) != revision_not and status)
        return await_value(synced, limit, lambda: self.told(f"{component} is not synced"), every=0.3)

    def await_rollout(self, component, wanted, what, limit=60):
        return await_value(lambda: (one := self.rollout(component)) and wanted(one) and one, limit,
                           lambda: self.told(what), every=0.2)

    def await_pods(self, record, count, limit=120):
        def ready():
            alive = record.alive()
            return len(alive) == count and all(is_ready(pod) for pod in alive.values()) and alive
        return await_value(ready, limit, lambda: self.told(f"not {count} pods ready: {len(record.alive())}"), every=0.3)

    def told(self, what):
        pods = self.cluster.kubectl("get", "pods", "-A", "-o", "wide", check=False).stdout
        return f"{what}\n{json.dumps(self.status(), indent=1)}\n{pods}\n{self.operator.said()}"
