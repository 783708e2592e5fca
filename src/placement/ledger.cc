#include "placement/ledger.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::placement {
namespace {

// absl's maps look up by absl's views.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

constexpr uint8_t Bit(Isolation isolation) { return static_cast<uint8_t>(1u << static_cast<unsigned>(isolation)); }
constexpr uint8_t kAll = 0b111;

// In two steps, for the product may be too large.
int64_t Share(int64_t millipercent, int64_t of) {
  return of / 100'000 * millipercent + of % 100'000 * millipercent / 100'000;
}

int64_t RequestedTflops(const Request& request, int64_t capacity) {
  return request.request_millipercent > 0 ? Share(request.request_millipercent, capacity) : request.request.millitflops;
}

int64_t LimitTflops(const Request& request, int64_t capacity) {
  return request.limit_millipercent > 0 ? Share(request.limit_millipercent, capacity) : request.limit.millitflops;
}

float Percent(int64_t part, int64_t of) {
  return of <= 0 ? 0 : std::clamp(100.0F * static_cast<float>(part) / static_cast<float>(of), 0.0F, 100.0F);
}

}  // namespace

std::string_view Text(Filter filter) {
  switch (filter) {
    case Filter::kPool:
      return "in no such pool";
    case Filter::kUsable:
      return "not ready";
    case Filter::kVendor:
      return "another vendor";
    case Filter::kModel:
      return "another model";
    case Filter::kIndex:
      return "another index";
    case Filter::kIsolation:
      return "another isolation mode";
    case Filter::kWholeCard:
      return "not free as a whole";
    case Filter::kTflops:
      return "too little compute free";
    case Filter::kVram:
      return "too little memory free";
    case Filter::kTflopsLimit:
      return "too little oversubscribed compute free for the limit";
    case Filter::kVramLimit:
      return "too little oversubscribed memory free for the limit";
    case Filter::kCount:
      return "too few such cards on one node";
    case Filter::kFits:
      return "fits";
  }
  return "";
}

// ---- cards

CardId Ledger::IdOf(std::string_view name) {
  const auto [found, made] = card_ids_.try_emplace(std::string(name), static_cast<CardId>(cards_.size()));
  if (made) {
    cards_.emplace_back().card.name = std::string(name);
    laid_ = false;
  }
  return found->second;
}

uint32_t Ledger::Number(std::string_view name) {
  return numbers_.try_emplace(std::string(name), static_cast<uint32_t>(numbers_.size() + 1)).first->second;
}

uint32_t Ledger::NumberOf(std::string_view name) const {
  const auto found = numbers_.find(View(name));
  return found == numbers_.end() ? 0 : found->second;
}

void Ledger::SetCard(const Card& card) {
  const CardId id = IdOf(card.name);
  Known& known = cards_[id];
  if (known.known && known.card == card) return;
  const bool moved = !known.known || known.card.node != card.node || known.card.index != card.index;
  const bool grown = known.card.capacity.millitflops != card.capacity.millitflops;
  known.card = card;
  known.known = true;
  const auto [node, made] = node_ids_.try_emplace(card.node, static_cast<NodeId>(node_names_.size()));
  if (made) node_names_.push_back(card.node);
  known.node = node->second;
  known.pool = Number(card.pool);
  known.vendor = Number(card.vendor);
  known.model = Number(card.model);
  known.short_model = Number(card.short_model);
  if (grown && known.percents > 0) Recount(id);
  if (moved) {
    laid_ = false;
  } else {
    Refresh(id);
  }
}

void Ledger::RemoveCard(std::string_view name) {
  const auto found = card_ids_.find(View(name));
  if (found == card_ids_.end() || !cards_[found->second].known) return;
  Known& known = cards_[found->second];
  known.card = {.name = known.card.name};
  known.known = false;
  if (known.percents > 0) Recount(found->second);
  laid_ = false;
}

