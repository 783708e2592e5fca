"""Performs a page of the documentation command by command: what is printed there is what is run here, in a shell, with kubectl, helm and
tfctl in PATH. What is changed: the repository's address, and image names.

The cluster's nodes are process nodes or true ones (nodes.py); the chart is packed and served on loopback, with the values that such nodes
need as its defaults, so that the printed helm commands need no more options.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "tests/standalone"), str(ROOT / "tests/chart")]
from cluster import await_value  # noqa: E402  pylint: disable=wrong-import-position
from nodes import ProcessNodes, TrueNodes, read_yaml  # noqa: E402  pylint: disable=wrong-import-position
from served_chart import ServedChart, copy_of_chart  # noqa: E402  pylint: disable=wrong-import-position

SYSTEM = "tensor-fusion-sys"
POOL = "tensor-fusion-shared"
COMPONENTS = ("hypervisor", "worker", "client")
PATIENCE_S = 240  # on a machine that does other work

# `kubectl edit` starts this as an editor: it changes the object as the test's function says.
EDITOR = """#!{python}
import json, sys, yaml
with open(sys.argv[1]) as file: document = yaml.safe_load(file)
with open({change!r}) as file: change = json.load(file)
for pool in document["spec"]["gpuPools"]:
    if pool["name"] == change["pool"]: pool["specTemplate"] = change["specTemplate"]
