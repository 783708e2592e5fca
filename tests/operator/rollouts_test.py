#!/usr/bin/env python3
"""Rollouts of real pods on process nodes: batches, causes, Secrets, licences, pause, undo, rollback, crashes.

Usage: rollouts_test.py BIN_FOLDER SOURCE_FOLDER [unittest's arguments]; tests/standalone must be in PYTHONPATH.
"""
import base64
import json
import math
import os
import random
import subprocess
import sys
import time
import unittest

from operator_process import NAMESPACE
from rollout_rig import IDLE, POOL, Rig, await_value, worker_template

BIN = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.abspath(sys.argv.pop(1))
NODES = 4
BATCH = math.ceil(NODES * 34 / 100)
ROUNDS = int(os.environ.get("TF_CRASH_ROUNDS", "5"))


def issue(*arguments):
    done = subprocess.run([os.path.join(BIN, "tfctl"), "license", "issue", "--customer", "Example AG", "--format", "json",
                           *arguments], capture_output=True, text=True, check=True)
    pair = json.loads(done.stdout)
    return pair["TF_LICENSE"], pair["TF_LICENSE_SIGN"]


def secret(text, signature, **metadata):
    encode = lambda value: base64.b64encode(value.encode()).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "license", "namespace": "apps", **metadata},
            "data": {"text": encode(text), "sign": encode(signature)}}


LICENSE_ENV = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "license", "key": key}}}
               for name, key in (("TF_LICENSE", "text"), ("TF_LICENSE_SIGN", "sign"))]