const Card* Ledger::FindCard(std::string_view name) const {
  const auto found = card_ids_.find(View(name));
  return found == card_ids_.end() || !cards_[found->second].known ? nullptr : &cards_[found->second].card;
}

Usage Ledger::UsageOf(std::string_view name) const {
  const auto found = card_ids_.find(View(name));
  if (found == card_ids_.end()) return {};
  const Known& known = cards_[found->second];
  return {.requests = known.requests,
          .limits = known.limits,
          .pods = std::accumulate(known.pods.begin(), known.pods.end(), 0),
          .whole = known.pods[static_cast<size_t>(Isolation::kShared)] > 0};
}

Amount Ledger::FreeOf(std::string_view name) const {
  const Card* card = FindCard(name);
  const Usage usage = UsageOf(name);
  if (card == nullptr || usage.whole) return {};
  return {.millitflops = std::max<int64_t>(0, card->capacity.millitflops - usage.requests.millitflops),
          .vram = std::max<int64_t>(0, card->capacity.vram - usage.requests.vram)};
}

// ---- pods

void Ledger::Count(Known& known, const Request& request, int sign) {
  known.pods[static_cast<size_t>(request.isolation)] += sign;
  if (request.isolation == Isolation::kShared) return;  // it has all, however much that is
  const int64_t capacity = known.card.capacity.millitflops;
  known.requests.millitflops += sign * RequestedTflops(request, capacity);
  known.requests.vram += sign * request.request.vram;
  known.limits.millitflops += sign * LimitTflops(request, capacity);
  known.limits.vram += sign * request.limit.vram;
  if (request.limit_millipercent > 0) known.percents += sign;
}

void Ledger::Apply(const Entry& entry, int sign) {
  for (const CardId id : entry.cards) {
    Count(cards_[id], entry.request, sign);
    Refresh(id);
  }
}

// Shares of a capacity that is another one now.
void Ledger::Recount(CardId id) {
  Known& known = cards_[id];
  known.requests = {};
  known.limits = {};
  known.pods = {};
  known.percents = 0;
  for (const auto& [uid, entry] : entries_) {
    if (std::find(entry.cards.begin(), entry.cards.end(), id) != entry.cards.end()) Count(known, entry.request, +1);
  }
}

absl::Status Ledger::Hold(std::string_view uid, Entry entry) {
  const auto found = entries_.find(View(uid));
  if (found != entries_.end() && !found->second.held) {
    return absl::AlreadyExistsError(absl::StrCat("pod ", entry.ns, "/", entry.name, " has its cards already"));
  }
  if (!laid_) Lay();
  Entry before;
  if (found != entries_.end()) {
    before = std::move(found->second);
    Apply(before, -1);
    entries_.erase(found);
  }
  const Wanted wanted = Resolve(entry.request);
  absl::Status fits;
  for (size_t i = 0; i < entry.cards.size() && fits.ok(); ++i) {
    const Known& known = cards_[entry.cards[i]];
    const Slot& slot = slots_[known.position];
    const Filter verdict = Check(slot, wanted);
    if (verdict != Filter::kFits) {
      fits = absl::FailedPreconditionError(absl::StrCat("card ", known.card.name, ": ", std::string(Text(verdict))));
    } else if (std::find(entry.cards.begin(), entry.cards.begin() + static_cast<ptrdiff_t>(i), entry.cards[i]) !=
                   entry.cards.begin() + static_cast<ptrdiff_t>(i) ||
               known.node != cards_[entry.cards[0]].node) {
      fits = absl::FailedPreconditionError("expected different cards of one node");
    }
  }
  if (fits.ok() && entry.cards.size() != static_cast<size_t>(entry.request.count)) {
    fits = absl::FailedPreconditionError(
        absl::StrCat("expected ", entry.request.count, " cards, found ", entry.cards.size()));
  }
  if (!fits.ok()) {
    if (!before.cards.empty()) {
      Apply(before, +1);
      entries_.emplace(std::string(uid), std::move(before));
    }
    return fits;
  }
  entry.held = true;
  Apply(entry, +1);
  entries_.emplace(std::string(uid), std::move(entry));
  return absl::OkStatus();
}