with open(sys.argv[1], "w") as file: yaml.safe_dump(document, file)
"""


class Page:
    """The cluster, the chart and the shell of one run. Everything is ended and removed at its end.

    TRUE_NODES: kubelets with containers, by root; TAGS are those that the page gives to our images there.
    """

    def __init__(self, build, nodes, true_nodes=False, tags=(), values=None):
        self.build = pathlib.Path(build).resolve()
        self.programs = self.build / "bin"
        self._stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-page-")))
        self.began = time.monotonic()
        try:
            self.chart = self._stack.enter_context(ServedChart())
            self.cluster = self._stack.enter_context(
                TrueNodes(self.build, self.folder, tags) if true_nodes else ProcessNodes(self.build, self.folder))
            self.defaults = merged(self.cluster.values, values or {})
            self.serve("0.1.1", "1.0.1")
            self.cluster.start(nodes)
            print(f"{nodes} {'true' if true_nodes else 'process'} nodes are there after {time.monotonic() - self.began:.0f} s", flush=True)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print(self.state(), flush=True)
        self._stack.close()

    def serve(self, version, app_version):
        """The chart as VERSION, the newest one in the repository from now on."""
        with tempfile.TemporaryDirectory() as folder:
            chart = copy_of_chart(folder, version, app_version)
            defaults = merged(read_yaml(chart / "values.yaml"), self.defaults)
            (chart / "values.yaml").write_text(yaml.safe_dump(defaults), encoding="utf-8")
            self.chart.add(chart=chart)

    # ---- commands

    def environment(self):
        home = str(self.folder)
        path = os.pathsep.join([str(self.programs), str(pathlib.Path(self.chart.helm).parent), os.environ["PATH"]])
        return {**os.environ, "KUBECONFIG": self.cluster.kubeconfig, "PATH": path, "HELM_CACHE_HOME": f"{home}/helm/cache",
                "HELM_CONFIG_HOME": f"{home}/helm/config", "HELM_DATA_HOME": f"{home}/helm/data", "KUBE_EDITOR": f"{home}/editor"}

    def run(self, command, *expected, status=0, refused=(), quiet=False):
        """Runs a command line of the page. Every pattern of EXPECTED must be in what it prints, none of REFUSED may be."""
        begin = time.monotonic()
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + command], env=self.environment(), capture_output=True, text=True,
                              timeout=PATIENCE_S + 60, check=False)
        text = done.stdout + done.stderr
        if not quiet:
            self._show(command, begin, text)
        problems = [f"exit status {done.returncode}, expected {status}"] if done.returncode != status else []
        problems += [f"no /{pattern}/" for pattern in expected if not re.search(pattern, text, re.MULTILINE)]
        problems += [f"has /{pattern}/" for pattern in refused if re.search(pattern, text, re.MULTILINE)]
        if problems:
            raise AssertionError(f"$ {command}\n{'; '.join(problems)}\n{text}")
        return done.stdout

    def _show(self, command, begin, text):
        print(f"[{time.monotonic() - self.began:6.1f} s] $ {command}   ({time.monotonic() - begin:.1f} s)", flush=True)
        print("".join(f"    {line[:230]}\n" for line in text.splitlines()[:40]), end="", flush=True)

    def until(self, what, ask, limit=PATIENCE_S):
        """Waits for ASK to give something true; what it gave. An AssertionError of its own is the reason at the end."""
        last = [""]

        def attempt():
            try:
                return ask()
            except AssertionError as problem:
                last[0] = str(problem)
                return None

        begin = time.monotonic()
        value = await_value(attempt, limit, lambda: f"waited for: {what}. {last[0]}", every=0.2)
        print(f"[{time.monotonic() - self.began:6.1f} s] {what} ({time.monotonic() - begin:.1f} s)", flush=True)
        return value

    def until_run(self, command, *expected, limit=PATIENCE_S, **options):
        """Repeats a command of the page, as a person does, until it prints what is expected. That answer is the one which is
        shown: the next may be another one."""
        def attempt():
            begin = time.monotonic()
            return begin, self.run(command, *expected, quiet=True, **options)

        begin, text = self.until(f"`{command}` shows {', '.join(expected)}", attempt, limit)
        self._show(command, begin, text)
        return text

    # ---- objects

    def get(self, *arguments):
        return json.loads(self.cluster.kubectl("get", *arguments, "-o", "json").stdout)

    def pods(self, component, namespace=None):
        """Of a component, by name; those that are being deleted are left out."""
        where = ["-n", namespace] if namespace else ["-A"]
        items = self.get("pods", *where, "-l", f"tensor-fusion.ai/component={component}")["items"]
        return {pod["metadata"]["name"]: pod for pod in items if "deletionTimestamp" not in pod["metadata"]}

    def pool(self):
        return self.get("gpupool", POOL)

    def component_status(self):
        """As the page prints it."""
        return json.loads(self.run(f"kubectl get gpupool {POOL} -o jsonpath='{{.status.componentStatus}}{{\"\\n\"}}'", quiet=True))

    def rollout(self, component):
        found = [one for one in self.pool().get("status", {}).get("rollouts", []) if one["component"] == component]
        return found[0] if found else {}

    def condition(self, kind):
        found = [one for one in self.pool().get("status", {}).get("conditions", []) if one["type"] == kind]
        return found[0] if found else {}

    def template(self):
        """A copy of what the TensorFusionCluster says of the pool."""
        cluster = self.get("tensorfusioncluster", "tensor-fusion")
        return next(pool["specTemplate"] for pool in cluster["spec"]["gpuPools"] if pool["name"] == "shared")

    def edit(self, change):
        """`kubectl edit tensorfusioncluster tensor-fusion`, as the pages print it; CHANGE alters the pool's specTemplate."""
        template = self.template()
        change(template)
        (self.folder / "change.json").write_text(json.dumps({"pool": "shared", "specTemplate": template}), encoding="utf-8")
        editor = self.folder / "editor"
        editor.write_text(EDITOR.format(python=sys.executable, change=str(self.folder / "change.json")), encoding="utf-8")
        editor.chmod(0o700)
        self.run("kubectl edit tensorfusioncluster tensor-fusion", "edited")

    def until_synced(self, component, other_revision_than, limit=PATIENCE_S):
        """Until the page's two conditions hold: progress 100 and configuration synced, for another revision than before."""

        def synced():
            status = self.component_status()
            rest = f"{status} {self.rollout(component)}"
            assert status[component] not in ("", other_revision_than), f"still the revision of before: {rest}"
            assert status[f"{component}UpdateProgress"] == 100 and status[f"{component}ConfigSynced"] is True, rest
            return status

        return self.until(f"{component}UpdateProgress is 100 and {component}ConfigSynced true", synced, limit)

    def state(self):
        """For a person who looks for what went wrong."""
        parts = []
        for command in (f"kubectl get gpupool {POOL} -o yaml", "kubectl get tensorfusioncluster -o yaml", "kubectl get gpunode,gpu -o wide",
                        "kubectl get pods -A -o wide", "kubectl get events -A --sort-by=.lastTimestamp | tail -n 40",
                        f"kubectl -n {SYSTEM} logs deployment/tensor-fusion-sys-controller-manager --tail=60"):
            done = subprocess.run(["bash", "-c", command], env=self.environment(), capture_output=True, text=True, check=False)
            parts.append(f"$ {command}\n{done.stdout}{done.stderr}")
        return "\n".join(parts)


