#include "tfctl/pool_view.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::tfctl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'796'000'000);  // 2026-11-30T00:53:20Z

// The status that an operator writes in the middle of a rollout of the worker.
api::Json PoolObject() {
  return boost::json::parse(R"({
    "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool",
    "metadata": {"name": "tensor-fusion-shared", "generation": 3, "creationTimestamp": "2026-11-29T00:53:20Z",
      "ownerReferences": [{"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "name": "tensor-fusion",
                           "uid": "c", "controller": true}]},
    "spec": {
      "componentConfig": {"hypervisor": {"image": "h:1"}, "worker": {"image": "w:2"}},
      "nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"autoUpdateHypervisor": true, "autoUpdateWorker": true,
        "batchPercentage": 20, "maintenanceWindow": {"includes": ["2 2 * * *"]}}}},
    "status": {
      "phase": "Running", "totalNodes": 10, "readyNodes": 9, "totalGPUs": 20, "totalTFlops": "6240",
      "availableTFlops": "100", "virtualTFlops": "31200", "totalVRAM": "1600Gi", "availableVRAM": "1Gi",
      "virtualVRAM": "2Ti",
      "componentStatus": {"hypervisor": "0123456789abcdef", "hypervisorConfigSynced": true,
        "hypervisorUpdateProgress": 100, "worker": "fedcba9876543210-0011223344556677.8899aabbccddeeff", "workerConfigSynced": false,
        "workerUpdateProgress": 40, "client": "", "clientConfigSynced": false, "clientUpdateProgress": 0},
      "conditions": [{"type": "WorkerSynced", "status": "False", "reason": "BatchOpen", "message": "batch 3 of 5",
                      "lastTransitionTime": "2026-11-30T00:33:20Z"}],
      "rollouts": [{"component": "worker", "phase": "Progressing", "reason": "BatchOpen",
        "message": "waiting for node-3", "fromRevision": "aa", "toRevision": "fedcba9876543210",
        "nodes": {"total": 9, "updated": 4, "ready": 3, "failed": 1, "skipped": 1}, "batch": 3, "batches": 5,
        "startedAt": "2026-11-30T00:52:55Z", "nextActionAt": "2026-11-30T00:53:50Z",
        "stuckUnits": [{"name": "node-3", "reason": "ImagePullBackOff", "message": "no such image w:2"},
                       {"name": "node-7", "reason": "NodeNotReady"}]}],
      "license": {"id": "lic-1", "edition": "enterprise", "customer": "Größe AG", "state": "valid",
        "expires": "2026-12-10T00:53:20Z", "licensedGPUs": 20, "maxGPUs": 64, "workers": {"rejected": 1, "valid": 7}}}
  })");
}

api::GPUPool Pool(const api::Json& object = PoolObject()) {
  absl::StatusOr<api::GPUPool> pool = api::FromJson<api::GPUPool>(object);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *pool;
}

TEST(RolloutText, SaysHowFarAndWhy) {
  EXPECT_EQ(
      RolloutText(Pool(), {"hypervisor", "worker", "client"}, kNow),
      "pool/tensor-fusion-shared  policy: 20 % of the nodes in a batch, 1s between batches; auto update: hypervisor, "
      "worker; window set, not enforced\n"
      "COMPONENT   REVISION                    PROGRESS  SYNCED  NODES                                        BATCH   "
      "TIME LEFT  PHASE\n"
      "hypervisor  01234567                    100 %     true    -                                            -       -"
      "          -\n"
      "worker      fedcba98-00112233.8899aabb  40 %      false   4/9 updated, 3 ready, 1 failed, 1 set aside  3 of 5  "
      "about 50s  Progressing: BatchOpen\n"
      "client      -                           0 %       false   -                                            -       -"
      "          -\n"
      "  worker: waiting for node-3\n"
      "  worker: goes on in 30s\n"
      "    node-3  ImagePullBackOff: no such image w:2\n"
      "    node-7  NodeNotReady\n");
}

