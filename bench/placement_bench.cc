// How long it takes to find a pod's cards, and what that allocates: 500 nodes with 3,000 cards of four models and
// 10,000 pods, as in upstream's BenchmarkGPUFitPlugin (docs of what it measures there: the filters, the choice, the
// reservation).
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "placement/finder.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

// Not inlined: compilers take malloc and delete for a mistake.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tf::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;
constexpr int kNodes = 500;
constexpr int kCardsOfNode = 6;
constexpr int kPods = 10'000;

Request Pod(int i) {
  static constexpr struct {
    int64_t tflops, gib;
    int count;
  } kMix[] = {{20, 4, 1}, {40, 8, 1}, {100, 16, 1}, {30, 4, 2}, {200, 32, 2}};
  const auto& one = kMix[i % 5];
  return {.pool = "pool",
          .request = {one.tflops * 1000, one.gib * kGib},
          .limit = {one.tflops * 1000, one.gib * kGib},
          .count = one.count};
}

struct Cluster {
  Cluster() {
    static constexpr struct {
      const char* model;
      int64_t tflops, gib;
    } kCards[] = {{"B200", 2250, 141}, {"H100", 989, 80}, {"A6000", 450, 48}, {"A100", 312, 40}};
    for (int node = 0; node < kNodes; ++node) {
      const auto& model = kCards[node % 4];
      const std::string name = "node-" + std::to_string(node);
      for (int index = 0; index < kCardsOfNode; ++index) {
        Card card{.name = name + "-" + std::to_string(index),
                  .node = name,
                  .pool = "pool",
                  .vendor = "NVIDIA",
                  .model = model.model,
                  .index = index,
                  .usable = true,
                  .capacity = {model.tflops * 1000, model.gib * kGib}};
        card.limit_capacity = card.capacity;
        ledger.SetCard(card);
      }
      nodes.push_back(ledger.FindNode(name));
    }
  }
  // Places so many pods; how many found room.
  int Fill(int pods, Mode mode) {
    int placed = 0;
    for (int i = 0; i < pods; ++i) {
      const Request request = Pod(i);
      Find(ledger, request, mode, nodes, decision);
      if (decision.node == kNoNode) continue;
      const std::string uid = "filled-" + std::to_string(i);
      if (ledger.Hold(uid, {.ns = "ns", .name = uid, .request = request, .cards = decision.cards}).ok() &&
          ledger.Commit(uid).ok()) {
        ++placed;
      }
    }
    return placed;
  }

  Ledger ledger;
  std::vector<NodeId> nodes;
  Decision decision;
};

// Filters, choice, reservation and its end, with `range` pods on the cards already.
void Decide(benchmark::State& state, Mode mode) {
  Cluster cluster;
  const int placed = cluster.Fill(static_cast<int>(state.range(0)), mode);
  std::vector<Request> pods;
  for (int i = 0; i < 5; ++i) {
    pods.push_back(Pod(i));
    Find(cluster.ledger, pods.back(), mode, cluster.nodes, cluster.decision);  // its buffers grow
  }
  int64_t found = 0, finding = 0, i = 0;
  for (auto _ : state) {
    const Request& request = pods[static_cast<size_t>(i++ % 5)];
    const int64_t before = allocations;
    Find(cluster.ledger, request, mode, cluster.nodes, cluster.decision);
    finding += allocations - before;
    if (cluster.decision.node == kNoNode) continue;
    ++found;
    benchmark::DoNotOptimize(
        cluster.ledger.Hold("pod", {.ns = "ns", .name = "pod", .request = request, .cards = cluster.decision.cards}));
    cluster.ledger.Release("pod");
  }
  if (finding > 0) state.SkipWithError("finding has allocated");
  state.counters["pods"] = placed;
  state.counters["found"] = benchmark::Counter(static_cast<double>(found), benchmark::Counter::kAvgIterations);
  state.counters["allocations_finding"] =
      benchmark::Counter(static_cast<double>(finding), benchmark::Counter::kAvgIterations);
}

// 10,000 pods one after the other on empty cards, each for good.
void PlaceAll(benchmark::State& state, Mode mode) {
  int placed = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto cluster = std::make_unique<Cluster>();
    cluster->ledger.slots();
    state.ResumeTiming();
    placed = cluster->Fill(kPods, mode);
    state.PauseTiming();
    cluster.reset();
    state.ResumeTiming();
  }
  state.counters["placed"] = placed;
  state.counters["per_pod"] =
      benchmark::Counter(kPods, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// The books from 10,000 pods, as after a start.
void Rebuild(benchmark::State& state) {
  Cluster cluster;
  cluster.Fill(kPods, Mode::kNodeCompactGpuLowLoad);
  std::vector<std::vector<std::string>> cards;
  std::vector<std::pair<std::string, Request>> pods;
  for (const auto& [uid, entry] : cluster.ledger.entries()) {
    pods.emplace_back(uid, entry.request);
    std::vector<std::string>& names = cards.emplace_back();
    for (const CardId card : entry.cards) names.push_back(cluster.ledger.CardName(card));
  }
  for (auto _ : state) {
    Cluster fresh;
    for (size_t i = 0; i < pods.size(); ++i) {
      fresh.ledger.Observe(pods[i].first, "ns", pods[i].first, pods[i].second, cards[i]);
    }
    benchmark::DoNotOptimize(fresh.ledger.slots().data());
  }
  state.counters["pods"] = static_cast<double>(pods.size());
}

BENCHMARK_CAPTURE(Decide, CompactFirst, Mode::kCompactFirst)->Arg(0)->Arg(5000)->Arg(kPods);
BENCHMARK_CAPTURE(Decide, LowLoadFirst, Mode::kLowLoadFirst)->Arg(0)->Arg(5000)->Arg(kPods);
BENCHMARK_CAPTURE(Decide, NodeCompactGpuLowLoad, Mode::kNodeCompactGpuLowLoad)->Arg(0)->Arg(5000)->Arg(kPods);
BENCHMARK_CAPTURE(PlaceAll, NodeCompactGpuLowLoad, Mode::kNodeCompactGpuLowLoad)->Unit(benchmark::kMillisecond);
BENCHMARK(Rebuild)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tf::placement

BENCHMARK_MAIN();
