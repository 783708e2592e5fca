// What the informer costs: it fills a trimmed cache of pods, then takes EVENTS changes through a work queue to a
// reconcile that does nothing.
//
//   kube_informer_bench PORT EVENTS          of kube_bench_server
//
// Prints figures, one a line: name and value. The Go program beside it does the same with client-go.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/informer.h"
#include "kube/work_queue.h"

namespace {

double ResidentMegabytes() {
  malloc_trim(0);
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1e6;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: kube_informer_bench PORT EVENTS\n";
    return 2;
  }
  const int64_t events = std::atoll(argv[2]);
  tf::kube::Client client(
      std::make_shared<const tf::kube::Config>(tf::kube::Config{.server = absl::StrCat("http://127.0.0.1:", argv[1])}),
      "kube_informer_bench");
  // What a client needs for itself is there before memory is looked at.
  client.Raw("GET", "/api/v1/nothing").status().IgnoreError();
  const double before = ResidentMegabytes();

  tf::kube::InformerOptions options;
  options.keep = {"metadata.labels", "metadata.annotations", "metadata.ownerReferences",  "metadata.deletionTimestamp",
                  "spec.nodeName",   "spec.containers.name", "spec.containers.resources", "status.phase"};
  options.indexes.emplace_back("node", [](const tf::kube::Json& pod) {
    return std::vector<std::string>{std::string(tf::kube::Text(pod, "spec.nodeName"))};
  });
  tf::kube::Informer informer(client, tf::kube::core::kPod, options);
  tf::kube::WorkQueue queue({.name = "pods"});
  std::atomic<int64_t> updates = 0;
  informer.AddHandler({.added = [&](const tf::kube::ObjectPtr& pod, bool) { queue.Add(tf::kube::KeyOf(*pod)); },
                       .updated =
                           [&](const tf::kube::ObjectPtr&, const tf::kube::ObjectPtr& pod) {
                             queue.Add(tf::kube::KeyOf(*pod));
                             if (++updates == events) updates.notify_all();
                           }});
  int64_t reconciles = 0;
  std::thread worker([&] {
    while (const std::optional<tf::kube::Key> key = queue.Get()) {
      if (informer.Get(*key) != nullptr) ++reconciles;
      queue.Done(*key);
    }
  });
  const absl::Time start = absl::Now();
  informer.Start();
  if (const absl::Status synced = informer.WaitForSync(); !synced.ok()) {
    std::cerr << synced << "\n";
    std::_Exit(1);
  }
  const double sync_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const double sync_cpu = CpuSeconds();
  const double memory = ResidentMegabytes() - before;

  const double cpu_before = CpuSeconds();
  const absl::Time began = absl::Now();
  if (!client.Raw("GET", absl::StrCat("/bench/start?events=", events)).ok()) std::_Exit(1);
  for (int64_t seen = updates; seen < events; seen = updates) updates.wait(seen);
  queue.ShutDown(true);
  const double cpu = CpuSeconds() - cpu_before;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - began);
  worker.join();
  std::cout << "objects " << informer.size() << "\nmemory_mb " << memory << "\nsync_seconds " << sync_seconds
            << "\nsync_cpu_seconds " << sync_cpu << "\nevents_per_second " << static_cast<double>(events) / seconds
            << "\nevents_per_cpu_second " << static_cast<double>(events) / cpu << "\nreconciles " << reconciles
            << "\nmemory_after_mb " << ResidentMegabytes() - before << std::endl;
  informer.Stop();
  return 0;
}
