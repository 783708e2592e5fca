#include "kube/informer.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kube/store.h"
#include "kube/trim.h"

namespace tf::kube {

namespace {

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

void Tell(const Handler& handler, const Change& change, bool initial) {
  try {
    switch (change.kind) {
      case Change::Kind::kAdded:
        if (handler.added) handler.added(change.object, initial);
        break;
      case Change::Kind::kUpdated:
        if (handler.updated) handler.updated(change.before, change.object);
        break;
      case Change::Kind::kDeleted:
        if (handler.deleted) handler.deleted(change.object, change.stale);
        break;
    }
  } catch (const std::exception& thrown) {
    spdlog::error("informer: a handler threw for {}: {}", KeyOf(*change.object).ToString(), thrown.what());
  }
}

}  // namespace

struct Informer::State {
  State(Client& client, Resource resource, InformerOptions options)
      : client(client),
        resource(std::move(resource)),
        options(std::move(options)),
        clock(this->options.clock != nullptr ? *this->options.clock : RealClock()),
        trim(this->options.keep.empty() ? nullptr : std::make_shared<const Trim>(this->options.keep)),
        store(this->options.indexes),
        reflector(this->options.reflector, std::random_device()()) {}

  // The thread. What it alone uses: reflector, side.
  void Run();
  absl::Status Do(const Reflector::Step& step);
  absl::Status List(const Reflector::Step& step);
  absl::Status Watch(const Reflector::Step& step);
  bool Take(const Reflector::Step& step, WatchEvent event, absl::Status& status);
  void Apply(WatchEvent::Type type, ObjectPtr object);
  absl::Status Fill(const Reflector::Step& step, std::vector<ObjectPtr> objects, std::string_view version);
  void Report(const absl::Status& status, int64_t failures_before);
  void TellAll(const std::vector<Change>& changes, bool initial);
  bool Stopping() { return cancel.cancelled(); }

  Client& client;
  const Resource resource;
  const InformerOptions options;
  Clock& clock;
  const std::shared_ptr<const Trim> trim;  // null: all is kept
  Store store;
  Reflector reflector;
  absl::flat_hash_map<Key, ObjectPtr> side;  // of a WatchList that has not told all yet
  http::Cancel cancel;
  std::thread thread;

  // Held while changes go into the store and handlers are told of them, so that one who joins misses none. Before
  // mutex.
  std::mutex telling;
  std::vector<Handler> handlers;

