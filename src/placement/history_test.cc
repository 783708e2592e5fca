// Random histories of pods on a random cluster: at every step no card has given away more than it has, and the books
// equal a naive count over the pods; books made anew from what the pods say, in any order, are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "placement/finder.h"
#include "placement/ledger.h"

namespace tf::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;
constexpr int kHistories = 2000;
constexpr int kSteps = 60;

struct Bound {
  Request request;
  std::vector<std::string> cards;
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    const int nodes = Any(1, 5);
    for (int node = 0; node < nodes; ++node) {
      const int cards = Any(1, 4);
      for (int index = 0; index < cards; ++index) {
        Card card{.name = "gpu-" + std::to_string(node) + "-" + std::to_string(index),
                  .node = "n" + std::to_string(node),
                  .pool = Any(0, 4) == 0 ? "iron" : "gold",
                  .vendor = "NVIDIA",
                  .model = Any(0, 1) == 0 ? "A100" : "H100",
                  .index = index,
                  .usable = Any(0, 9) != 0,
                  .capacity = {Any(1, 4) * 100'000, Any(1, 4) * 20 * kGib}};
        card.limit_capacity = {card.capacity.millitflops * Any(1, 5), card.capacity.vram * Any(1, 2)};
        card.one_at_a_time = Any(0, 2) == 0;
        cards_[card.name] = card;
      }
    }
    Restart();
  }

  void Step() {
    switch (Any(0, 9)) {
      case 0:
      case 1:
      case 2:
      case 3:
        Create();
        break;
      case 4:
        if (!bound_.empty()) Delete();
        break;
      case 5:
        if (!bound_.empty()) Resize();
        break;
      case 6:
        if (Any(0, 3) == 0) Restart();
        break;
      case 7:
        Flap();
        break;
      case 8:
        ledger_.ExpireHolds(now_ += absl::Seconds(Any(0, 20)));
        break;
      default:
        // Whatever a cache tells once more changes nothing.
        for (const auto& [uid, pod] : bound_) ledger_.Observe(uid, "ns", uid, pod.request, pod.cards);
        ledger_.Release("gone-" + std::to_string(Any(0, 50)));
    }
    Check();
  }

 private:
  int Any(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  Request Some() {
    Request request{.pool = Any(0, 4) == 0 ? "iron" : "gold",
                    .model = Any(0, 3) == 0 ? "H100" : "",
                    .request = {Any(1, 150) * 1000, Any(1, 30) * kGib},
                    .count = Any(0, 3) == 0 ? Any(2, 3) : 1,
                    .isolation = static_cast<Isolation>(Any(0, 2))};
    request.limit = {request.request.millitflops * Any(1, 4), request.request.vram * Any(1, 2)};
    if (Any(0, 3) == 0) {
      request.request.millitflops = request.limit.millitflops = 0;
      request.request_millipercent = Any(1, 50'000);
      request.limit_millipercent = Any(50'000, 100'000);
    }
    return request;
  }

  void Create() {
    const Request request = Some();
    std::vector<NodeId> nodes;
    for (int node = 0; node < 5; ++node) nodes.push_back(ledger_.FindNode("n" + std::to_string(node)));
    Find(ledger_, request, static_cast<Mode>(Any(0, 2)), nodes, decision_);
    const std::string uid = std::to_string(++pods_);
    if (decision_.node == kNoNode) {
      // Nothing fits: then no set of cards of a node is taken either.
      if (request.count == 1) {
        for (const Ledger::Slot& slot : ledger_.slots()) {
          ASSERT_FALSE(ledger_.Hold(uid, {.request = request, .cards = {slot.id}}).ok());
        }
      }
      return;
    }
    ASSERT_TRUE(ledger_
                    .Hold(uid, {.ns = "ns",
                                .name = uid,
                                .request = request,
                                .cards = decision_.cards,
                                .until = now_ + absl::Seconds(30)})
                    .ok());
    Bound pod{.request = request, .cards = {}};
    for (const CardId card : decision_.cards) pod.cards.push_back(ledger_.CardName(card));
    switch (Any(0, 4)) {
      case 0:  // the scheduler never came back: the hold runs out some time
        break;
      case 1:  // the binding failed
        ledger_.Release(uid);
        break;
      case 2:  // the API server has it and we died before we knew: the pod says so
        bound_[uid] = pod;
        Restart();
        break;
      default:
        bound_[uid] = pod;
        ASSERT_TRUE(ledger_.Commit(uid).ok());
    }
  }

  std::map<std::string, Bound>::iterator AnyPod() {
    auto pod = bound_.begin();
    std::advance(pod, Any(0, static_cast<int>(bound_.size()) - 1));
    return pod;
  }

  void Delete() {
    const auto pod = AnyPod();
    ledger_.Release(pod->first);
    if (Any(0, 1) == 0) ledger_.Release(pod->first);
    bound_.erase(pod);
  }

  void Resize() {
    const auto pod = AnyPod();
    Request request = Some();
    request.pool = pod->second.request.pool;
    request.model = pod->second.request.model;
    request.count = pod->second.request.count;
    request.isolation = pod->second.request.isolation;
    if (ledger_.Resize(pod->first, request).ok()) pod->second.request = request;
  }

  // A hypervisor dies and comes back, a driver restarts.
  void Flap() {
    auto card = cards_.begin();
    std::advance(card, Any(0, static_cast<int>(cards_.size()) - 1));
    if (Any(0, 1) == 0) {
      ledger_.RemoveCard(card->first);
      ledger_.SetCard(card->second);
    } else {
      card->second.usable = !card->second.usable;
      ledger_.SetCard(card->second);
    }
  }

  void Restart() {
    Ledger fresh;
    std::vector<int> order(bound_.size() + cards_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int i : order) {
      if (i < static_cast<int>(bound_.size())) {
        const auto pod = std::next(bound_.begin(), i);
        fresh.Observe(pod->first, "ns", pod->first, pod->second.request, pod->second.cards);
      } else {
        fresh.SetCard(std::next(cards_.begin(), i - static_cast<int>(bound_.size()))->second);
      }
    }
    ledger_ = std::move(fresh);
  }

  void Check() {
    std::map<std::string, Usage> naive;
    const auto count = [&](const Request& request, const std::string& name) {
      Usage& usage = naive[name];
      ++usage.pods;
      if (request.isolation == Isolation::kShared) {
        usage.whole = true;
        return;
      }
      const int64_t capacity = cards_.at(name).capacity.millitflops;
      usage.requests.millitflops += request.request_millipercent > 0 ? capacity * request.request_millipercent / 100'000
                                                                     : request.request.millitflops;
      usage.limits.millitflops +=
          request.limit_millipercent > 0 ? capacity * request.limit_millipercent / 100'000 : request.limit.millitflops;
      usage.requests.vram += request.request.vram;
      usage.limits.vram += request.limit.vram;
    };
    for (const auto& [uid, pod] : bound_) {
      ASSERT_TRUE(ledger_.entries().contains(uid)) << uid;
      for (const std::string& card : pod.cards) count(pod.request, card);
    }
    for (const auto& [uid, entry] : ledger_.entries()) {
      if (!entry.held) {
        ASSERT_TRUE(bound_.contains(uid)) << uid;
        continue;
      }
      for (const CardId card : entry.cards) count(entry.request, ledger_.CardName(card));
    }
    for (const auto& [name, card] : cards_) {
      const Usage usage = ledger_.UsageOf(name);
      const Usage wanted = naive[name];
      ASSERT_EQ(usage.pods, wanted.pods) << name;
      ASSERT_EQ(usage.whole, wanted.whole) << name;
      ASSERT_EQ(usage.requests, wanted.requests) << name;
      ASSERT_EQ(usage.limits, wanted.limits) << name;
      ASSERT_LE(usage.requests.millitflops, card.capacity.millitflops) << name;
      ASSERT_LE(usage.requests.vram, card.capacity.vram) << name;
      ASSERT_LE(usage.limits.millitflops, card.limit_capacity.millitflops) << name;
      ASSERT_LE(usage.limits.vram, card.limit_capacity.vram) << name;
      ASSERT_TRUE(!usage.whole || usage.pods == 1) << name;
    }
  }

  std::mt19937_64 random_;
  std::map<std::string, Card> cards_;
  std::map<std::string, Bound> bound_;  // as the API server has it
  Ledger ledger_;
  Decision decision_;
  absl::Time now_ = absl::UnixEpoch();
  int pods_ = 0;
};

TEST(History, NoCardEverGivesMoreThanItHas) {
  for (int seed = 0; seed < kHistories; ++seed) {
    SCOPED_TRACE(seed);
    History history(static_cast<uint64_t>(seed));
    for (int step = 0; step < kSteps; ++step) {
      history.Step();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tf::placement
