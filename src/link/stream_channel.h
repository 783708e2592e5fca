// A channel over a byte stream: TCP (plain or TLS) for both channels, a Unix socket for control over shared memory.
//
// Small frames gather in a buffer that is written at 32 KiB or on Flush; the payload of a large frame goes out from
// where it lies. Received bytes are read in large pieces; a large payload with a sink is read to its place.
#pragma once

#include <memory>

#include "link/channel.h"
#include "link/link_state.h"
#include "link/stream.h"

namespace tf::link {

class StreamChannel final : public Channel {
 public:
  // `state` must outlive the channel. The stream's hello is over and nothing behind it has been read.
  StreamChannel(LinkState& state, std::unique_ptr<Stream> stream, absl::Duration spin);

  absl::StatusOr<std::span<std::byte>> Reserve(size_t size) override;
  absl::Status Commit(const FrameHeader& header, size_t size) override;
  using Channel::Send;
  absl::Status Send(const FrameHeader& header, std::span<const Bytes> pieces) override;
  absl::Status SendFds(const FrameHeader& header, std::span<const Bytes> pieces, std::span<const int> fds) override;
  absl::Status Flush(Deadline deadline) override;
  absl::StatusOr<Frame> Receive(Deadline deadline, const PayloadSink* sink) override;
  absl::StatusOr<std::optional<Frame>> TryReceive() override;
  void Release() override {}

  void Wake() { stream_->Shutdown(); }
  Stream& stream() { return *stream_; }

 private:
  static constexpr size_t kFlushAt = 32 << 10;
  static constexpr size_t kReadSize = 64 << 10;

  // A growing array whose bytes are not cleared.
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
    size_t begin = 0;
    size_t end = 0;
    size_t size() const { return end - begin; }
    // Room for `more` bytes behind `end`: moves what is there to the front, or to larger memory.
    void MakeRoom(size_t more);
  };

  absl::Status Ended(const std::string& why);
  absl::Status WriteAll(std::span<iovec> pieces, std::span<const int> fds);
  absl::Status SendNow(const FrameHeader& header, std::span<const Bytes> pieces, std::span<const int> fds);
  absl::Status ReadSome(std::span<std::byte> to, Deadline deadline, size_t& got);
  // Header of the next frame if its bytes are there.
  absl::StatusOr<bool> PeekHeader(FrameHeader& header);
  Frame Take(const FrameHeader& header);

  LinkState& state_;
  const std::unique_ptr<Stream> stream_;
  const std::chrono::nanoseconds spin_;

  Buffer out_;  // the sender's
  size_t reserved_ = 0;
  bool has_reserved_ = false;

  Buffer in_;  // the receiver's
};

}  // namespace tf::link
