#include "rollout/units.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tf::rollout {
namespace {

std::string PodName(const PodSeen& pod) { return pod.ns.empty() ? pod.name : absl::StrCat(pod.ns, "/", pod.name); }

}  // namespace

Units::Units(const Judgement& judgement, const Observation& seen, const std::unordered_set<std::string>& had_turn,
             absl::Time now)
    : judgement_(judgement), now_(now) {
  for (const Excused& excused : *judgement.excused) owners_[excused.owner].quota = excused.pods;
  const size_t component = static_cast<size_t>(judgement.component);
  units_.reserve(seen.nodes.size());
  for (const NodeSeen& node : seen.nodes) {
    Unit& unit = Add(node.name);
    unit.node = &node;
    unit.up = node.up;
    const bool turn = had_turn.contains(node.name);
    for (const PodSeen& pod : node.pods[component]) Sort(pod, unit, turn);
    if (judgement.component == Component::kHypervisor && node.pods[component].empty()) {
      PodSeen& pod = missing_.emplace_back();
      pod.name = node.name;
      pod.revisions = {judgement.target};
      pod.trouble = "Missing";
      pod.trouble_message = "its hypervisor pod is not there";
      if (!node.up) pod.created = absl::InfinitePast();  // nobody makes one there, whatever the revision
      Sort(pod, unit, turn);
    }
  }
  for (const PodSeen& pod : seen.components[component].unplaced) {
    Unit& unit = Add(PodName(pod));
    Sort(pod, unit, had_turn.contains(unit.name));
  }
}

Unit& Units::Add(const std::string& name) {
  const auto [entry, added] = index_.try_emplace(name, units_.size());
  if (added) units_.emplace_back().name = name;
  return units_[entry->second];
}

Unit* Units::Find(const std::string& name) {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &units_[found->second];
}

std::string Units::OwnerOf(const PodSeen& pod, const Unit& unit) const {
  if (judgement_.component == Component::kHypervisor && unit.node != nullptr) return unit.name;
  return pod.owner.empty() ? PodName(pod) : pod.owner;
}

void Units::Sort(const PodSeen& pod, Unit& unit, bool had_turn) {
  const bool wanted = std::find(pod.revisions.begin(), pod.revisions.end(), judgement_.target) != pod.revisions.end();
  const bool ready = pod.ready && unit.up && !pod.terminating && !pod.uid.empty();
  const bool hypervisor = judgement_.component == Component::kHypervisor;

  Owner& owner = owners_[OwnerOf(pod, unit)];
  owner.seen = true;
  if (!wanted || !ready) owner.done = false;
  if (!ready) ++owner.unready;

  if (pod.terminating) {
    (wanted ? unit.ending : unit.leaving) += 1;
    // A hypervisor that ends leaves its node without one; other pods may just be fewer.
    if (!wanted || !hypervisor) return;
  } else if (!wanted) {
    if (pod.replace == Replace::kManual) {
      unit.manual.push_back(&pod);
    } else if (!pod.refused_by.empty() && pod.retry_after > now_) {
      unit.refused.push_back(&pod);
      unit.refused_down = unit.refused_down || !ready;
    } else if (ready) {
      unit.due.push_back(&pod);
      unit.oldest = std::min(unit.oldest, pod.created);
    } else {
      unit.broken.push_back(&pod);
    }
    return;
  }

  // Whether it stands in for a pod that the rollout restarted; otherwise it says nothing about the revision. The times
  // are of another machine's clock: where a unit had its turn they are not needed.
  const bool replica = hypervisor && unit.node != nullptr ? had_turn || unit.node->joined < judgement_.started
                                                          : pod.owner_created < judgement_.started;
  const bool stands_in = replica && (had_turn || pod.created >= judgement_.started);
  if (ready) {
    ++unit.current;
    // Where the clocks disagree, or nobody knows since when, it has been ready for long enough.
    if (stands_in && pod.since <= now_ && now_ - pod.since < judgement_.min_ready) {
      unit.settling = true;
      unit.settled_at = std::max(unit.settled_at, pod.since + judgement_.min_ready);
    }
    return;
  }
  if (owner.used < owner.quota) {
    ++owner.used;
    ++unit.innocent;
  } else if (!stands_in) {
    ++unit.innocent;
  } else {
    unit.awaited.push_back(&pod);
  }
}

void Units::Excuse(const Unit& unit, const std::vector<const PodSeen*>& restarted) {
  for (const PodSeen* pod : restarted) {
    Owner& owner = owners_[OwnerOf(*pod, unit)];
    ++owner.used;
    owner.quota = std::max(owner.quota, owner.used);
  }
}

void Units::EndExcuse(const Unit& unit) {
  for (const PodSeen* pod : unit.due) {
    Owner& owner = owners_[OwnerOf(*pod, unit)];
    owner.quota = std::min(owner.quota, owner.unready);
  }
}

void Units::EndExcuses() {
  for (auto& [name, owner] : owners_) {
    if (owner.seen && owner.done) owner.quota = 0;
  }
}

std::vector<Excused> Units::excused() const {
  std::vector<Excused> excused;
  for (const auto& [name, owner] : owners_) {
    if (owner.quota > 0) excused.push_back({name, owner.quota});
  }
  std::sort(excused.begin(), excused.end(), [](const Excused& a, const Excused& b) { return a.owner < b.owner; });
  return excused;
}

}  // namespace tf::rollout
