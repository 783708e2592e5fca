#include "cuda/driver/visible_devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <string_view>
#include <tuple>

namespace tf::cuda::driver {
namespace {

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(), same);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// -1: the entry names no card.
int Named(const std::vector<DeviceFacts>& devices, const std::vector<int>& order, std::string_view entry) {
  if (StartsWithIgnoringCase(entry, "GPU-")) {
    int found = -1;
    for (int index : order) {
      if (!StartsWithIgnoringCase(devices[index].uuid, entry)) continue;
      if (found != -1) return -1;  // fits several
      found = index;
    }
    return found;
  }
  unsigned int number = 0;
  auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error != std::errc() || end != entry.data() + entry.size() || number >= order.size()) return -1;
  return order[number];
}

}  // namespace

std::vector<int> VisibleDevices(const std::vector<DeviceFacts>& devices, const char* visible, const char* order) {
  std::vector<int> all(devices.size());
  std::iota(all.begin(), all.end(), 0);
  if (order != nullptr && std::string_view(order) == "PCI_BUS_ID") {
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
      auto bus = [&](int i) { return std::tie(devices[i].pci_domain, devices[i].pci_bus, devices[i].pci_device); };
      return bus(a) < bus(b);
    });
  }
  if (visible == nullptr) return all;
  std::vector<int> chosen;
  std::string_view rest = visible;
  for (;;) {
    size_t comma = rest.find(',');
    int index = Named(devices, all, Trim(rest.substr(0, comma)));
    if (index == -1) break;
    if (std::find(chosen.begin(), chosen.end(), index) != chosen.end()) return {};
    chosen.push_back(index);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return chosen;
}

}  // namespace tf::cuda::driver
