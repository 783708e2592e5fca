#include "link/link_connection.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"

namespace tf::link {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRepliesControl = kPage / 2;
static_assert(sizeof(RingControl) <= kRepliesControl);

}  // namespace

size_t RingSegment::CapacityFor(uint32_t mib) {
  const size_t half = (size_t{mib} << 20) / 2 - kPage;
  return std::min(half, kMaxCapacity);
}

absl::StatusOr<RingSegment> RingSegment::MapAll(Fd fd, size_t capacity) {
  RingSegment segment;
  segment.capacity_ = capacity;
  struct Part {
    Mapping* mapping;
    size_t offset;
    size_t size;
  };
  for (const Part& part : {Part{&segment.control_, 0, kPage}, Part{&segment.commands_, kPage, capacity},
                           Part{&segment.replies_, kPage + capacity, capacity}}) {
    absl::StatusOr<Mapping> mapping =
        Mapping::Map(fd.get(), part.offset, part.size, /*mirrored=*/part.mapping != &segment.control_);
    if (!mapping.ok()) return mapping.status();
    *part.mapping = *std::move(mapping);
  }
  segment.fd_ = std::move(fd);
  return segment;
}

absl::StatusOr<RingSegment> RingSegment::Create(size_t capacity) {
  absl::StatusOr<Fd> fd = CreateSharedMemory("tensor-fusion-link", kPage + 2 * capacity);
  if (!fd.ok()) return fd.status();
  return MapAll(*std::move(fd), capacity);
}

absl::StatusOr<RingSegment> RingSegment::Open(Fd fd, uint64_t capacity) {
  absl::StatusOr<size_t> size = CheckSharedMemory(fd.get());
  if (!size.ok()) return size.status();
  if (capacity < FrameSpace(kMaxFrame) || capacity > kMaxCapacity || capacity % kPage != 0 ||
      *size != kPage + 2 * capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker sent shared memory of ", *size, " bytes for rings of ", capacity));
  }
  return MapAll(std::move(fd), capacity);
}

RingMemory RingSegment::commands() const {
  return {reinterpret_cast<RingControl*>(control_.bytes().data()), commands_.bytes().data(), capacity_};
}

RingMemory RingSegment::replies() const {
  return {reinterpret_cast<RingControl*>(control_.bytes().data() + kRepliesControl), replies_.bytes().data(),
          capacity_};
}

LinkConnection::LinkConnection(Peer peer, std::unique_ptr<Stream> data, std::unique_ptr<Stream> control,
                               absl::Duration spin)
    : peer_(std::move(peer)),
      control_(std::make_unique<StreamChannel>(state_, std::move(control), absl::ZeroDuration())) {
  auto channel = std::make_unique<StreamChannel>(state_, std::move(data), spin);
  state_.SetWaker([control = control_.get(), data = channel.get()] {
    control->Wake();
    data->Wake();
  });
  data_ = std::move(channel);
}

LinkConnection::LinkConnection(Peer peer, RingSegment segment, std::unique_ptr<Stream> control, Side side,
                               absl::Duration spin)
    : peer_(std::move(peer)),
      segment_(std::move(segment)),
      control_(std::make_unique<StreamChannel>(state_, std::move(control), absl::ZeroDuration())) {
  const bool client = side == Side::kClient;
  auto channel =
      std::make_unique<ShmChannel>(state_, client ? segment_.commands() : segment_.replies(),
                                   client ? segment_.replies() : segment_.commands(), control_->stream().fd(), spin);
  state_.SetWaker([control = control_.get(), data = channel.get()] {
    control->Wake();
    data->Wake();
  });
  data_ = std::move(channel);
}

}  // namespace tf::link