absl::Status Ledger::Commit(std::string_view uid) {
  const auto found = entries_.find(View(uid));
  if (found == entries_.end()) return absl::NotFoundError("its cards are not held for it any more");
  found->second.held = false;
  found->second.until = absl::InfiniteFuture();
  return absl::OkStatus();
}

void Ledger::Release(std::string_view uid) {
  const auto found = entries_.find(View(uid));
  if (found == entries_.end()) return;
  Apply(found->second, -1);
  entries_.erase(found);
}

void Ledger::Observe(std::string_view uid, std::string_view ns, std::string_view name, const Request& request,
                     const std::vector<std::string>& cards) {
  Entry entry{.ns = std::string(ns), .name = std::string(name), .request = request};
  for (const std::string& card : cards) {
    const CardId id = IdOf(card);
    if (std::find(entry.cards.begin(), entry.cards.end(), id) == entry.cards.end()) entry.cards.push_back(id);
  }
  const auto [found, made] = entries_.try_emplace(std::string(uid));
  if (!made) {
    if (!found->second.held && found->second.request == entry.request && found->second.cards == entry.cards) return;
    Apply(found->second, -1);
  }
  Apply(entry, +1);
  found->second = std::move(entry);
}

absl::Status Ledger::Resize(std::string_view uid, const Request& request) {
  const auto found = entries_.find(View(uid));
  if (found == entries_.end()) return absl::NotFoundError("it has no cards");
  Entry& entry = found->second;
  if (!laid_) Lay();
  if (request.count != entry.request.count || request.isolation != entry.request.isolation ||
      request.pool != entry.request.pool) {
    return absl::FailedPreconditionError("the number of cards, their isolation and the pool of a pod do not change");
  }
  const Wanted wanted = Resolve(request);
  Apply(entry, -1);
  absl::Status fits;
  for (const CardId id : entry.cards) {
    if (const Filter verdict = Check(slots_[cards_[id].position], wanted); verdict != Filter::kFits) {
      fits =
          absl::FailedPreconditionError(absl::StrCat("card ", cards_[id].card.name, ": ", std::string(Text(verdict))));
      break;
    }
  }
  if (fits.ok()) entry.request = request;
  Apply(entry, +1);
  return fits;
}

int Ledger::ExpireHolds(absl::Time now) {
  std::vector<std::string> over;
  for (const auto& [uid, entry] : entries_) {
    if (entry.held && entry.until <= now) over.push_back(uid);
  }
  for (const std::string& uid : over) Release(uid);
  return static_cast<int>(over.size());
}

// ---- for Finder

Ledger::Wanted Ledger::Resolve(const Request& request) const {
  return {.pool = NumberOf(request.pool),
          .vendor = NumberOf(request.vendor),
          .model = NumberOf(request.model),
          .any_vendor = request.vendor.empty(),
          .any_model = request.model.empty(),
          .request = &request};
}

Filter Ledger::Check(const Slot& slot, const Wanted& wanted) {
  const Request& request = *wanted.request;
  if (slot.pool != wanted.pool) return Filter::kPool;
  if (!slot.usable) return Filter::kUsable;
  if (!wanted.any_vendor && slot.vendor != wanted.vendor) return Filter::kVendor;
  if (!wanted.any_model && slot.model != wanted.model && slot.short_model != wanted.model) return Filter::kModel;
  if (!request.indices.empty() &&
      std::find(request.indices.begin(), request.indices.end(), slot.index) == request.indices.end()) {
    return Filter::kIndex;
  }
  if ((slot.isolations & Bit(request.isolation)) == 0) return Filter::kIsolation;
  if (slot.whole) return Filter::kWholeCard;
  if (request.isolation == Isolation::kShared) {
    if (slot.taken) return Filter::kWholeCard;
  } else {
    const int64_t capacity = slot.capacity_millitflops;
    if (RequestedTflops(request, capacity) > slot.free_millitflops) return Filter::kTflops;
    if (request.request.vram > slot.free_vram) return Filter::kVram;
    if (LimitTflops(request, capacity) > slot.free_limit_millitflops) return Filter::kTflopsLimit;
    if (request.limit.vram > slot.free_limit_vram) return Filter::kVramLimit;
  }
  return Filter::kFits;
}

