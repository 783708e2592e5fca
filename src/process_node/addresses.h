// Loopback addresses for pods: 127.B.N.P, where B belongs to this agent, N is the node and P the pod.
//
// B is claimed from the kernel (an abstract socket name), so that agents side by side on one machine do not share
// addresses; the one that an agent had before is tried first. An address is free again as soon as it is given back, and
// the one that was free for longest comes first: what still ends has time to. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace tf::process_node {

class AddressPool {
 public:
  // `preferred`: a second octet, 0: none. ResourceExhausted when all are taken.
  static absl::StatusOr<std::unique_ptr<AddressPool>> Claim(int preferred);
  ~AddressPool();

  int octet() const { return octet_; }
  // Of a node, counted from 0 to 254. nullopt: it has 250 pods already.
  std::optional<std::string> Take(int node);
  // An adopted pod keeps its address; false when it is none of ours or somebody has it.
  bool Keep(int node, const std::string& address);
  void Give(int node, const std::string& address);

 private:
  AddressPool(int octet, int socket) : octet_(octet), socket_(socket) {}
  struct Node {
    std::set<std::string> used;
    std::deque<int> free;
    bool filled = false;
  };
  Node& At(int node);

  int octet_;
  int socket_;
  std::map<int, Node> nodes_;
};

}  // namespace tf::process_node
