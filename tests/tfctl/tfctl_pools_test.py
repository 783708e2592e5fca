#!/usr/bin/env python3
"""tfctl pool, rollout and license usage against the API server of `tfctl up`; the test writes the status that an operator would write.

Usage: tfctl_pools_test.py BIN_FOLDER [UNITTEST ARGUMENTS]
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/standalone"))
from cluster import Cluster, await_value  # noqa: E402  pylint: disable=wrong-import-position

PROGRAMS = ""
POOL = "tensor-fusion-shared"
COMPONENTS = ("hypervisor", "worker", "client")


def block(image):
    return {"image": image, "podTemplate": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}}}


def spec(worker_image, **policy):
    return {"nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"autoUpdateHypervisor": True, "autoUpdateWorker": True,
                                                                  "autoUpdateClient": True, "batchPercentage": 20, **policy}},
            "componentConfig": {"hypervisor": block("h:1"), "worker": block(worker_image), "client": {"image": "c:1"}}}


def rollout(component, phase, updated, total=4, **others):
    return {"component": component, "phase": phase, "nodes": {"total": total, "updated": updated, "ready": updated, "failed": 0, "skipped": 0},
            "batch": updated, "batches": total, **others}


class PoolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(PROGRAMS)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.up("--nodes", "0")
        cls.uninstalled = cls.tfctl("pool", check=False)
        cls.cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "charts/tensor-fusion/crds"))
        cls.cluster.kubectl("wait", "--for=condition=Established", "crd/gpupools.tensor-fusion.ai", "--timeout=60s")
        cls.empty = cls.tfctl("pool")
        cls.cluster.kubectl("create", "namespace", "tensor-fusion-sys")

    @classmethod
    def tfctl(cls, *arguments, check=True, program="tfctl", **options):
        done = subprocess.run([os.path.join(PROGRAMS, program), *arguments], env=cls.cluster.env(), capture_output=True, text=True, timeout=120,
                              check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def apply(self, item):
        return json.loads(self.cluster.kubectl("apply", "-f", "-", "-o", "json", input=json.dumps(item)).stdout)

    def get(self, *what):
        return json.loads(self.cluster.kubectl("get", *what, "-o", "json").stdout)

    def source(self):
        return self.get("tensorfusioncluster", "tensor-fusion")["spec"]["gpuPools"][1]["specTemplate"]

    def setUp(self):
        """A TensorFusionCluster with two pools, and the second one's GPUPool, complete."""
        self.addCleanup(self.cluster.kubectl, "delete", "gpupool,tensorfusioncluster", "--all")
        self.addCleanup(self.cluster.kubectl, "delete", "controllerrevision", "--all", "-n", "tensor-fusion-sys")
        cluster = self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tensor-fusion"},
                              "spec": {"gpuPools": [{"name": "other", "specTemplate": {"nodeManagerConfig": {}}},
                                                    {"name": "shared", "specTemplate": spec("w:2")}]}})
        self.owner = {"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "name": "tensor-fusion",
                      "uid": cluster["metadata"]["uid"], "controller": True}
        self.see_cluster()
        self.write_pool("w:2")
        self.revisions = {}
        for number, image in ((1, "w:0"), (2, "w:1"), (3, "w:2")):
            self.record(number, image)

    def see_cluster(self):
        """The operator has looked at the TensorFusionCluster."""
        generation = self.get("tensorfusioncluster", "tensor-fusion")["metadata"]["generation"]
        zero = {name: "0" for name in ("totalTFlops", "totalVRAM", "virtualTFlops", "virtualVRAM", "availableTFlops", "availableVRAM")}
        self.patch_status("tensorfusioncluster/tensor-fusion", {"phase": "Running", "observedGeneration": generation, "totalPools": 2,
                                                                "totalNodes": 0, "totalGPUs": 0, "retryCount": 0, **zero})

    def write_pool(self, worker_image, **policy):
        pool = self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": POOL, "ownerReferences": [self.owner]},
                           "spec": spec(worker_image, **policy)})
        self.uid = pool["metadata"]["uid"]
        self.write_status({name: (f"{name}-{worker_image}", 100) for name in COMPONENTS}, [rollout(name, "Complete", 4) for name in COMPONENTS])

    def write_status(self, components, rollouts, seen=True, **others):
        status = {"phase": "Running", "totalNodes": 4, "readyNodes": 4, "notReadyNodes": 0, "totalGPUs": 8, "totalTFlops": "2496",
                  "totalVRAM": "640Gi", "virtualTFlops": "12480", "virtualVRAM": "1Ti", "availableTFlops": "2496", "availableVRAM": "640Gi",
                  "componentStatus": {}, "rollouts": rollouts, **others}
        for name, (revision, progress) in components.items():
            status["componentStatus"] |= {name: revision, name + "ConfigSynced": progress == 100, name + "UpdateProgress": progress}
        if seen:
            status["observedGeneration"] = self.get("gpupool", POOL)["metadata"]["generation"]
        self.patch_status(f"gpupool/{POOL}", status)

    def patch_status(self, what, status):
        self.cluster.kubectl("patch", what, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    def record(self, number, image, component="worker"):
        self.apply({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": block(image),
                    "metadata": {"name": f"{POOL}-{component}-d{number}", "namespace": "tensor-fusion-sys", "labels": {
                        "tensor-fusion.ai/component": component, "tensor-fusion.ai/gpupool": POOL,
                        "tensor-fusion.ai/pod-template-hash": f"d{number}"},
                        "ownerReferences": [{"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "name": POOL, "uid": self.uid,
                                             "controller": True}]}})

    # ---- looking

    def test_pools(self):
        self.assertEqual((self.uninstalled.returncode, self.uninstalled.stdout), (1, ""))
        self.assertIn("tensor-fusion is not installed", self.uninstalled.stderr)
        self.assertEqual(self.empty.stdout, "No pools.\n")
        for command in (("pool",), ("pool", "list")):
            self.assertRegex(self.tfctl(*command).stdout, rf"(?m)^{POOL} +Running +4/4 +8 +2496 of 2496 +640Gi of 640Gi +100 % +100 % +100 % ")
        self.assertEqual(self.tfctl("pool", "list", "-o", "name").stdout, f"pool/{POOL}\n")
        self.assertEqual(json.loads(self.tfctl("pool", "-o", "json").stdout)[0]["metadata"]["name"], POOL)
        self.assertRegex(self.tfctl("pool", "describe", POOL).stdout, "(?m)^of +TensorFusionCluster tensor-fusion$")
        self.assertIn("phase: Running", self.tfctl("pool", "describe", f"gpupool/{POOL}", "-o", "yaml").stdout)
        unknown = self.tfctl("pool", "describe", "pool/nowhere", check=False)
        self.assertEqual((unknown.returncode, unknown.stderr), (1, f"tfctl: there is no GPUPool nowhere; there are: {POOL}\n"))
        wrong = self.tfctl("pool", "describe", "node/x", check=False)
        self.assertIn("expected pool/NAME", wrong.stderr)
        self.assertEqual(self.tfctl("pool", "describe", check=False).returncode, 2)

    def test_columns_of_kubectl(self):
        self.assertRegex(self.cluster.kubectl("get", "gpupool").stdout, rf"(?m)^{POOL} .* 100 +100 +100 +[0-9]+s$")
        self.write_status({"worker": ("w", 25)}, [rollout("hypervisor", "Complete", 4), rollout("worker", "Blocked", 1, reason="LicenseRejected")],
                          license={"id": "lic-1", "state": "rejected", "expires": "2027-11-30T00:00:00Z"})
        table = self.cluster.kubectl("get", "gpupool", "-o", "wide").stdout
        self.assertRegex(table, "ROLLOUT +ROLLOUT REASON +LICENSE +LICENSE EXPIRES")
        self.assertRegex(table, " 100 +25 +100 +Blocked +LicenseRejected +rejected +2027-11-30T00:00:00Z ")

    def test_status(self):
        self.write_status({"worker": ("wanted", 50)}, [rollout("worker", "Progressing", 2, reason="BatchOpen", message="waiting for node-2",
                                                               stuckUnits=[{"name": "node-2", "reason": "ImagePullBackOff"}])])
        text = self.tfctl("rollout", "status", f"pool/{POOL}").stdout
        self.assertRegex(text, r"(?m)^worker +wanted +50 % +false +2/4 updated +2 of 4 +- +Progressing: BatchOpen$")
        self.assertRegex(text, r"(?m)^hypervisor +hypervis-w:2 +100 % +true ")
        self.assertIn("    node-2  ImagePullBackOff\n", text)
        self.assertNotIn("hypervisor", self.tfctl("rollout", "status", POOL, "--component", "worker").stdout.split("\n", 1)[1])
        found = json.loads(self.tfctl("rollout", "status", POOL, "--component", "worker", "-o", "json").stdout)["components"]
        self.assertEqual((found[0]["progress"], found[0]["rollout"]["reason"], len(found)), (50, "BatchOpen", 1))
        self.assertEqual(self.tfctl("rollout", "status", POOL, "--component", "gpu", check=False).returncode, 2)

    def test_license_usage(self):
        self.write_status({}, [], license={"id": "lic-1", "edition": "enterprise", "customer": "Example AG", "state": "valid",
                                           "expires": "2090-01-01T00:00:00Z", "licensedGPUs": 8, "maxGPUs": 64, "workers": {"valid": 4}})
        self.assertRegex(self.tfctl("license", "usage").stdout, rf"{POOL} +lic-1 +enterprise +Example AG +valid +2090-01-01.* 8 of 64 +4 valid\n")
        self.assertEqual(json.loads(self.tfctl("license", "usage", "-o", "json").stdout)[0]["license"]["maxGPUs"], 64)

    # ---- watching

    def watch(self, *arguments, terminal=False):
        """`tfctl … --watch` in the background: the process, and a list that its output is added to."""
        output = []
        stdout, ours = pty.openpty() if terminal else (None, None)
        process = subprocess.Popen([os.path.join(PROGRAMS, "tfctl"), *arguments, "--watch"], env=self.cluster.env(), stderr=subprocess.PIPE,
                                   stdout=ours if terminal else subprocess.PIPE, text=not terminal)
        if terminal:
            os.close(ours)

        def read():
            if not terminal:
                output.extend(iter(process.stdout.readline, ""))
                return
            try:
                while data := os.read(stdout, 4096):
                    output.append(data.decode(errors="replace"))
            except OSError:
                pass  # its end
            os.close(stdout)
        thread = threading.Thread(target=read, daemon=True)
        thread.start()

        def end():
            process.kill()
            process.wait()
            thread.join()
            for stream in (process.stdout, process.stderr):
                if stream is not None and not stream.closed:
                    stream.close()
        self.addCleanup(end)
        return process, output, thread

    def until(self, output, text):
        await_value(lambda: text in "".join(output), 60, lambda: f"no {text!r} in {''.join(output)!r}")

    def test_watch_shows_each_change_until_it_is_complete(self):
        self.write_status({"worker": ("new", 25)}, [rollout("worker", "Progressing", 1)])
        process, output, thread = self.watch("rollout", "status", POOL, "--component", "worker")
        self.until(output, "worker: 25 %, batch 1 of 4, nodes 1/4 updated, Progressing\n")
        self.write_status({"worker": ("new", 25)}, [rollout("worker", "Progressing", 1)])  # nothing to tell
        self.write_status({"worker": ("new", 75)}, [rollout("worker", "Waiting", 3)])
        self.until(output, "worker: 75 %, batch 3 of 4, nodes 3/4 updated, Waiting\n")
        self.write_status({"worker": ("new", 100)}, [rollout("worker", "Complete", 4)])
        self.assertEqual(process.wait(60), 0)
        thread.join()
        self.assertEqual(len(output), 3, output)

    def test_watch_on_a_terminal_is_a_bar(self):
        self.write_status({"worker": ("new", 25)}, [rollout("worker", "Progressing", 1)])
        process, output, _ = self.watch("rollout", "status", POOL, "--component", "worker", terminal=True)
        self.until(output, "worker     [######..................]  25 %  batch 1 of 4")
        self.write_status({"worker": ("new", 100)}, [rollout("worker", "Complete", 4)])
        self.until(output, "\x1b[1F\x1b[J")
        self.until(output, "worker     [########################] 100 %")
        self.assertEqual(process.wait(60), 0)

    def test_watch_ends_when_somebody_must_act(self):
        self.write_status({"worker": ("new", 0)}, [rollout("worker", "Progressing", 0)])
        process, output, _ = self.watch("rollout", "status", POOL, "--component", "worker", "-o", "json")
        self.until(output, '"phase":"Progressing"')
        self.write_status({"worker": ("new", 0)}, [rollout("worker", "Blocked", 0, reason="LicenseRejected", message="expired: it ended")])
        self.assertEqual(process.wait(60), 4)
        self.assertEqual(process.stderr.read(), "tfctl: worker: Blocked: LicenseRejected: expired: it ended\n")
        self.assertEqual(json.loads(output[-1])["components"][0]["rollout"]["reason"], "LicenseRejected")

    def test_watch_does_not_take_the_status_of_before_for_the_answer(self):
        self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tensor-fusion"},
                    "spec": {"gpuPools": [{"name": "other", "specTemplate": {"nodeManagerConfig": {}}},
                                          {"name": "shared", "specTemplate": spec("w:3")}]}})
        process, output, _ = self.watch("rollout", "status", POOL, "--component", "worker")
        time.sleep(1)  # would be over by now
        self.assertIsNone(process.poll())
        self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": POOL, "ownerReferences": [self.owner]},
                    "spec": spec("w:3")})
        self.see_cluster()
        time.sleep(1)
        self.assertIsNone(process.poll(), output)
        self.write_status({"worker": ("new", 50)}, [rollout("worker", "Progressing", 2)])
        self.until(output, "worker: 50 %")
        self.write_status({"worker": ("new", 100)}, [rollout("worker", "Complete", 4)])
        self.assertEqual(process.wait(60), 0)

    def test_watch_has_a_time_limit(self):
        self.write_status({"worker": ("new", 25)}, [rollout("worker", "Progressing", 1)])
        done = self.tfctl("rollout", "status", POOL, "--watch", "--timeout", "1s", check=False)
        self.assertEqual((done.returncode, done.stderr), (3, "tfctl: --timeout is over; the rollout goes on\n"))
        wrong = self.tfctl("rollout", "status", POOL, "--watch", "--timeout", "soon", check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("--timeout", wrong.stderr)

    def test_watch_ends_with_the_pool(self):
        self.write_status({"worker": ("new", 25)}, [rollout("worker", "Progressing", 1)])
        process, output, _ = self.watch("rollout", "status", POOL)
        self.until(output, "worker: 25 %")
        self.cluster.kubectl("delete", "gpupool", POOL)
        self.assertEqual(process.wait(60), 1)

    # ---- changing

    def test_pause_and_resume_edit_the_source_of_truth(self):
        before = self.get("tensorfusioncluster", "tensor-fusion")["spec"]
        self.assertIn("TensorFusionCluster tensor-fusion, pool shared: all components paused", self.tfctl("rollout", "pause", f"pool/{POOL}").stdout)
        self.assertIs(self.source()["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"]["paused"], True)
        self.assertIn("(it was so already)", self.tfctl("rollout", "pause", POOL, "--component", "worker").stdout)
        self.tfctl("rollout", "resume", POOL)
        after = self.get("tensorfusioncluster", "tensor-fusion")["spec"]
        self.assertIs(after["gpuPools"][1]["specTemplate"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"].pop("paused"), False)
        self.assertEqual(after, before)

    def test_history(self):
        text = self.tfctl("rollout", "history", POOL, "--component", "worker").stdout
        self.assertRegex(text, r"(?m)^3 +d3 +w:2 +\d+s +current$")
        self.assertRegex(text, r"(?m)^1 +d1 +w:0 +\d+s +-$")
        one = self.tfctl("rollout", "history", POOL, "--component", "worker", "--revision", "2").stdout
        self.assertIn('image: "w:1"\n', one)
        self.assertEqual([entry["revision"] for entry in json.loads(self.tfctl("rollout", "history", POOL, "-o", "json").stdout)["worker"]], [1, 2, 3])
        self.assertIn("No revisions of the client.", self.tfctl("rollout", "history", POOL).stdout)

    def test_undo(self):
        self.assertIn("set back to revision 2 (w:1)", self.tfctl("rollout", "undo", f"pool/{POOL}", "--component", "worker").stdout)
        self.assertEqual(self.source()["componentConfig"], {**spec("w:1")["componentConfig"], "hypervisor": self.source()["componentConfig"]["hypervisor"]})
        self.tfctl("rollout", "undo", POOL, "--component", "worker", "--to-revision", "1")
        self.assertEqual(self.source()["componentConfig"]["worker"], block("w:0"))
        self.assertIn("is that of revision 1", self.tfctl("rollout", "undo", POOL, "--component", "worker", "--to-revision", "1").stdout)
        unknown = self.tfctl("rollout", "undo", POOL, "--component", "worker", "--to-revision", "9", check=False)
        self.assertEqual((unknown.returncode, unknown.stderr), (1, "tfctl: the worker has no revision 9; there are: 1, 2, 3\n"))
        none = self.tfctl("rollout", "undo", POOL, "--component", "client", check=False)
        self.assertIn("the client has no history", none.stderr)
        self.assertEqual(self.tfctl("rollout", "undo", POOL, check=False).returncode, 2)

    def test_undo_says_what_keeps_it_from_the_nodes(self):
        self.write_pool("w:2", autoUpdateWorker=False)
        self.assertIn("Auto update of the worker is off", self.tfctl("rollout", "undo", POOL, "--component", "worker").stderr)
        self.write_pool("w:2", paused=True)
        self.assertIn("The pool is paused", self.tfctl("rollout", "undo", POOL, "--component", "worker").stderr)

    def test_undo_of_a_pool_that_nobody_owns(self):
        self.apply({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": "mine"}, "spec": spec("w:2")})
        self.assertIn("GPUPool mine: all components paused", self.tfctl("rollout", "pause", "pool/mine").stdout)
        self.assertIs(self.get("gpupool", "mine")["spec"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"]["paused"], True)

    def test_restart(self):
        process, output, _ = self.watch("rollout", "restart", POOL, "--component", "worker")
        self.until(output, "restart of the worker asked for at ")
        at = self.get("gpupool", POOL)["metadata"]["annotations"]["tensor-fusion.ai/restart-worker"]
        self.assertRegex(at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        time.sleep(1)
        self.assertIsNone(process.poll(), output)  # the status is that of before
        self.write_status({"worker": ("restarted", 50)}, [rollout("worker", "Progressing", 2)])
        self.until(output, "worker: 50 %")
        self.write_status({"worker": ("restarted", 100)}, [rollout("worker", "Complete", 4)])
        self.assertEqual(process.wait(60), 0)

    # ---- how it is called

    def test_as_a_plugin_of_kubectl(self):
        self.assertIn(POOL, self.cluster.kubectl("tf", "pool", "list").stdout)
        self.assertIn("kubectl tf", self.cluster.kubectl("tf", "rollout", "--help").stdout)
        done = self.tfctl("rollout", "status", "pool/", program="kubectl_complete-tf")
        self.assertEqual(done.stdout, f"pool/{POOL}\n:4\n")

    def test_completion_knows_the_pools(self):
        script = self.tfctl("--completion", "bash").stdout
        ask = script + 'COMP_WORDS=(tfctl rollout undo pool/); COMP_CWORD=3; _tfctl; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", ask], env=self.cluster.env(), capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, f"pool/{POOL}\n")

    def test_clusters_are_chosen_as_by_kubectl(self):
        env = {**self.cluster.env(), "KUBECONFIG": "/nonexistent", "HOME": "/nonexistent"}
        def run(*arguments):
            return subprocess.run([os.path.join(PROGRAMS, "tfctl"), "pool", *arguments], env=env, capture_output=True, text=True, check=False)
        nowhere = run()
        self.assertEqual((nowhere.returncode, nowhere.stdout), (1, ""))
        self.assertIn("tfctl up", nowhere.stderr)
        self.assertIn(POOL, run("--kubeconfig", self.cluster.kubeconfig).stdout)
        self.assertIn("nothere", run("--kubeconfig", self.cluster.kubeconfig, "--context", "nothere").stderr)
        self.assertEqual(run("--kubeconfig", "/nonexistent").returncode, 1)


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
