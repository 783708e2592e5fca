// The books of a cluster's cards (placement/ledger.h) as the operator keeps them: for threads, by the names that a
// scheduler uses, and made from nothing but the cards and the bound pods that the API server shows.
//
// Offer answers which nodes have room and holds the best one's cards for a while; Take holds those of the node that was
// chosen after all, until Commit (the pod is bound) or Release (it is not). What is held or bound never exceeds a card.
// Pods are told apart by UID. Thread-safe; no call waits for another program.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/object.h"
#include "placement/finder.h"
#include "placement/ledger.h"

namespace tf::operators {

class CardBooks {
 public:
  // How the cards of a pool are chosen; asked for each pod, with no lock held.
  using ModeOf = std::function<placement::Mode(const std::string& pool)>;

  CardBooks(Clock& clock, ModeOf mode_of);

  // ---- what there is
  void SetCard(const placement::Card& card);
  void RemoveCard(std::string_view name);
  // As a cache has it now. Bound pods have their cards; ended ones have none; of others nothing is said.
  void SetPod(const kube::Json& pod);
  void RemovePod(std::string_view uid);

  // ---- what a scheduler asks
  struct Offered {
    std::vector<std::string> nodes = {};             // of those asked about, in that order
    std::map<std::string, std::string> failed = {};  // why the others have no room
    std::string why_none = {};                       // for people, when no node is left
  };
  // InvalidArgument: what the pod asks for cannot be read. AlreadyExists: it is bound.
  absl::StatusOr<Offered> Offer(const kube::Json& pod, const std::vector<std::string>& nodes);
  // 0 to 10 for each of `nodes`; the one whose cards are held for the pod has 10.
  absl::StatusOr<std::vector<int>> Scores(const kube::Json& pod, const std::vector<std::string>& nodes);

  struct Grant {
    std::vector<std::string> cards = {};
    int percent = 0;  // of each, that a limit in TFLOPS comes to: 1 to 100; 0: there is no such limit
  };
  // Keeps what is held for the pod on this node. NotFound: nothing is.
  absl::StatusOr<Grant> TakeHeld(std::string_view uid, const std::string& node);
  // Holds cards of this node. FailedPrecondition says why it has none for the pod.
  absl::StatusOr<Grant> Take(const kube::Json& pod, const std::string& node);
  void Commit(std::string_view uid);   // of what was taken; nothing when the pod has gone meanwhile
  void Release(std::string_view uid);  // what is held; what is bound stays

  // ---- whether the books are right
  // Compares them with all bound pods. What differs now and differed in the same way the last time is not on its way
  // any more: it is set right. How many pods that were.
  int Audit(const std::vector<kube::ObjectPtr>& pods);

  struct Use {
    std::string ns = {};
    std::string name = {};
    std::string uid = {};
    placement::Request request = {};
  };
  struct CardUse {
    placement::Amount free = {};
    std::vector<Use> pods = {};  // bound ones, by namespace and name
  };
  CardUse UseOf(std::string_view card) const;

 private:
  // A bound pod with cards; nullopt: the books have nothing of it.
  struct Bound {
    std::string uid = {};
    placement::Request request = {};
    std::vector<std::string> cards = {};
  };
  static std::optional<Bound> BoundOf(const kube::Json& pod);
  // With mutex_ held, as all of these.
  absl::Time Now() const;
  absl::StatusOr<Grant> HoldBest(const kube::Json& pod, const placement::Request& request, placement::Mode mode,
                                 absl::Duration how_long);
  Grant GrantOf(const placement::Entry& entry) const;

  Clock& clock_;
  const ModeOf mode_of_;

  mutable std::mutex mutex_;  // guards all that follows
  placement::Ledger ledger_;
  placement::Decision decision_;
  std::vector<placement::NodeId> node_ids_;
  std::set<std::string> suspects_;  // of the last audit: what it found, with the UID
};

}  // namespace tf::operators
