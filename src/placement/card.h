// What is known of a card: as its hypervisor publishes it and its pool's configuration has it. A value.
#pragma once

#include <optional>
#include <string>

#include "placement/request.h"

namespace tf::placement {

struct Card {
  std::string name = {};  // of the GPU object
  std::string node = {};
  std::string pool = {};
  std::string vendor = {};
  std::string model = {};        // as the driver has it
  std::string short_model = {};  // as the provider's configuration has it
  int32_t index = -1;            // on its node
  bool usable = false;           // ready, and nobody else's
  Amount capacity = {};          // that requests share
  Amount limit_capacity = {};    // that limits share: more, by the pool's oversubscription
  // The one isolation that it may have; none: any.
  std::optional<Isolation> only = {};
  // Pods of one isolation at a time (of soft and hard), whichever came first.
  bool one_at_a_time = false;
  bool operator==(const Card&) const = default;
};

}  // namespace tf::placement
