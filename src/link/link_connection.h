// The Connection behind both transports: a state, two channels, and for shared memory the mapped rings.
#pragma once

#include <memory>

#include "link/connection.h"
#include "link/link_state.h"
#include "link/ring.h"
#include "link/shared_memory.h"
#include "link/shm_channel.h"
#include "link/stream_channel.h"

namespace tf::link {

// The memory of a connection: one page with a RingControl for each direction, then the two rings.
class RingSegment {
 public:
  // Holds four of the largest frames. Larger rings fall out of the caches: 16 MiB takes twice the time per copied byte.
  static constexpr size_t kMaxCapacity = size_t{4} << 20;

  // Capacity of each ring within a budget of `mib` MiB for the connection.
  static size_t CapacityFor(uint32_t mib);

  static absl::StatusOr<RingSegment> Create(size_t capacity);
  // Memory that the worker sent.
  static absl::StatusOr<RingSegment> Open(Fd fd, uint64_t capacity);

  int fd() const { return fd_.get(); }
  RingMemory commands() const;  // client to worker
  RingMemory replies() const;   // worker to client

 private:
  static absl::StatusOr<RingSegment> MapAll(Fd fd, size_t capacity);

  Fd fd_;
  size_t capacity_ = 0;
  Mapping control_;
  Mapping commands_;
  Mapping replies_;
};

class LinkConnection final : public Connection {
 public:
  enum class Side { kClient, kWorker };

  LinkConnection(Peer peer, std::unique_ptr<Stream> data, std::unique_ptr<Stream> control, absl::Duration spin);
  LinkConnection(Peer peer, RingSegment segment, std::unique_ptr<Stream> control, Side side, absl::Duration spin);
  // Wakes the peer even when a forked child still holds copies of the sockets.
  ~LinkConnection() override {
    state_.End(LinkState::kDown, absl::UnavailableError("the link was closed on this side"));
  }

  Channel& data() override { return *data_; }
  Channel& control() override { return *control_; }
  const Peer& peer() const override { return peer_; }
  void Shutdown(absl::Status why) override { state_.End(LinkState::kDown, why); }
  void PeerGone(absl::Status why) override { state_.End(LinkState::kPeerGone, why); }
  absl::Status status() const override { return state_.status(); }
  bool InForkedChild() const override { return state_.phase() == LinkState::kForked; }

 private:
  LinkState state_;
  const Peer peer_;
  RingSegment segment_;  // empty over TCP
  std::unique_ptr<StreamChannel> control_;
  std::unique_ptr<Channel> data_;
};

}  // namespace tf::link