  mutable std::mutex mutex;  // for the rest
  std::condition_variable changed;
  bool synced = false;
  InformerStats stats;
};

void Informer::State::Run() {
  pthread_setname_np(pthread_self(), absl::StrCat("inf-", resource.plural).substr(0, 15).c_str());
  while (!Stopping()) {
    const Reflector::Step step = reflector.Next(clock.Monotonic());
    {
      std::unique_lock<std::mutex> lock(mutex);
      clock.WaitUntil(lock, changed, step.at, [this] { return Stopping(); });
      if (Stopping()) return;
      stats.watches = reflector.watches();
    }
    const absl::Status status = Do(step);
    if (Stopping()) return;
    const int64_t failures_before = reflector.failures();
    reflector.Ended(status, clock.Monotonic());
    side = {};
    Report(status, failures_before);
  }
}

absl::Status Informer::State::Do(const Reflector::Step& step) {
  if (!step.cause.empty() && step.cause != "start") {
    spdlog::info("informer {}: reads all again: {}", resource.plural, step.cause);
  }
  return step.kind == Reflector::Step::Kind::kList ? List(step) : Watch(step);
}

absl::Status Informer::State::List(const Reflector::Step& step) {
  ListOptions list;
  list.cancel = &cancel;
  list.limit = absl::Minutes(1);
  list.label_selector = options.label_selector;
  list.field_selector = options.field_selector;
  list.metadata_only = options.metadata_only;
  list.keep = trim;
  list.resource_version = step.resource_version;
  // Pages of a given version would be read from the server's store; whole, it comes from the server's memory.
  if (!step.resource_version.empty() && step.resource_version != "0") list.page_size = 0;
  std::vector<ObjectPtr> objects;
  std::string version;
  while (true) {
    absl::StatusOr<ListPage> page = client.ListOnePage(resource, options.ns, list);
    if (!page.ok()) return page.status();
    std::move(page->items.begin(), page->items.end(), std::back_inserter(objects));
    if (version.empty()) version = page->resource_version;
    if (page->continue_token.empty()) break;
    if (page->continue_token == list.continue_token) {
      return absl::DataLossError("the server continues a list with the page that it has just given");
    }
    list.continue_token = page->continue_token;
    list.resource_version.clear();  // the token has it
  }
  return Fill(step, std::move(objects), version);
}

absl::Status Informer::State::Watch(const Reflector::Step& step) {
  WatchOptions watch;
  watch.cancel = &cancel;
  watch.label_selector = options.label_selector;
  watch.field_selector = options.field_selector;
  watch.metadata_only = options.metadata_only;
  watch.keep = trim;
  watch.resource_version = step.resource_version;
  watch.server_timeout = step.server_timeout;
  watch.silence_limit = step.silence_limit;
  watch.send_initial_events = step.kind == Reflector::Step::Kind::kWatchList;
  absl::Status refused;
  const absl::Status status = client.Watch(resource, options.ns, watch,
                                           [&](WatchEvent event) { return Take(step, std::move(event), refused); });
  return refused.ok() ? status : refused;
}

bool Informer::State::Take(const Reflector::Step& step, WatchEvent event, absl::Status& status) {
  if (Stopping()) return false;
  if (event.type == WatchEvent::Type::kBookmark) {
    const std::optional<uint64_t> version = ParseVersion(ResourceVersion(*event.object));
    if (reflector.filled()) {
      if (version) store.Bookmark(*version);
      reflector.Heard(version.value_or(store.version()), true, clock.Monotonic());
      return true;
    }
    if (Annotation(*event.object, kInitialEventsEnd) != "true") return true;
    std::vector<ObjectPtr> objects;
    objects.reserve(side.size());
    for (auto& [key, object] : side) objects.push_back(std::move(object));
    side = {};
    status = Fill(step, std::move(objects), ResourceVersion(*event.object));
    return status.ok();
  }
  if (reflector.filled()) {
    Apply(event.type, std::move(event.object));
  } else if (event.type == WatchEvent::Type::kDeleted) {
    side.erase(KeyOf(*event.object));
  } else {
    side[KeyOf(*event.object)] = std::move(event.object);
  }
  return true;
}

void Informer::State::Apply(WatchEvent::Type type, ObjectPtr object) {
  const uint64_t version = ParseVersion(ResourceVersion(*object)).value_or(0);
  std::vector<Change> changes;
  Store::Verdict verdict;
  {
    const std::lock_guard<std::mutex> lock(telling);
    verdict = store.Apply(type, std::move(object), changes);
    TellAll(changes, false);
  }
  reflector.Heard(version, false, clock.Monotonic());
  const std::lock_guard<std::mutex> lock(mutex);
  switch (verdict) {
    case Store::Verdict::kApplied:
      ++stats.events;
      break;
    case Store::Verdict::kOld:
      ++stats.old_events;
      break;
    case Store::Verdict::kBad:
      ++stats.bad_objects;
      break;
  }
}

absl::Status Informer::State::Fill(const Reflector::Step& step, std::vector<ObjectPtr> objects,
                                   std::string_view version) {
  const std::optional<uint64_t> number = ParseVersion(version);
  if (!number) {
    return absl::DataLossError(absl::StrCat("expected a list with a number as its resource version, found \"",
                                            absl::string_view(version.data(), version.size()), "\""));
  }
  std::vector<Change> changes;
  int64_t bad = 0;
  {
    const std::lock_guard<std::mutex> lock(telling);
    const absl::Status status = store.Replace(std::move(objects), *number, step.accept_older, changes, bad);
    if (!status.ok()) return status;
    TellAll(changes, !synced);
  }
  reflector.Filled(*number, clock.Monotonic());
  const std::lock_guard<std::mutex> lock(mutex);
  stats.bad_objects += bad;
  stats.lists = reflector.lists();
  stats.list_causes = reflector.causes();
  if (!Stopping()) synced = true;
  changed.notify_all();
  return absl::OkStatus();
}

void Informer::State::TellAll(const std::vector<Change>& changes, bool initial) {
  for (const Change& change : changes) {
    for (const Handler& handler : handlers) {
      if (Stopping()) return;
      Tell(handler, change, initial);
    }
  }
}

void Informer::State::Report(const absl::Status& status, int64_t failures_before) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stats.failures = reflector.failures();
    stats.last_error = reflector.last_error();
  }
  if (reflector.failures() != failures_before) {
    spdlog::warn("informer {}: {}", resource.plural, reflector.last_error());
  } else if (!status.ok()) {
    spdlog::info("informer {}: begins again: {}", resource.plural,
                 std::string_view(status.message().data(), status.message().size()));
  }
}

Informer::Informer(Client& client, Resource resource, InformerOptions options)
    : state_(std::make_unique<State>(client, std::move(resource), std::move(options))) {}

Informer::~Informer() { Stop(); }

void Informer::AddHandler(Handler handler) {
  const std::lock_guard<std::mutex> lock(state_->telling);
  for (ObjectPtr& object : state_->store.All()) {
    Tell(handler, {.kind = Change::Kind::kAdded, .object = std::move(object)}, true);
  }
  state_->handlers.push_back(std::move(handler));
}

void Informer::Start() {
  if (!state_->thread.joinable()) state_->thread = std::thread([this] { state_->Run(); });
}

void Informer::Stop() {
  state_->cancel.Now();
  {
    // One who is about to wait has the lock, or sees the cancellation.
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

bool Informer::synced() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->synced;
}

absl::Status Informer::WaitForSync(absl::Duration limit) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->clock.WaitUntil(lock, state_->changed, state_->clock.Monotonic() + limit,
                          [this] { return state_->synced || state_->Stopping(); });
  if (state_->synced) return absl::OkStatus();
  if (state_->Stopping()) return absl::CancelledError("the informer was stopped before it had read all");
  return absl::DeadlineExceededError(
      absl::StrCat("the first list of ", state_->resource.plural, " did not come within ", absl::FormatDuration(limit),
                   state_->stats.last_error.empty() ? "" : ": ", state_->stats.last_error));
}

ObjectPtr Informer::Get(const Key& key) const { return state_->store.Get(key); }
std::vector<ObjectPtr> Informer::All() const { return state_->store.All(); }
std::vector<ObjectPtr> Informer::ByIndex(std::string_view index, std::string_view value) const {
  return state_->store.ByIndex(index, value);
}
size_t Informer::size() const { return state_->store.size(); }
std::string Informer::resource_version() const { return absl::StrCat(state_->store.version()); }

InformerStats Informer::stats() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->stats;
}

}  // namespace tf::kube
