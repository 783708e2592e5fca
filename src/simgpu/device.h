// One simulated card as this process uses it: its addresses, its place in the shared books, its turn to execute.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "simgpu/arena.h"
#include "simgpu/card_gate.h"
#include "simgpu/card_state.h"

namespace tf::simgpu {

// Held by every context of the card; the process leaves the card with the last one.
class CardUser {
 public:
  CardUser(std::unique_ptr<CardMember> member, Arena& arena)
      : member_(std::move(member)), gate_(*member_), arena_(arena) {}

  CardGate& gate() { return gate_; }
  Arena& arena() { return arena_; }
  void Info(uint64_t* free, uint64_t* total) { member_->Info(free, total); }

  // Memory of the card with addresses; `bytes` is a multiple of kPageBytes. 0 when the card or the addresses are full.
  uint64_t Allocate(uint64_t bytes) {
    if (!member_->Reserve(bytes)) return 0;
    uint64_t address = arena_.Allocate(bytes);
    if (!address) member_->Release(bytes);
    return address;
  }
  void Free(uint64_t address, uint64_t bytes) {
    arena_.Free(address, bytes);
    member_->Release(bytes);
  }

 private:
  std::unique_ptr<CardMember> member_;
  CardGate gate_;
  Arena& arena_;
};

class Device {
 public:
  Device(CardState& state, const Card& card) : state_(state), card_(card) {}

  const Card& card() const { return card_; }
  int sm() const { return card_.model->major * 10 + card_.model->minor; }

  absl::StatusOr<std::shared_ptr<CardUser>> Use() {
    std::lock_guard lock(mutex_);
    if (auto user = user_.lock()) return user;
    if (!arena_) {
      auto arena = Arena::Create(card_.model->memory);
      if (!arena.ok()) return arena.status();
      arena_ = *std::move(arena);
    }
    auto member = state_.Join(card_.index);
    if (!member.ok()) return member.status();
    auto user = std::make_shared<CardUser>(*std::move(member), *arena_);
    user_ = user;
    return user;
  }

 private:
  CardState& state_;
  const Card& card_;
  std::mutex mutex_;
  std::unique_ptr<Arena> arena_;
  std::weak_ptr<CardUser> user_;
};

}  // namespace tf::simgpu
