// A program on a Manager that writes all the time, whether it leads or not, for lease_test: it patches the ConfigMap
// default/written as often as it can, so that only the fence keeps what it writes apart from what others write.
//
//   lease_worker --name A --kubeconfig FILE --clock-offset 1h …
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "kube/manager.h"
#include "kube/manager_flags.h"

namespace tf::kube {
namespace {

// The system's clocks, both wrong by the same time.
class OffsetClock final : public Clock {
 public:
  explicit OffsetClock(absl::Duration offset) : offset_(offset) {}
  absl::Time Now() const override { return RealClock().Now() + offset_; }
  // Of this one only the rate matters; the kernel's timer needs its zero where the system has it.
  absl::Duration Monotonic() const override { return RealClock().Monotonic(); }
  bool WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Duration deadline,
                 const std::function<bool()>& done) override {
    return RealClock().WaitUntil(lock, changed, deadline, done);
  }

 private:
  const absl::Duration offset_;
};

int Main(int argc, char** argv) {
  InitLog("lease_worker");
  std::string name;
  std::string offset = "0s";
  bool no_kill = false;
  ManagerOptions options{.name = "lease-worker", .leader_elect = true, .health = {.address = "127.0.0.1", .port = 0}};
  CLI::App app("lease_worker");
  AddManagerFlags(app, options);
  app.add_option("--name", name)->required();
  app.add_option("--clock-offset", offset);
  app.add_flag("--no-kill-timer", no_kill);
  CLI11_PARSE(app, argc, argv);
  absl::Duration parsed;
  if (!absl::ParseDuration(offset, &parsed)) return 2;
  OffsetClock clock(parsed);
  options.clock = &clock;
  options.version = options.identity = name;
  options.kill_when_overdue = !no_kill;
  const auto made = Manager::Make(options);
  if (!made.ok()) return std::fprintf(stderr, "%s\n", made.status().ToString().c_str()), 1;
  Manager& manager = **made;

  std::atomic<bool> stop = false;
  std::thread writer;
  manager.Add({.name = "writer",
               .start =
                   [&] {
                     writer = std::thread([&] {
                       PatchOptions apply;
                       apply.type = PatchType::kApply;
                       apply.field_manager = "lease-worker";
                       apply.force = true;
                       apply.limit = absl::Hours(1);  // it is the fence that must cap it
                       for (int i = 0; !stop; ++i) {
                         const Json map = JsonObject{{"apiVersion", "v1"},
                                                     {"kind", "ConfigMap"},
                                                     {"metadata", {{"namespace", "default"}, {"name", "written"}}},
                                                     {"data", {{"by", name}, {"count", absl::StrCat(i)}}}};
                         const auto written =
                             manager.client().Patch(core::kConfigMap, {"default", "written"}, map, apply);
                         // A pace, so that the machine has time for the others.
                         absl::SleepFor(absl::Milliseconds(written.ok() ? 2 : 10));
                       }
                     });
                     return absl::OkStatus();
                   },
               .stop =
                   [&] {
                     stop = true;
                     if (writer.joinable()) writer.join();
                   },
               .needs_lease = false});
  // A clean stop ends the writes of a leader before it gives its lease back.
  manager.Add({.name = "leading",
               .start = [] { return absl::OkStatus(); },
               .stop =
                   [&] {
                     stop = true;
                     writer.join();
                   }});
  return manager.Run();
}

}  // namespace
}  // namespace tf::kube

int main(int argc, char** argv) { return tf::kube::Main(argc, argv); }