TEST(RolloutText, AnswersWithoutAnyStatusOrPolicy) {
  api::GPUPool pool;
  pool.metadata.name = "p";
  EXPECT_THAT(RolloutText(pool, {"worker"}, kNow),
              StartsWith("pool/p  policy: 100 % of the nodes in a batch, 1s between batches; auto update: off\n"));
}

TEST(LiveText, HasABar) {
  const std::string text = LiveText(Pool(), {"worker"}, kNow);
  EXPECT_THAT(text, StartsWith("worker     [#########...............]  40 %  batch 3 of 5  nodes 4/9 updated, 3 ready, "
                               "1 failed, 1 set aside  about 50s left  Progressing: BatchOpen\n"));
  EXPECT_THAT(text, HasSubstr("    node-7  NodeNotReady\n"));
  api::GPUPool odd = Pool();
  odd.status.componentStatus.workerUpdateProgress = 1000;
  EXPECT_THAT(LiveText(odd, {"worker"}, kNow), HasSubstr("[########################]"));
  odd.status.componentStatus.workerUpdateProgress = -1;
  EXPECT_THAT(LiveText(odd, {"worker"}, kNow), HasSubstr("[........................]"));
}

TEST(PlainLine, ChangesOnlyWithTheStatus) {
  EXPECT_EQ(PlainLine(Pool(), "worker"),
            "worker: 40 %, batch 3 of 5, nodes 4/9 updated, 3 ready, 1 failed, 1 set aside, Progressing: BatchOpen "
            "(waiting for node-3); node-3 ImagePullBackOff; node-7 NodeNotReady");
  EXPECT_EQ(PlainLine(Pool(), "hypervisor"), "hypervisor: 100 %");
}

TEST(TimeLeft, FollowsThePaceSoFar) {
  api::RolloutStatus rollout;
  rollout.nodes = {.total = 10, .updated = 2};  // and none of them ready
  rollout.startedAt = api::Time(kNow - absl::Seconds(60));
  EXPECT_EQ(TimeLeft(rollout, kNow), std::nullopt);
  rollout.nodes.ready = 2;
  EXPECT_EQ(TimeLeft(rollout, kNow), absl::Seconds(240));
  rollout.nodes.updated = rollout.nodes.ready = 10;
  EXPECT_EQ(TimeLeft(rollout, kNow), std::nullopt);
  rollout.nodes.updated = rollout.nodes.ready = 2;
  EXPECT_EQ(TimeLeft(rollout, kNow - absl::Seconds(61)), std::nullopt);  // a clock behind the operator's
  rollout.startedAt.reset();
  EXPECT_EQ(TimeLeft(rollout, kNow), std::nullopt);
}

TEST(Outlook, TellsWhetherSomebodyMustAct) {
  api::GPUPool pool = Pool();
  EXPECT_EQ(OutlookOf(pool, "hypervisor"), Outlook::kComplete);
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kUnderWay);
  EXPECT_EQ(OutlookOf(pool, "client"), Outlook::kComplete);  // the pool has none

  pool.status.rollouts[0].phase = "Blocked";
  pool.status.rollouts[0].reason = "LicenseRejected";
  pool.status.rollouts[0].message = "expired: the licence ended";
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kStopped);
  EXPECT_EQ(WhyStopped(pool, "worker"), "worker: Blocked: LicenseRejected: expired: the licence ended");

  pool = Pool();
  pool.status.rollouts[0].phase = "RolledBack";  // every node is in step, with another revision
  pool.status.componentStatus.workerUpdateProgress = 100;
  pool.status.componentStatus.workerConfigSynced = true;
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kStopped);
  for (const char* phase : {"Waiting", "Paused", "RollingBack"}) {
    pool = Pool();
    pool.status.rollouts[0].phase = phase;
    EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kUnderWay) << phase;
  }

  pool = Pool();
  pool.status.rollouts.clear();  // before the operator looks
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kUnderWay);
  pool.status.componentStatus.workerUpdateProgress = 100;  // of the revision before
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kUnderWay);
  pool.status.componentStatus.workerConfigSynced = true;
  EXPECT_EQ(OutlookOf(pool, "worker"), Outlook::kComplete);
}

