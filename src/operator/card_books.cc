#include "operator/card_books.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "placement/explain.h"

namespace tf::operators {
namespace {

using kube::Json;

// How long cards are held for a pod that was told of them, and for one that is being bound.
constexpr absl::Duration kOffered = absl::Seconds(5);
constexpr absl::Duration kTaken = absl::Minutes(1);

bool HasEnded(const Json& pod) {
  const std::string_view phase = kube::Text(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

std::string NameOf(const Json& pod) { return kube::KeyOf(pod).ToString(); }

}  // namespace

CardBooks::CardBooks(Clock& clock, ModeOf mode_of) : clock_(clock), mode_of_(std::move(mode_of)) {}

// ---- what there is

void CardBooks::SetCard(const placement::Card& card) {
  std::lock_guard lock(mutex_);
  ledger_.SetCard(card);
}

void CardBooks::RemoveCard(std::string_view name) {
  std::lock_guard lock(mutex_);
  ledger_.RemoveCard(name);
}

std::optional<CardBooks::Bound> CardBooks::BoundOf(const Json& pod) {
  if (kube::Text(pod, "spec.nodeName").empty() || HasEnded(pod)) return std::nullopt;
  std::vector<std::string> cards = placement::CardsOf(pod);
  if (cards.empty()) return std::nullopt;
  absl::StatusOr<placement::Request> request = placement::RequestOf(pod);
  // Somebody has changed what it asked for into something that cannot be read: it has the cards all the same.
  return Bound{.uid = std::string(kube::Uid(pod)),
               .request = request.ok() ? *std::move(request) : placement::Request(),
               .cards = std::move(cards)};
}

void CardBooks::SetPod(const Json& pod) {
  const std::optional<Bound> bound = BoundOf(pod);
  std::lock_guard lock(mutex_);
  if (bound) {
    ledger_.Observe(bound->uid, kube::Namespace(pod), kube::Name(pod), bound->request, bound->cards);
  } else if (HasEnded(pod)) {
    ledger_.Release(kube::Uid(pod));
  }
}

void CardBooks::RemovePod(std::string_view uid) {
  std::lock_guard lock(mutex_);
  ledger_.Release(uid);
}

// ---- what a scheduler asks

absl::Time CardBooks::Now() const { return absl::UnixEpoch() + clock_.Monotonic(); }

CardBooks::Grant CardBooks::GrantOf(const placement::Entry& entry) const {
  Grant grant;
  int64_t most = 0;
  for (const placement::CardId id : entry.cards) {
    grant.cards.push_back(ledger_.CardName(id));
    if (const placement::Card* card = ledger_.FindCard(grant.cards.back())) {
      most = std::max(most, card->capacity.millitflops);
    }
  }
  // On the fastest of them it is no more than the limit. A share is a whole percent: rounded down, and at least one.
  if (const int64_t limit = entry.request.limit.millitflops; limit > 0 && most > 0) {
    grant.percent = static_cast<int>(std::clamp<int64_t>(limit * 100 / most, 1, 100));
  }
  return grant;
}

// The best of node_ids_; decision_ says why there is none.
absl::StatusOr<CardBooks::Grant> CardBooks::HoldBest(const Json& pod, const placement::Request& request,
                                                     placement::Mode mode, absl::Duration how_long) {
  const std::string_view uid = kube::Uid(pod);
  const auto known = ledger_.entries().find(absl::string_view(uid.data(), uid.size()));
  if (known != ledger_.entries().end() && !known->second.held) {
    return absl::AlreadyExistsError(absl::StrCat("pod ", NameOf(pod), " has its cards already"));
  }
  ledger_.ExpireHolds(Now());
  ledger_.Release(uid);  // what it held is among what it may have
  placement::Find(ledger_, request, mode, node_ids_, decision_);
  if (decision_.node == placement::kNoNode) {
    return absl::FailedPreconditionError(placement::Explain(request, decision_));
  }
  placement::Entry entry{.ns = std::string(kube::Namespace(pod)),
                         .name = std::string(kube::Name(pod)),
                         .request = request,
                         .cards = decision_.cards,
                         .until = Now() + how_long};
  Grant grant = GrantOf(entry);
  if (absl::Status held = ledger_.Hold(uid, std::move(entry)); !held.ok()) return held;
  return grant;
}

absl::StatusOr<CardBooks::Offered> CardBooks::Offer(const Json& pod, const std::vector<std::string>& nodes) {
  const absl::StatusOr<placement::Request> request = placement::RequestOf(pod);
  if (!request.ok()) return request.status();
  const placement::Mode mode = mode_of_(request->pool);
  std::lock_guard lock(mutex_);
  node_ids_.clear();
  for (const std::string& node : nodes) node_ids_.push_back(ledger_.FindNode(node));
  Offered offered;
  const absl::StatusOr<Grant> held = HoldBest(pod, *request, mode, kOffered);
  if (absl::IsFailedPrecondition(held.status())) {
    offered.why_none = std::string(held.status().message());
  } else if (!held.ok()) {
    return held.status();
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (decision_.verdicts[i] == placement::Filter::kFits) {
      offered.nodes.push_back(nodes[i]);
    } else {
      offered.failed[nodes[i]] = placement::ExplainNode(decision_.verdicts[i]);
    }
  }
  return offered;
}

absl::StatusOr<std::vector<int>> CardBooks::Scores(const Json& pod, const std::vector<std::string>& nodes) {
  const absl::StatusOr<placement::Request> request = placement::RequestOf(pod);
  if (!request.ok()) return request.status();
  const placement::Mode mode = mode_of_(request->pool);
  std::lock_guard lock(mutex_);
  const std::string_view uid = kube::Uid(pod);
  std::string_view chosen;
  const auto known = ledger_.entries().find(absl::string_view(uid.data(), uid.size()));
  if (known != ledger_.entries().end() && !known->second.cards.empty()) {
    const placement::Card* card = ledger_.FindCard(ledger_.CardName(known->second.cards[0]));
    if (card != nullptr) chosen = card->node;
  }
  std::vector<int> scores;
  for (const std::string& node : nodes) {
    const placement::NodeId id = ledger_.FindNode(node);
    scores.push_back(node == chosen             ? placement::kChosenScore
                     : id == placement::kNoNode ? 0
                                                : placement::ExtenderScore(placement::NodeScore(ledger_, mode, id)));
  }
  return scores;
}

absl::StatusOr<CardBooks::Grant> CardBooks::TakeHeld(std::string_view uid, const std::string& node) {
  std::lock_guard lock(mutex_);
  ledger_.ExpireHolds(Now());
  const auto known = ledger_.entries().find(absl::string_view(uid.data(), uid.size()));
  if (known == ledger_.entries().end() || !known->second.held) {
    return absl::NotFoundError("nothing is held for this pod");
  }
  placement::Entry entry = known->second;
  for (const placement::CardId id : entry.cards) {
    const placement::Card* card = ledger_.FindCard(ledger_.CardName(id));
    if (card == nullptr || card->node != node) return absl::NotFoundError("nothing is held for this pod on this node");
  }
  Grant grant = GrantOf(entry);
  entry.until = Now() + kTaken;
  if (absl::Status held = ledger_.Hold(uid, std::move(entry)); !held.ok()) return held;
  return grant;
}

absl::StatusOr<CardBooks::Grant> CardBooks::Take(const Json& pod, const std::string& node) {
  const absl::StatusOr<placement::Request> request = placement::RequestOf(pod);
  if (!request.ok()) return request.status();
  const placement::Mode mode = mode_of_(request->pool);
  std::lock_guard lock(mutex_);
  node_ids_ = {ledger_.FindNode(node)};
  return HoldBest(pod, *request, mode, kTaken);
}

void CardBooks::Commit(std::string_view uid) {
  std::lock_guard lock(mutex_);
  // It may have gone in the moment in which it was bound; then there is nothing to write down.
  ledger_.Commit(uid).IgnoreError();
}

void CardBooks::Release(std::string_view uid) {
  std::lock_guard lock(mutex_);
  const auto known = ledger_.entries().find(absl::string_view(uid.data(), uid.size()));
  if (known != ledger_.entries().end() && known->second.held) ledger_.Release(uid);
}

// ---- whether the books are right

int CardBooks::Audit(const std::vector<kube::ObjectPtr>& pods) {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::pair<const Json*, Bound>> bound;
  for (const kube::ObjectPtr& pod : pods) {
    if (const std::optional<Bound> one = BoundOf(*pod)) bound[one->uid] = {pod.get(), *one};
  }
  std::set<std::string> found;
  std::vector<std::string> wrong;
  const auto suspect = [&](const std::string& uid, const std::string& what) {
    std::string finding = absl::StrCat(uid, " ", what);
    if (suspects_.contains(finding)) {
      wrong.push_back(uid);
    } else {
      found.insert(std::move(finding));
    }
  };
  for (const auto& [uid, entry] : ledger_.entries()) {
    if (!entry.held && !bound.contains(uid)) suspect(uid, "has no cards");
  }
  for (const auto& [uid, one] : bound) {
    const auto known = ledger_.entries().find(uid);
    bool same = known != ledger_.entries().end() && !known->second.held &&
                known->second.request == one.second.request && known->second.cards.size() == one.second.cards.size();
    for (size_t i = 0; same && i < one.second.cards.size(); ++i) {
      same = ledger_.CardName(known->second.cards[i]) == one.second.cards[i];
    }
    if (!same) suspect(uid, "has other cards");
  }
  for (const std::string& uid : wrong) {
    const auto one = bound.find(uid);
    if (one == bound.end()) {
      ledger_.Release(uid);
    } else {
      const Json& pod = *one->second.first;
      ledger_.Observe(uid, kube::Namespace(pod), kube::Name(pod), one->second.second.request, one->second.second.cards);
    }
  }
  suspects_ = std::move(found);
  return static_cast<int>(wrong.size());
}

CardBooks::CardUse CardBooks::UseOf(std::string_view card) const {
  std::lock_guard lock(mutex_);
  CardUse use{.free = ledger_.FreeOf(card)};
  for (const auto& [uid, entry] : ledger_.entries()) {
    if (entry.held) continue;
    const bool on_it = std::any_of(entry.cards.begin(), entry.cards.end(),
                                   [&](placement::CardId id) { return ledger_.CardName(id) == card; });
    if (on_it) use.pods.push_back({.ns = entry.ns, .name = entry.name, .uid = uid, .request = entry.request});
  }
  std::sort(use.pods.begin(), use.pods.end(),
            [](const Use& a, const Use& b) { return std::tie(a.ns, a.name, a.uid) < std::tie(b.ns, b.name, b.uid); });
  return use;
}

}  // namespace tf::operators