const std::vector<Ledger::Slot>& Ledger::slots() {
  if (!laid_) Lay();
  return slots_;
}

const std::vector<Ledger::Node>& Ledger::nodes() {
  if (!laid_) Lay();
  return nodes_;
}

NodeId Ledger::FindNode(std::string_view name) const {
  const auto found = node_ids_.find(View(name));
  return found == node_ids_.end() ? kNoNode : found->second;
}

void Ledger::Refresh(CardId id) {
  if (!laid_) return;
  const Known& known = cards_[id];
  Slot& slot = slots_[known.position];
  const Card& card = known.card;
  const bool whole = known.pods[static_cast<size_t>(Isolation::kShared)] > 0;
  const bool soft = known.pods[static_cast<size_t>(Isolation::kSoft)] > 0;
  const bool hard = known.pods[static_cast<size_t>(Isolation::kHard)] > 0;
  uint8_t isolations = kAll;
  if (card.only) isolations = Bit(*card.only) | Bit(Isolation::kShared);
  if (card.one_at_a_time && soft) isolations &= static_cast<uint8_t>(~Bit(Isolation::kHard));
  if (card.one_at_a_time && hard) isolations &= static_cast<uint8_t>(~Bit(Isolation::kSoft));
  const float before = slot.available;
  slot = {.free_millitflops = whole ? 0 : card.capacity.millitflops - known.requests.millitflops,
          .free_vram = whole ? 0 : card.capacity.vram - known.requests.vram,
          .free_limit_millitflops = whole ? 0 : card.limit_capacity.millitflops - known.limits.millitflops,
          .free_limit_vram = whole ? 0 : card.limit_capacity.vram - known.limits.vram,
          .capacity_millitflops = card.capacity.millitflops,
          .pool = known.pool,
          .vendor = known.vendor,
          .model = known.model,
          .short_model = known.short_model,
          .id = id,
          .index = card.index,
          .usable = known.known && card.usable,
          .taken = whole || soft || hard,
          .whole = whole,
          .isolations = isolations};
  slot.available = 0.7F * Percent(slot.free_vram, card.capacity.vram) +
                   0.3F * Percent(slot.free_millitflops, card.capacity.millitflops);
  if (!known.known) return;
  Node& node = nodes_[known.node];
  node.available += (static_cast<double>(slot.available) - before) / node.count;
}

void Ledger::Lay() {
  std::vector<CardId> order(cards_.size());
  std::iota(order.begin(), order.end(), 0);
  // Those that are not known last, where no node has them.
  const auto place = [this](CardId id) {
    const Known& known = cards_[id];
    return std::make_tuple(!known.known, known.node, known.card.index, std::string_view(known.card.name));
  };
  std::sort(order.begin(), order.end(), [&](CardId a, CardId b) { return place(a) < place(b); });
  slots_.assign(cards_.size(), {});
  nodes_.assign(node_names_.size(), {});
  for (uint32_t i = 0; i < order.size(); ++i) {
    Known& known = cards_[order[i]];
    known.position = i;
    if (!known.known) continue;
    Node& node = nodes_[known.node];
    if (node.count++ == 0) node.first = i;
  }
  laid_ = true;
  for (const CardId id : order) Refresh(id);
}

}  // namespace tf::placement
