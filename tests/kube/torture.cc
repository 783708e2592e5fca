#include "torture.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kube/store.h"

namespace tf::testing {

namespace {

uint64_t VersionOf(const kube::ObjectPtr& object) {
  return kube::ParseVersion(kube::ResourceVersion(*object)).value_or(0);
}

std::chrono::nanoseconds Chrono(absl::Duration limit) { return absl::ToChronoNanoseconds(limit); }

}  // namespace

kube::Handler Witness::handler() {
  return {
      .added = [this](const kube::ObjectPtr& object, bool) { Tell('A', nullptr, object); },
      .updated = [this](const kube::ObjectPtr& before, const kube::ObjectPtr& object) { Tell('U', before, object); },
      .deleted = [this](const kube::ObjectPtr& object, bool) { Tell('D', nullptr, object); }};
}

void Witness::Tell(char kind, const kube::ObjectPtr& before, const kube::ObjectPtr& object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Known& known = known_[kube::KeyOf(*object).ToString()];
  const uint64_t version = VersionOf(object);
  switch (kind) {
    case 'A':
      if (known.object != nullptr) Complain("added although it is there", object);
      if (version <= known.version) Complain("added in the past", object);
      known.object = object;
      break;
    case 'U':
      if (known.object == nullptr) {
        Complain("updated although it is not there", object);
      } else if (known.object != before) {
        Complain("updated from something else than what was told", object);
      } else if (kube::Uid(*before) != kube::Uid(*object)) {
        Complain("updated to another object", object);
      }
      if (version <= known.version) Complain("updated to the past", object);
      known.object = object;
      break;
    case 'D':
      if (known.object == nullptr) {
        Complain("deleted although it is not there", object);
      } else if (kube::Uid(*known.object) != kube::Uid(*object)) {
        Complain("deleted another object", object);
      }
      if (version < known.version) Complain("deleted in the past", object);
      known.object = nullptr;
      break;
    default:
      break;
  }
  known.version = std::max(known.version, version);
  newest_ = std::max(newest_, version);
  told_.push_back(version);
  changed_.notify_all();
}

void Witness::Complain(const std::string& what, const kube::ObjectPtr& object) {
  if (violations_.size() >= 100) return;
  violations_.push_back(absl::StrCat(kube::KeyOf(*object).ToString(), " ", VersionOf(object), ": ", what));
}

std::vector<std::string> Witness::violations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return violations_;
}

std::vector<uint64_t> Witness::told() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return told_;
}

int64_t Witness::count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(told_.size());
}

std::map<std::string, uint64_t> Witness::Objects() const {
  std::map<std::string, uint64_t> objects;
  for (const auto& [key, known] : known_) {
    if (known.object != nullptr) objects[key] = VersionOf(known.object);
  }
  return objects;
}

std::map<std::string, uint64_t> Witness::objects() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Objects();
}

bool Witness::AwaitVersion(uint64_t version, absl::Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, Chrono(limit), [&] { return newest_ >= version; });
}

bool Witness::AwaitObjects(const std::map<std::string, uint64_t>& expected, absl::Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, Chrono(limit), [&] { return Objects() == expected; });
}

std::function<Fault(const ScriptedRequest&, int)> RandomFaults(FaultMix mix) {
  const auto random = std::make_shared<std::mt19937_64>(mix.seed);
  // A server that tells the same old list again and again was set back, and the informer would have to follow.
  const auto was_stale = std::make_shared<bool>(false);
  return [mix, random, was_stale](const ScriptedRequest& request, int) {
    const auto upto = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(*random); };
    Fault fault;
    // How bytes come is apart from what happens to them.
    switch (upto(8)) {
      case 0:
        fault.piece = static_cast<size_t>(1 + upto(7));  // inside of every character and every token
        break;
      case 1:
        fault.piece = static_cast<size_t>(1 + upto(5000));
        break;
      case 2:
        fault.piece = 20'000;
        fault.pause = absl::Milliseconds(1);
        break;
      default:
        break;
    }
    // However rare faults are, a slow watch is a short one: it takes milliseconds an event.
    const bool slow = (fault.piece > 0 && fault.piece < 200) || fault.pause > absl::ZeroDuration();
    const int events = 1 + upto(slow ? std::min(2 * mix.events_between, 40) : 2 * mix.events_between);
    fault.end_after_events = 2 * events;  // every watch ends some time
    if (!request.IsWatch()) {
      switch (upto(mix.forget ? 8 : 6)) {
        case 0:
          fault.refuse = true;
          break;
        case 1:
          fault.answer = 500;
          fault.reason = "InternalError";
          break;
        case 2:
          fault.cut_after_bytes = upto(20'000);
          break;
        case 3:
          fault.lose_answer = true;
          break;
        case 6:
          fault.answer = 410;
          fault.reason = "Expired";
          break;
        case 7:
          fault.stale = !*was_stale;
          break;
        default:
          break;
      }
      *was_stale = fault.stale;
      return fault;
    }
    switch (upto(mix.forget ? 22 : 18)) {
      case 0:
        fault.refuse = true;
        break;
      case 1:
        fault.answer = 500 + 3 * upto(2);
        fault.reason = "InternalError";
        break;
      case 2:
        if (upto(4) != 0) break;  // takes a second
        fault.answer = 429;
        fault.reason = "TooManyRequests";
        fault.retry_after = absl::Seconds(1);
        break;
      case 3:
        if (upto(3) != 0) break;  // takes as long as the limit of silence
        fault.silent_after_events = events;
        break;
      case 4:
      case 5:
        fault.cut_after_bytes = 1 + 300 * events;
        break;
      case 6:
      case 7:
        fault.end_after_events = events;
        break;
      case 8:
        fault.error_after_events = events;
        fault.error_code = 500;
        break;
      case 9:
      case 10:
        fault.duplicate_every = 1 + upto(5);
        fault.cut_after_events = events;
        break;
      case 11:
      case 12:
        fault.replay_every = 1 + upto(5);
        fault.cut_after_events = events;
        break;
      case 13:
        fault.end_after_events = 0;  // at once
        break;
      case 18:
      case 19:
      case 20:
        fault.error_after_events = events;
        break;
      case 21:
        fault.answer = 410;
        fault.reason = "Expired";
        break;
      default:
        fault.cut_after_events = events;
        break;
    }
    return fault;
  };
}

int64_t Forgotten(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const char* what : {"answer 410", "error 410"}) {
    const auto found = counts.find(what);
    if (found != counts.end()) sum += found->second;
  }
  return sum;
}

int64_t Injected(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [what, count] : counts) {
    if (what != "watch" && what != "get" && what != "write") sum += count;
  }
  return sum;
}

kube::InformerOptions HastyInformer(bool watch_list) {
  kube::InformerOptions options;
  options.keep = {"data"};
  options.reflector.first_delay = absl::Milliseconds(5);
  options.reflector.longest_delay = absl::Milliseconds(100);
  options.reflector.quiet_time = absl::Seconds(1);
  options.reflector.silence_limit = absl::Seconds(2);
  options.reflector.watch_list = watch_list;
  return options;
}

}  // namespace tf::testing