class Watch:
    """What happens to the pods of a component, from a watch of the API server: [(seconds, what, node, pod's UID)] with what "gone"
    (its deletion has begun, or it is finished) or "ready"."""

    def __init__(self, page, component, namespace):
        self._process = subprocess.Popen(
            [page.programs / "kubectl", "get", "pods", "-n", namespace, "-l", f"tensor-fusion.ai/component={component}", "--watch",
             "--output-watch-events", "-o", "json"], env=page.environment(), stdout=subprocess.PIPE, text=True)
        self.events = []
        self._states = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="watch of pods", daemon=True)
        self._thread.start()

    def _read(self):
        decoder, text = json.JSONDecoder(), ""
        for line in self._process.stdout:
            text += line
            if not line.rstrip().endswith("}"):
                continue
            with contextlib.suppress(ValueError):  # the event goes on
                event, _ = decoder.raw_decode(text)
                text = ""
                self._note(event["type"], event["object"])

    def _note(self, kind, pod):
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
        gone = kind == "DELETED" or "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ("Failed", "Succeeded")
        state = "gone" if gone else "ready" if ready else "starting"
        uid = pod["metadata"]["uid"]
        with self._lock:
            if self._states.get(uid) != state:
                self._states[uid] = state
                if state != "starting":
                    self.events.append((time.monotonic(), state, pod["spec"].get("nodeName", ""), uid))

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def snapshot(self):
        with self._lock:
            return list(self.events)

    def expect_batches(self, since, nodes, batch_size, interval):
        """Each node's pods went once and came back; never more nodes than a batch were without, and between the last one that came back
        and the next that went there was the interval. The sizes of the batches."""
        missing, batches, healthy_at = set(), [], None
        for at, what, node, _ in self.snapshot():
            if at < since:
                continue
            if what == "gone":
                if not missing:
                    assert healthy_at is None or at - healthy_at > interval - 0.5, \
                        f"only {at - healthy_at:.2f} s between two batches, expected {interval} s"
                    batches.append(0)
                assert node not in missing, f"{node} went twice"
                missing.add(node)
                batches[-1] += 1
                assert len(missing) <= batch_size, f"{sorted(missing)} were without at once; a batch has {batch_size}"
            elif node in missing:
                missing.discard(node)
                if not missing:
                    healthy_at = at
        assert not missing, f"did not come back: {missing}"
        assert sum(batches) == nodes, f"{batches}: expected that each of {nodes} nodes has its turn once"
        return batches


def merged(base, over):
    result = dict(base)
    for key, value in over.items():
        result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


def licence(page, *arguments):
    """{"TF_LICENSE": ..., "TF_LICENSE_SIGN": ...}, signed with the key that this build trusts."""
    done = subprocess.run([page.programs / "tfctl", "license", "issue", "--format", "json", *arguments], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def workers(replicas, name="workers"):
    """A TensorFusionWorkload of the pool, one worker on each node."""
    return yaml.safe_dump({
        "apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionWorkload", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "poolName": POOL, "qos": "medium", "isolation": "soft",
                 "resources": {"requests": {"tflops": "10", "vram": "2Gi"}, "limits": {"tflops": "10", "vram": "2Gi"}},
                 "workerPodTemplate": {"spec": {"containers": [{"name": "tensorfusion-worker"}], "topologySpreadConstraints": [
                     {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                      "labelSelector": {"matchLabels": {"tensor-fusion.ai/workload": name}}}]}}}})
