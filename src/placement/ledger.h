// The books of the cards: what each has, who has what of it, and what is left.
//
// An entry is of one pod, by UID: held (it is about to be bound, until a time) or bound. Hold refuses what a card has
// no room for, so that what is given away never exceeds a card, in each of: requests to its capacity, limits to its
// oversubscribed capacity. Observe writes down what a bound pod has, whether that fits or not: it is so. The books made
// from the same pods are the same in whatever order, and entries of cards that are not known (any more) are kept for
// the card's return.
//
// Cards lie by node in one array, for Finder. Not thread-safe; no clock: times are the caller's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "placement/card.h"
#include "placement/request.h"

namespace tf::placement {

using CardId = uint32_t;  // of a name, for the ledger's life
using NodeId = uint32_t;  // the same
inline constexpr NodeId kNoNode = ~NodeId{0};

// Why a card is not for a pod, in the order in which it is looked at.
enum class Filter : uint8_t {
  kPool,
  kUsable,
  kVendor,
  kModel,
  kIndex,
  kIsolation,
  kWholeCard,
  kTflops,
  kVram,
  kTflopsLimit,
  kVramLimit,
  kCount,  // of a node: it has cards for the pod, but not as many
  kFits
};
inline constexpr size_t kFilters = static_cast<size_t>(Filter::kFits);

struct Entry {
  std::string ns = {};
  std::string name = {};
  Request request = {};
  std::vector<CardId> cards = {};
  bool held = false;
  absl::Time until = absl::InfiniteFuture();  // of a hold
};

struct Usage {
  Amount requests = {};
  Amount limits = {};
  int pods = 0;
  bool whole = false;  // one pod has all of it
};

class Ledger {
 public:
  // ---- cards
  void SetCard(const Card& card);
  void RemoveCard(std::string_view name);
  const Card* FindCard(std::string_view name) const;  // null: not known
  Usage UsageOf(std::string_view name) const;
  Amount FreeOf(std::string_view name) const;  // never negative
  const std::string& CardName(CardId id) const { return cards_[id].card.name; }

  // ---- pods
  // Takes `cards` for the pod until `until`; instead of what it held. FailedPrecondition says which card has no room
  // and of what; AlreadyExists: it is bound.
  absl::Status Hold(std::string_view uid, Entry entry);
  // A hold becomes the pod's for good. NotFound: there is none (any more).
  absl::Status Commit(std::string_view uid);
  // Whatever it had is free. OK when it has nothing.
  void Release(std::string_view uid);
  // A bound pod has these cards; instead of what we had of it.
  void Observe(std::string_view uid, std::string_view ns, std::string_view name, const Request& request,
               const std::vector<std::string>& cards);
  // Other amounts on the same cards. NotFound; FailedPrecondition: no room, and nothing has changed.
  absl::Status Resize(std::string_view uid, const Request& request);
  // Holds that have run out are released; how many.
  int ExpireHolds(absl::Time now);
  const absl::flat_hash_map<std::string, Entry>& entries() const { return entries_; }

  // ---- for Finder
  // A card as decisions need it.
  struct Slot {
    int64_t free_millitflops = 0;
    int64_t free_vram = 0;
    int64_t free_limit_millitflops = 0;
    int64_t free_limit_vram = 0;
    int64_t capacity_millitflops = 0;
    float available = 0;  // percent, of memory (0.7) and compute (0.3)
    uint32_t pool = 0;
    uint32_t vendor = 0;
    uint32_t model = 0;
    uint32_t short_model = 0;
    CardId id = 0;
    int32_t index = -1;
    bool usable = false;
    bool taken = false;      // some pod is on it
    bool whole = false;      // a pod has all of it
    uint8_t isolations = 0;  // bits of Isolation that a pod may have
  };
  // A request in the ledger's numbers; those of names that it has never heard are of nothing.
  struct Wanted {
    uint32_t pool = 0, vendor = 0, model = 0;
    bool any_vendor = true, any_model = true;
    const Request* request = nullptr;
  };
  struct Node {
    uint32_t first = 0;  // of its cards in slots()
    uint32_t count = 0;
    double available = 0;  // the mean of its cards
  };
  Wanted Resolve(const Request& request) const;
  static Filter Check(const Slot& slot, const Wanted& wanted);
  // Both valid until the next change of a card.
  const std::vector<Slot>& slots();
  const std::vector<Node>& nodes();
  NodeId FindNode(std::string_view name) const;  // kNoNode: it has never had a card
  const std::string& NodeName(NodeId id) const { return node_names_[id]; }

 private:
  struct Known {
    Card card = {};
    bool known = false;  // else some pod says that it has it
    uint32_t node = 0, pool = 0, vendor = 0, model = 0, short_model = 0;
    Amount requests = {};
    Amount limits = {};
    std::array<int, 3> pods = {};  // by isolation
    int percents = 0;              // pods whose amounts are shares of the capacity
    uint32_t position = 0;         // in slots_
  };

  CardId IdOf(std::string_view name);
  uint32_t Number(std::string_view name);
  uint32_t NumberOf(std::string_view name) const;  // 0: never heard
  void Apply(const Entry& entry, int sign);
  void Count(Known& known, const Request& request, int sign);
  void Recount(CardId id);
  void Refresh(CardId id);
  void Lay();

  absl::flat_hash_map<std::string, Entry> entries_;
  std::vector<Known> cards_;
  absl::flat_hash_map<std::string, CardId> card_ids_;
  std::vector<std::string> node_names_;
  absl::flat_hash_map<std::string, NodeId> node_ids_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;  // of pools, vendors, models; from 1

  bool laid_ = false;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
};

std::string_view Text(Filter filter);  // "too little memory free"

}  // namespace tf::placement
