#include "kube/leader_lease.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

std::string MakeIdentity() {
  char host[256] = "unknown";
  gethostname(host, sizeof(host) - 1);
  std::random_device random;
  return absl::StrFormat("%s_%08x%08x", host, random(), random());
}

std::function<double()> RandomNumbers() {
  auto engine = std::make_shared<std::mt19937_64>(std::random_device()());
  return [engine] { return std::uniform_real_distribution<double>()(*engine); };
}

}  // namespace

// A timer of the system's that kills this process when nobody sets it anew.
class LeaderLease::KillTimer {
 public:
  KillTimer() {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    armed_ = timer_create(CLOCK_BOOTTIME, &event, &timer_) == 0;
    if (!armed_) spdlog::warn("lease: no timer against frozen leaders: {}", strerror(errno));
  }
  ~KillTimer() {
    if (armed_) timer_delete(timer_);
  }
  void Set(absl::Duration at) { SetTime(absl::ToTimespec(at)); }
  void Clear() { SetTime({}); }

 private:
  void SetTime(timespec at) {
    itimerspec setting{};
    setting.it_value = at;
    if (armed_) timer_settime(timer_, TIMER_ABSTIME, &setting, nullptr);
  }

  timer_t timer_{};
  bool armed_ = false;
};

absl::StatusOr<std::unique_ptr<LeaderLease>> LeaderLease::Make(LeaseStore store, LeaderLeaseOptions options) {
  if (absl::Status status = Check(options.settings); !status.ok()) return status;
  if (options.identity.empty()) options.identity = MakeIdentity();
  return std::unique_ptr<LeaderLease>(new LeaderLease(std::move(store), std::move(options)));
}

LeaderLease::LeaderLease(LeaseStore store, LeaderLeaseOptions options)
    : options_(std::move(options)),
      store_(std::move(store)),
      clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()),
      status_((options_.metrics != nullptr ? options_.metrics : own_metrics_.get())
                  ->Gauge("leader_election_master_status", "1: this process leads, 0: it waits",
                          {{"name", options_.lease.name}})),
      fence_(clock_),
      kill_timer_(options_.kill_when_overdue ? std::make_unique<KillTimer>() : nullptr),
      candidate_(options_.settings, options_.lease, options_.identity, RandomNumbers()) {}

LeaderLease::~LeaderLease() { Stop(); }

void LeaderLease::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "lease");
    Run();
  });
}

void LeaderLease::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LeaderLease::Look() {
  std::lock_guard lock(mutex_);
  look_ = true;
  changed_.notify_all();
}

bool LeaderLease::leading() const {
  std::lock_guard lock(mutex_);
  return leading_;
}

std::string LeaderLease::holder() const {
  std::lock_guard lock(mutex_);
  return holder_;
}

absl::StatusOr<Json> LeaderLease::Do(const LeaseCandidate::Step& step) {
  switch (step.kind) {
    case LeaseCandidate::Kind::kRead:
      return store_.read(step.limit);
    case LeaseCandidate::Kind::kCreate:
      return store_.create(step.lease, step.limit);
    default:
      return store_.update(step.lease, step.limit);
  }
}

void LeaderLease::Run() {
  using Kind = LeaseCandidate::Kind;
  bool led = false;
  std::string holder;
  auto set_leading = [&](bool leading) {
    status_.Set(leading ? 1 : 0);
    std::lock_guard lock(mutex_);
    leading_ = leading;
  };
  set_leading(false);
  for (;;) {
    const absl::Duration sent = clock_.Monotonic();
    LeaseCandidate::Step step = candidate_.Next(sent, clock_.Now());
    if (step.kind == Kind::kLost) {
      fence_.Shut(step.reason);
      set_leading(false);
      spdlog::error("lease {}: lost: {}", options_.lease.ToString(), step.reason);
      if (options_.lost) options_.lost(step.reason);  // and the timer goes on
      return;
    }
    if (step.kind == Kind::kWait) {
      std::unique_lock lock(mutex_);
      clock_.WaitUntil(lock, changed_, step.until, [&] { return stop_ || look_; });
      if (stop_) break;
      if (std::exchange(look_, false)) candidate_.Look();
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    const absl::StatusOr<Json> answer = Do(step);
    const absl::Duration now = clock_.Monotonic();
    candidate_.Answer(sent, now, answer);
    if (!answer.ok() && !absl::IsNotFound(answer.status()) && !absl::IsAborted(answer.status()) &&
        !absl::IsAlreadyExists(answer.status())) {
      spdlog::warn("lease {}: {}", options_.lease.ToString(), std::string(answer.status().message()));
    }
    if (candidate_.Leading(now)) {
      fence_.Open(candidate_.write_until(), candidate_.over_by());
      if (kill_timer_) kill_timer_->Set((candidate_.write_until() + candidate_.over_by()) / 2);
    }
    if (candidate_.holder() != holder) {
      holder = candidate_.holder();
      {
        std::lock_guard lock(mutex_);
        holder_ = holder;
      }
      if (options_.holder_changed) options_.holder_changed(holder);
    }
    if (!led && candidate_.Leading(now)) {
      led = true;
      set_leading(true);
      spdlog::info("lease {}: acquired as {}", options_.lease.ToString(), options_.identity);
      if (options_.acquired) options_.acquired();
    }
  }
  fence_.Shut("it is stopping");
  set_leading(false);
  if (kill_timer_) kill_timer_->Clear();
  const absl::Duration now = clock_.Monotonic();
  if (std::optional<LeaseCandidate::Step> step = candidate_.Release(now, clock_.Now())) {
    if (absl::StatusOr<Json> answer = Do(*step); !answer.ok()) {
      spdlog::warn("lease {}: not given back: {}", options_.lease.ToString(), std::string(answer.status().message()));
    }
  }
}

}  // namespace tf::kube