class Rollouts(unittest.TestCase):
    def rig(self, worker=None, **policy):
        rig = Rig(BIN, SOURCE, NODES)
        rig.__enter__()
        self.addCleanup(rig.close)
        self.workers = rig.record("worker")
        self.hypervisors = rig.record("hypervisor")
        rig.operator.start()
        rig.make_pool(worker, **policy)
        rig.make_workload(NODES)
        return rig

    def ready_rig(self, worker=None, **policy):
        rig = self.rig(worker, **policy)
        rig.await_pods(self.hypervisors, NODES)
        rig.await_pods(self.workers, NODES)
        for component in ("hypervisor", "worker", "client"):
            rig.await_synced(component)
        return rig

    def reasons(self, rig):
        return [event["reason"] for event in rig.events()]

    def check_one_restart_each(self, record, mark):
        """Since the mark each pod was replaced once, and never more nodes than a batch were without one."""
        self.assertEqual(len(record.since(mark)), NODES)
        self.assertLessEqual(record.worst, BATCH)

    def test_image_change_in_batches(self):
        rig = self.ready_rig()
        before = rig.status()["componentStatus"]
        self.assertEqual(len(before), 9, before)
        for component, record in (("worker", self.workers), ("hypervisor", self.hypervisors)):
            mark = record.mark()
            rig.set_image(component, "busybox:2")
            after = rig.await_synced(component, revision_not=before[component])
            rig.await_pods(record, NODES)
            self.check_one_restart_each(record, mark)
            for pod in record.alive().values():
                self.assertEqual(pod["metadata"]["labels"]["tensor-fusion.ai/pod-template-hash"], after[component])
            for other in {"worker", "hypervisor", "client"} - {component}:
                self.assertEqual(after[other], before[other])
            before = after
        await_value(lambda: {"RolloutStarted", "BatchStarted", "BatchHealthy", "RolloutComplete"} <= set(self.reasons(rig)),
                    30, lambda: self.reasons(rig))
        # As the seed's page sorts them.
        events = json.loads(rig.cluster.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "json").stdout)["items"]
        ours = [event for event in events if event["source"].get("component") == "tensor-fusion-operator"]
        self.assertIn("RolloutComplete", {event["reason"] for event in ours})
        self.assertEqual([event["lastTimestamp"] for event in ours], sorted(event["lastTimestamp"] or "-" for event in ours))
        history = json.loads(rig.cluster.kubectl("-n", NAMESPACE, "get", "controllerrevisions", "-o", "json").stdout)["items"]
        images = {(one["metadata"]["labels"]["tensor-fusion.ai/component"], one["data"]["image"]): one for one in history}
        self.assertEqual(set(images), {("worker", "busybox:1"), ("worker", "busybox:2"), ("hypervisor", "busybox:1"),
                                       ("hypervisor", "busybox:2"), ("client", "busybox:1")})

        # A restart that a person asks for is a revision of its own.
        mark = self.workers.mark()
        rig.cluster.kubectl("annotate", "gpupool", POOL, "tensor-fusion.ai/restart-worker=2027-01-01T00:00:00Z")
        rig.await_synced("worker", revision_not=before["worker"])
        rig.await_pods(self.workers, NODES)
        self.check_one_restart_each(self.workers, mark)

    def test_bad_image_names_its_cause_and_undo(self):
        rig = self.ready_rig(progressDeadlineSeconds=600)
        good = rig.status()["componentStatus"]["worker"]
        mark = self.workers.mark()
        began = time.monotonic()
        rig.set_image("worker", "registry.example/nosuch:9")
        rollout = rig.await_rollout("worker", lambda one: "nosuch:9" in json.dumps(one.get("stuckUnits", [])) and
                                    one["reason"] in ("ErrImagePull", "ImagePullBackOff"), "the cause is not named")
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn("nosuch:9", rollout["message"])
        self.assertLessEqual(len(self.workers.since(mark)), BATCH)
        # Undo: the block of the last good revision, from the history, goes back into the source of truth.
        history = json.loads(rig.cluster.kubectl("-n", NAMESPACE, "get", "controllerrevisions", "-l",
                                                 "tensor-fusion.ai/component=worker", "-o", "json").stdout)["items"]
        block = next(one["data"] for one in history if one["data"]["image"] == "busybox:1")
        rig.patch([{"op": "replace", "path": "/componentConfig/worker", "value": block}])
        self.assertEqual(rig.await_synced("worker")["worker"], good)
        rig.await_pods(self.workers, NODES)
        self.assertLessEqual(len(self.workers.since(mark)), 2 * BATCH)

    def test_rollback_restores_the_last_good_revision(self):
        rig = self.ready_rig(progressDeadlineSeconds=5, onFailure="Rollback")
        good = rig.status()["componentStatus"]["worker"]
        mark = self.workers.mark()
        rig.set_image("worker", "registry.example/nosuch:9")
        rig.await_rollout("worker", lambda one: one["phase"] == "RolledBack", "it was not rolled back", limit=120)
        rig.await_pods(self.workers, NODES)
        self.assertEqual(rig.rollout("worker")["toRevision"], good)
        self.assertLessEqual(len(self.workers.since(mark)), 2 * BATCH)
        # What is made now is made as the last good revision, although the spec says otherwise.
        rig.make_workload(NODES + 1)
        pods = rig.await_pods(self.workers, NODES + 1)
        self.assertEqual({pod["metadata"]["labels"]["tensor-fusion.ai/pod-template-hash"] for pod in pods.values()}, {good})
        self.assertIn("RolledBack", self.reasons(rig))
        # A new edit starts anew.
        rig.set_image("worker", "busybox:3")
        rig.await_synced("worker", revision_not=good)

    def test_budget_and_node_that_forbid_are_named(self):
        rig = self.ready_rig()
        # An application with a client of an earlier revision, and a budget that lets none of its pods go.
        rig.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "apps"},
                   "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}},
                  {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "apps"},
                   "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
                       "metadata": {"labels": {"app": "web", "tensor-fusion.ai/enabled": "true",
                                               "tensor-fusion.ai/gpupool": POOL,
                                               "tensor-fusion.ai/pod-template-hash": "an-earlier-one"}},
                       "spec": {"terminationGracePeriodSeconds": 1,
                                "containers": [{"name": "web", "image": "busybox:1", "command": IDLE}]}}}},
                  {"apiVersion": "v1", "kind": "Pod", "metadata": {
                      "name": "bare", "namespace": "apps",
                      "labels": {"tensor-fusion.ai/enabled": "true", "tensor-fusion.ai/gpupool": POOL,
                                 "tensor-fusion.ai/pod-template-hash": "an-earlier-one"}},
                   "spec": {"containers": [{"name": "web", "image": "busybox:1", "command": IDLE}]}})
        began = time.monotonic()
        rig.await_rollout("client", lambda one: "PodDisruptionBudget apps/web" in json.dumps(one.get("stuckUnits", [])),
                          "the budget is not named")
        rig.await_rollout("client", lambda one: "ManualRestartNeeded" in json.dumps(one.get("stuckUnits", [])),
                          "the bare pod is not named")
        self.assertLess(time.monotonic() - began, 30)
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in json.loads(
            rig.cluster.kubectl("-n", "apps", "get", "pods", "-l", "tensor-fusion.ai/enabled=true", "-o", "json").stdout)["items"]}
        self.assertEqual(len(uids), 2)

        # A node that goes away before its turn is set aside by name; the others get theirs.
        rig.cluster.kubectl("annotate", "node", "node-3", "process-node.tensor-fusion.ai/gone=true")
        rig.cluster.kubectl("wait", "node/node-3", "--for=condition=Ready=Unknown", "--timeout=100s")
        rig.set_image("worker", "busybox:2")
        rollout = rig.await_rollout("worker", lambda one: one["nodes"]["updated"] == NODES - 1 and one["nodes"]["skipped"],
                                    "the other nodes are not updated", limit=90)
        self.assertIn(("node-3", "NodeNotReady"), [(unit["name"], unit["reason"]) for unit in rollout["stuckUnits"]])
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in json.loads(
            rig.cluster.kubectl("-n", "apps", "get", "pods", "-l", "tensor-fusion.ai/enabled=true", "-o", "json").stdout)["items"]}
        self.assertEqual(uids, after)

    def test_worker_that_crashes_is_named_and_rolled_back(self):
        rig = self.ready_rig(progressDeadlineSeconds=15, maxFailures=1)
        good = rig.status()["componentStatus"]["worker"]
        on_node = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]

        def crash_where(condition):
            template = worker_template(on_node, ["/bin/sh", "-c", f"if {condition}; then exit 3; fi; {IDLE[2]}"])
            # Not ready in the moment before it ends.
            template["template"]["spec"]["containers"][0]["readinessProbe"]["initialDelaySeconds"] = 2
            rig.patch([{"op": "replace", "path": "/componentConfig/worker/podTemplate", "value": template}])

        # One node may fail: it is named with its cause, and the others get their turn.
        began = time.monotonic()
        crash_where("[ $NODE = node-1 ]")
        stuck = lambda one: [unit for unit in one.get("stuckUnits", []) if unit["reason"] == "CrashLoopBackOff"]
        rig.await_rollout("worker", lambda one: one["toRevision"] != good and stuck(one), "the crash is not named", limit=90)
        named = time.monotonic() - began
        rollout = rig.await_rollout("worker", lambda one: (one["nodes"]["updated"], one["nodes"]["ready"]) == (NODES, NODES - 1) and stuck(one),
                                    "the other nodes are not updated", limit=90)
        self.assertEqual([unit["name"] for unit in stuck(rollout)], ["node-1"])
        self.assertIn("exit code 3", stuck(rollout)[0]["message"])
        self.assertLess(named, 30)
        self.assertNotEqual(rollout["phase"], "Failed")
        self.assertFalse(rig.status()["componentStatus"]["workerConfigSynced"])

        # It crashes everywhere, and none may: the last good revision, the one of before all of this, comes back by itself.
        rig.set_policy(maxFailures=0, onFailure="Rollback")
        began = time.monotonic()
        crash_where("true")
        rig.await_rollout("worker", lambda one: one["phase"] == "RolledBack", "it was not rolled back", limit=120)
        rig.await_pods(self.workers, NODES)
        rollout = rig.await_rollout("worker", lambda one: one["nodes"]["updated"] == NODES, "not all nodes are back")
        self.assertEqual(rollout["toRevision"], good)
        hashes = {pod["metadata"]["labels"]["tensor-fusion.ai/pod-template-hash"] for pod in self.workers.alive().values()}
        self.assertEqual(hashes, {good})
        self.assertIn("CrashLoopBackOff", json.dumps([event["message"] for event in rig.events()]))

    def test_window_that_closes_in_the_middle(self):
        rig = self.ready_rig(batchPercentage=25, batchInterval="6s")
        before = rig.status()["componentStatus"]["worker"]
        mark = self.workers.mark()
        # Open since the minute before this one (windows last a minute at least), and for a few seconds more; the next time is tomorrow.
        now = time.time()
        opened = int(now) // 60 * 60 - 60
        closing = int(now) + 15
        at = time.gmtime(opened)
        rig.patch([
            {"op": "add", "path": "/nodeManagerConfig/nodePoolRollingUpdatePolicy/maintenanceWindow",
             "value": {"enforced": True, "includes": [f"{at.tm_min} {at.tm_hour} * * *"], "timeZone": "UTC"}},
            {"op": "add", "path": "/nodeManagerConfig/nodePoolRollingUpdatePolicy/maxDuration", "value": f"{closing - opened}s"},
            {"op": "replace", "path": "/componentConfig/worker/image", "value": "busybox:2"}])
        await_value(lambda: self.workers.since(mark), closing - time.time(), lambda: rig.told("nothing starts in an open window"))
        rollout = rig.await_rollout("worker", lambda one: one["phase"] == "Paused", "it does not stop", limit=60)
        self.assertLess(time.time() - closing, 30)
        self.assertGreaterEqual(time.time(), closing)
        self.assertEqual(rollout["reason"], "WindowClosed")
        # A person reads which moment it waits for.
        tomorrow = time.strftime("%Y-%m-%d %H:%M:00", time.gmtime(opened + 86400))
        self.assertIn(tomorrow, rollout["message"])
        self.assertEqual(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(opened + 86400)), rollout["nextWindowAt"])

        rig.await_pods(self.workers, NODES)  # what of the open batch had begun, ends
        restarted = len(self.workers.since(mark))
        self.assertIn(restarted, range(1, NODES))
        time.sleep(10)  # more than an interval: what must not happen would have happened by now
        self.assertEqual(len(self.workers.since(mark)), restarted)
        # It goes on where it was, when a person has it so.
        rig.set_policy(batchInterval="1s", maintenanceWindow={"enforced": False})
        rig.await_synced("worker", revision_not=before)
        rig.await_pods(self.workers, NODES)
        self.assertEqual(len(self.workers.since(mark)), NODES)
        self.assertEqual(self.workers.worst, 1)

    def test_pause_and_resume(self):
        rig = self.ready_rig(paused=True)
        mark = self.workers.mark()
        rig.set_image("worker", "busybox:2")
        rig.await_rollout("worker", lambda one: one["phase"] == "Paused", "it is not paused")
        self.assertEqual(self.workers.since(mark), set())
        rig.set_policy(paused=False)
        rig.await_synced("worker")
        rig.await_pods(self.workers, NODES)
        self.check_one_restart_each(self.workers, mark)

    def test_auto_update_off_restarts_nothing_until_it_is_on(self):
        rig = self.ready_rig(autoUpdateWorker=False)
        before = rig.status()["componentStatus"]["worker"]
        mark = self.workers.mark()
        rig.set_image("worker", "busybox:2")
        rig.await_rollout("worker", lambda one: one["phase"] == "Pending" and one["toRevision"] != before, "not recorded")
        self.assertEqual(self.workers.since(mark), set())
        rig.set_policy(autoUpdateWorker=True)
        rig.await_synced("worker", revision_not=before)
        rig.await_pods(self.workers, NODES)
        self.check_one_restart_each(self.workers, mark)

    def test_licence_by_secret(self):
        first, second = issue("--id", "lic-first", "--days", "300"), issue("--id", "lic-second", "--days", "300")
        rig = Rig(BIN, SOURCE, NODES)
        rig.__enter__()
        self.addCleanup(rig.close)
        self.workers = rig.record("worker")
        rig.operator.start()
        rig.make_pool({"image": "busybox:1", "podTemplate": worker_template(LICENSE_ENV)})
        rig.make_workload(NODES)
        # No Secret yet: said by name, and nothing else breaks.
        await_value(lambda: "Secret apps/license is missing" in json.dumps(rig.status()), 60,
                    lambda: rig.told("the missing Secret is not named"))
        rig.apply(secret(*first))
        began = time.monotonic()
        await_value(lambda: len(self.workers.alive()) == NODES, 20, lambda: rig.told("no workers"))
        self.assertLess(time.monotonic() - began, 5, "it waited for its next try and not for the Secret")
        rig.await_pods(self.workers, NODES)
        rig.await_synced("worker")
        license = await_value(lambda: (one := rig.status().get("license", {})).get("state") == "valid" and one, 30,
                              lambda: rig.told("no valid licence"))
        self.assertEqual((license["id"], license["edition"], license["customer"]),
                         ("lic-first", "enterprise", "Example AG"))

        # A pair that does not match restarts nobody, and says why.
        mark = self.workers.mark()
        rig.apply(secret(second[0], first[1]))
        rollout = rig.await_rollout("worker", lambda one: one["phase"] == "Blocked", "the bad pair is not refused")
        self.assertEqual(rollout["reason"], "LicenseRejected")
        self.assertIn("bad_signature", rollout["message"])
        status = rig.status()
        self.assertEqual((status["license"]["state"], status["license"]["reason"]), ("rejected", "bad_signature"))
        condition = next(one for one in status["conditions"] if one["type"] == "LicenseValid")
        self.assertEqual((condition["status"], condition["reason"]), ("False", "LicenseRejected"))
        await_value(lambda: any(event["reason"] == "LicenseRejected" and "bad_signature" in event["message"]
                                for event in rig.events()), 30, lambda: rig.events())
        self.assertEqual(self.workers.since(mark), set())

        # A matching pair rolls the workers in batches.
        rig.apply(secret(*second))
        await_value(lambda: rig.status()["license"].get("id") == "lic-second", 30, lambda: rig.told("no second licence"))
        rig.await_pods(self.workers, NODES)
        await_value(lambda: len(self.workers.since(mark)) == NODES, 90, lambda: rig.told("not all were restarted"))
        rig.await_synced("worker")
        rig.await_pods(self.workers, NODES)
        self.check_one_restart_each(self.workers, mark)

        # The same bytes again are no change: a label, and deleting and making it anew, restart nothing; also not when
        # the operator was away meanwhile.
        mark = self.workers.mark()
        rig.apply(secret(*second, labels={"some": "label"}))
        rig.operator.kill()
        rig.cluster.kubectl("-n", "apps", "delete", "secret", "license")
        rig.apply(secret(*second))
        rig.operator.start()
        rig.await_synced("worker")
        # What changed while it was away is found at its start.
        rig.operator.kill()
        rig.apply(secret(*first))
        self.assertEqual(self.workers.since(mark), set())
        rig.operator.start()
        await_value(lambda: len(self.workers.since(mark)) == NODES, 90, lambda: rig.told("not all were restarted"))
        rig.await_pods(self.workers, NODES)
        self.check_one_restart_each(self.workers, mark)

        # Neither string is anywhere that people look at.
        with open(rig.operator.log, encoding="utf-8") as log:
            shown = log.read()
        for kind in ("events", "gpupools", "tensorfusionworkloads", "controllerrevisions", "tensorfusionclusters", "pods"):
            shown += rig.cluster.kubectl("get", kind, "-A", "-o", "json").stdout
        for text, signature in (first, second):
            self.assertNotIn(text, shown)
            self.assertNotIn(signature, shown)

    def test_a_bad_literal_key_restarts_nobody(self):
        text, signature = issue("--id", "lic-literal")
        env = lambda *pair: [{"name": "TF_LICENSE", "value": pair[0]}, {"name": "TF_LICENSE_SIGN", "value": pair[1]}]
        rig = self.ready_rig({"image": "busybox:1", "podTemplate": worker_template(env(text, signature))})
        mark = self.workers.mark()
        rig.patch([{"op": "replace", "path": "/componentConfig/worker/podTemplate",
                    "value": worker_template(env(text, signature[:-4] + "AAAA"))}])
        rollout = rig.await_rollout("worker", lambda one: one["phase"] == "Blocked", "the bad key is not refused")
        self.assertEqual(rollout["reason"], "LicenseRejected")
        # What is made meanwhile is made as the last good revision.
        rig.make_workload(NODES + 1)
        pods = rig.await_pods(self.workers, NODES + 1)
        hashes = {pod["metadata"]["name"]: pod["metadata"]["labels"]["tensor-fusion.ai/pod-template-hash"] for pod in pods.values()}
        self.assertEqual(len(set(hashes.values())), 1, rig.told(hashes))
        self.assertEqual(len(self.workers.since(mark)), 1)

    def test_crashes_of_the_operator_change_nothing(self):
        rig = self.ready_rig(batchPercentage=25)
        seed = int(os.environ.get("TF_CRASH_SEED", random.randrange(1 << 30)))
        print(f"\nseed {seed}", file=sys.stderr)
        draw = random.Random(seed)
        kills = 0
        for version in range(2, 2 + ROUNDS):
            before = rig.status()["componentStatus"]["worker"]
            mark = self.workers.mark()
            rig.set_image("worker", f"busybox:{version}")
            for _ in range(3):
                time.sleep(draw.uniform(0.05, 2.5))  # the moment of the crash, not a wait for something
                rig.operator.kill()
                kills += 1
                rig.operator.start()
            rig.await_synced("worker", revision_not=before)
            rig.await_pods(self.workers, NODES)
            self.assertEqual(len(self.workers.since(mark)), NODES, f"seed {seed}")
            self.assertLessEqual(self.workers.worst, 1, f"seed {seed}")
        print(f"killed {kills} times", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
