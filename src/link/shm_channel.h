// The data channel over shared memory: a ring each way.
//
// Threads: as Channel. A sleeper wakes by the ring's doorbell; the peer's death shows as hang-up of the control socket,
// which a sleeper looks at every 100 ms (a ControlLoop tells sooner).
#pragma once

#include "link/channel.h"
#include "link/link_state.h"
#include "link/ring.h"

namespace tf::link {

class ShmChannel final : public Channel {
 public:
  // All of these must outlive the channel. `liveness_fd` is the control socket.
  ShmChannel(LinkState& state, const RingMemory& out, const RingMemory& in, int liveness_fd, absl::Duration spin);

  absl::StatusOr<std::span<std::byte>> Reserve(size_t size) override;
  absl::Status Commit(const FrameHeader& header, size_t size) override;
  using Channel::Send;
  absl::Status Send(const FrameHeader& header, std::span<const Bytes> pieces) override;
  absl::Status Flush(Deadline deadline) override;
  absl::StatusOr<Frame> Receive(Deadline deadline, const PayloadSink* sink) override;
  absl::StatusOr<std::optional<Frame>> TryReceive() override;
  void Release() override;

  void Wake();

 private:
  absl::Status ReserveSlow(size_t size);
  absl::Status Broken();
  bool Next(LinkState::Phase phase, Frame& frame, absl::Status& error);
  template <class Ready>
  bool Wait(Ready ready, Doorbell& bell, Deadline deadline);

  LinkState& state_;
  const int liveness_fd_;
  const std::chrono::nanoseconds spin_;
  RingWriter writer_;
  size_t reserved_ = 0;
  bool has_reserved_ = false;
  RingReader reader_;
};

}  // namespace tf::link
