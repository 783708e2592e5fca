// The three components that a pool rolls out, in the order in which a node gets them.
#pragma once

#include <cstddef>

namespace tf::rollout {

enum class Component { kHypervisor, kWorker, kClient };

inline constexpr size_t kComponents = 3;
inline constexpr Component kAllComponents[kComponents] = {Component::kHypervisor, Component::kWorker,
                                                          Component::kClient};

// "hypervisor", "worker", "client": as in status keys and messages.
constexpr const char* Name(Component component) {
  switch (component) {
    case Component::kHypervisor:
      return "hypervisor";
    case Component::kWorker:
      return "worker";
    case Component::kClient:
      return "client";
  }
  return "";
}

}  // namespace tf::rollout
