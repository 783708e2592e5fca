// tfctl top: the workers of this machine, live.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "remoting/worker/status_file.h"
#include "tfctl/commands.h"

namespace tf::tfctl {
namespace {

using remoting::WorkerStatus;

struct TopOptions {
  double interval = 1.0;
  int count = 0;  // 0: until interrupted
};

double Mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// What happened between two readings of one worker, each second.
struct Rates {
  double busy_percent = 0, calls = 0;
};

Rates Between(const WorkerStatus& before, const WorkerStatus& now) {
  double seconds = static_cast<double>(now.time_ns - before.time_ns) / 1e9;
  if (seconds <= 0) return {};
  return {.busy_percent = static_cast<double>(now.busy_ns - before.busy_ns) / 1e7 / seconds,
          .calls = static_cast<double>(now.calls - before.calls) / seconds};
}

void Print(const std::vector<WorkerStatus>& workers, const std::map<int, Rates>& rates) {
  absl::PrintF("%8s %-32s %-26s %8s %19s %7s %6s %10s  %s\n", "PID", "CONNECTION", "CARD", "SESSIONS", "MEMORY MIB",
               "BUSY", "LIMIT", "CALLS/S", "LICENCE");
  for (const WorkerStatus& w : workers) {
    auto found = rates.find(w.pid);
    Rates r = found != rates.end() ? found->second : Rates{};
    absl::PrintF("%8d %-32s %-26s %8d %9.0f/%9.0f %6.1f%% %5d%% %10.0f  %s\n", w.pid, w.connection, w.card, w.sessions,
                 Mib(w.memory_used), Mib(w.memory_limit), r.busy_percent, w.compute_percent, r.calls, w.license);
  }
  if (workers.empty()) absl::PrintF("no worker runs here (folder %s)\n", remoting::StatusFolder());
}

int Top(const TopOptions& options) {
  bool terminal = isatty(STDOUT_FILENO) != 0;
  std::map<int, WorkerStatus> before;
  std::map<int, Rates> rates;
  // Ctrl-C ends a live view; that is no failure.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  timespec wait{.tv_sec = static_cast<time_t>(options.interval),
                .tv_nsec = static_cast<long>(
                    (options.interval - static_cast<double>(static_cast<time_t>(options.interval))) * 1e9)};
  for (int shown = 0; options.count == 0 || shown < options.count; ++shown) {
    std::vector<WorkerStatus> workers = remoting::ReadAllStatus();
    std::sort(workers.begin(), workers.end(), [](auto& a, auto& b) { return a.pid < b.pid; });
    for (const WorkerStatus& worker : workers) {
      auto found = before.find(worker.pid);
      // A worker renews its file each second; between two files its last rates hold.
      if (found != before.end() && found->second.time_ns != worker.time_ns)
        rates[worker.pid] = Between(found->second, worker);
      before[worker.pid] = worker;
    }
    if (terminal && options.count == 0) std::fputs("\033[H\033[2J", stdout);
    Print(workers, rates);
    std::fflush(stdout);
    if (options.count != 0 && shown + 1 == options.count) break;
    if (sigtimedwait(&signals, nullptr, &wait) > 0) break;
  }
  return 0;
}

}  // namespace

void AddTopCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Workers of this machine: memory, busy share, calls per second, live");
  top->add_option("-d,--interval", options->interval, "Seconds between two views")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_option("-n,--count", options->count, "Views to print, then end (default: until Ctrl-C)")
      ->check(CLI::PositiveNumber);
  top->callback([options, &exit_status] { exit_status = Top(*options); });
}

}  // namespace tf::tfctl