TEST(PoolTable, HasALineForEachPool) {
  api::GPUPool young;
  young.metadata.name = "young";
  EXPECT_EQ(PoolTable({Pool(), young}, kNow),
            "NAME                  PHASE    NODES  GPUS  TFLOPS FREE  VRAM FREE      HYPERVISOR  WORKER  CLIENT  "
            "LICENCE  AGE\n"
            "tensor-fusion-shared  Running  9/10   20    100 of 6240  1Gi of 1600Gi  100 %       40 %    0 %     valid "
            "   24h\n"
            "young                 -        0/0    0     0 of 0       0 of 0         0 %         0 %     0 %     -     "
            "   -\n");
  EXPECT_EQ(PoolTable({}, kNow), "No pools.\n");
}

TEST(PoolText, ShowsAllThereIs) {
  const std::string text = PoolText(Pool(), {{"node-0", "Running"}, {"node-3", ""}}, kNow);
  for (const char* line :
       {"pool          tensor-fusion-shared\n", "of            TensorFusionCluster tensor-fusion\n",
        "nodes         9 of 10 ready\n", "tflops        100 of 6240 free, 31200 with oversubscription\n",
        "  customer    Größe AG\n", "  expires     2026-12-10T00:53:20Z (in 10d)\n", "  cards       20 of 64\n",
        "  workers     1 rejected, 7 valid\n", "WorkerSynced  False   20m    BatchOpen  batch 3 of 5\n",
        "node-0  Running\n", "node-3  -\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  api::GPUPool bare;
  bare.metadata.name = "bare";
  EXPECT_THAT(PoolText(bare, {}, kNow), HasSubstr("nobody: this GPUPool is edited itself"));
}

TEST(LicenseTable, CountsCardsOfOneLicenceInSeveralPools) {
  api::GPUPool first = Pool(), second = Pool(), third;
  second.metadata.name = "second";
  second.status.license->licensedGPUs = 50;
  second.status.license->state = "rejected";
  second.status.license->reason = "bad_signature";
  second.status.license->message = "checking the signature: it is not the signature of this text";
  third.metadata.name = "third";
  const std::string text = LicenseTable({first, second, third}, kNow);
  EXPECT_THAT(text, HasSubstr("tensor-fusion-shared  lic-1    enterprise  Größe AG  valid                     "
                              "2026-12-10T00:53:20Z (in 10d)  20 of 64  1 rejected, 7 valid\n"));
  EXPECT_THAT(text, HasSubstr("rejected (bad_signature)"));
  EXPECT_THAT(text, HasSubstr("  second: checking the signature: it is not the signature of this text\n"));
  EXPECT_THAT(text, HasSubstr("  lic-1: 70 cards in 2 pools, 64 licensed\n"));
  EXPECT_THAT(text, HasSubstr("  lic-1: more cards are in use than the licence covers (max-gpus=64)\n"));
  EXPECT_THAT(LicenseTable({first, third}, kNow), Not(HasSubstr("more cards")));
  EXPECT_THAT(LicenseTable({first}, kNow + absl::Hours(24 * 12)), HasSubstr("(ended 2d ago)"));
}

TEST(Json, IsThatOfTheServer) {
  const api::Json pool = PoolObject();
  EXPECT_EQ(boost::json::serialize(RolloutJson(pool, {"hypervisor"})),
            R"({"pool":"tensor-fusion-shared","paused":false,"components":[{"component":"hypervisor",)"
            R"("revision":"0123456789abcdef","synced":true,"progress":100,"autoUpdate":true,"rollout":null}]})");
  const api::Json worker = RolloutJson(pool, {"worker"});
  EXPECT_EQ(*kube::Field(worker.at("components").at(0), "rollout"), pool.at("status").at("rollouts").at(0));
  EXPECT_EQ(LicenseJson(pool).at("license"), pool.at("status").at("license"));
  EXPECT_EQ(boost::json::serialize(LicenseJson({{"metadata", {{"name", "p"}}}})), R"({"pool":"p","license":null})");
}

}  // namespace
}  // namespace tf::tfctl
