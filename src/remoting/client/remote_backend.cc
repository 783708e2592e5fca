#include "remoting/client/remote_backend.h"

#include <openssl/sha.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "link/shared_memory.h"
#include "remoting/region_address.h"

namespace tf::remoting {

using cuda::CopyShape;
using cuda::Pending;

namespace {

enum Direction : uint32_t { kHostToDevice = 0, kDeviceToHost = 1, kDeviceToDevice = 2, kHostToHost = 3 };
enum CopyFlags : uint32_t { kPageable = 1, kWait = 2 };

// Downloads that are under way at once: enough to keep the link busy, few enough to bound the worker's buffers.
constexpr size_t kDownloadsInFlight = 4;
constexpr uint64_t kChunkBytes = 256 << 10;

// A copy cut into pieces of whole rows, or parts of a row, of at most `limit` bytes.
struct Piece {
  uint64_t destination, source, width, height;
};

template <class Each>
CUresult ForEachPiece(const CopyShape& shape, uint64_t limit, Each&& each) {
  for (uint64_t slice = 0; slice < shape.depth; ++slice) {
    uint64_t destination = shape.destination + slice * shape.destination_slice;
    uint64_t source = shape.source + slice * shape.source_slice;
    uint64_t width = shape.width, height = shape.height;
    if (height > 1 && shape.destination_pitch == width && shape.source_pitch == width) {
      width *= height;
      height = 1;
    }
    if (width > limit) {
      for (uint64_t row = 0; row < height; ++row) {
        for (uint64_t at = 0; at < width; at += limit) {
          CUresult result = each(Piece{destination + row * shape.destination_pitch + at,
                                       source + row * shape.source_pitch + at, std::min(limit, width - at), 1});
          if (result != CUDA_SUCCESS) return result;
        }
      }
      continue;
    }
    uint64_t rows = std::max<uint64_t>(1, limit / std::max<uint64_t>(1, width));
    for (uint64_t row = 0; row < height; row += rows) {
      CUresult result = each(Piece{destination + row * shape.destination_pitch, source + row * shape.source_pitch,
                                   width, std::min(rows, height - row)});
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

// Rows packed one behind the other, copied from or to a place in this process.
void Gather(std::byte* to, uint64_t from, uint64_t pitch, uint64_t width, uint64_t height) {
  for (uint64_t row = 0; row < height; ++row) {
    std::memcpy(to + row * width, reinterpret_cast<const void*>(from + row * pitch), width);
  }
}

void Scatter(uint64_t to, uint64_t pitch, uint64_t width, uint64_t height, const std::byte* from) {
  for (uint64_t row = 0; row < height; ++row) {
    std::memcpy(reinterpret_cast<void*>(to + row * pitch), from + row * width, width);
  }
}

uint64_t Extent(uint64_t pitch, uint64_t slice, const CopyShape& shape) {
  return (shape.depth - 1) * slice + (shape.height - 1) * pitch + shape.width;
}

}  // namespace

RemoteBackend::RemoteBackend(std::unique_ptr<link::Connection> connection) : port_(std::move(connection), this) {}

RemoteBackend::~RemoteBackend() = default;

CUresult RemoteBackend::HostAllocate(uint64_t context, uint64_t size, uint32_t flags, uint64_t* address) {
  if (port_.same_machine()) return AllocateRegion(context, size, flags, address);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<uint64_t>(memory);
  std::lock_guard lock(lock_);
  plain_[*address] = size;
  return CUDA_SUCCESS;
}

CUresult RemoteBackend::AllocateRegion(uint64_t context, uint64_t size, uint32_t flags, uint64_t* address) {
  size = (size + 4095) & ~uint64_t{4095};
  absl::StatusOr<link::Fd> fd = link::CreateSharedMemory("tf-pinned", size);
  if (!fd.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  thread_local std::mt19937_64 random{std::random_device{}()};
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  for (int attempt = 0; attempt < kRegionAttempts; ++attempt) {
    uint64_t wanted = RegionAddress(attempt, random);
    if (!MayMap(wanted, size)) continue;
    void* memory = mmap(reinterpret_cast<void*>(wanted), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                        fd->get(), 0);
    if (memory == MAP_FAILED) continue;
    uint64_t id;
    {
      std::lock_guard lock(lock_);
      id = next_id_++;
    }
    result = port_.SendRegionFd(id, fd->get());
    if (result == CUDA_SUCCESS) result = wire_.RegionMap(context, id, wanted, size, flags);
    if (result == CUDA_SUCCESS) {
      madvise(memory, size, MADV_DONTFORK);
      std::lock_guard lock(lock_);
      regions_[wanted] = {.id = id, .size = size, .context = context};
      *address = wanted;
      return CUDA_SUCCESS;
    }
    munmap(memory, size);
    if (result != CUDA_ERROR_ALREADY_MAPPED) return result;
  }
  return result;
}

CUresult RemoteBackend::HostFree(uint64_t context, uint64_t address) {
  Region region{};
  uint64_t plain = 0;
  {
    std::lock_guard lock(lock_);
    if (auto found = regions_.find(address); found != regions_.end()) {
      region = found->second;
      regions_.erase(found);
    } else if (auto other = plain_.find(address); other != plain_.end()) {
      plain = other->second;
      plain_.erase(other);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  CUresult result = CUDA_SUCCESS;
  if (region.id != 0) {
    result = wire_.RegionUnmap(region.context, region.id);
    munmap(reinterpret_cast<void*>(address), region.size);
  } else {
    // Copies under way still use the memory.
    result = wire_.ContextSynchronize(context).Wait();
    munmap(reinterpret_cast<void*>(address), plain);
  }
  return result;
}

CUresult RemoteBackend::HostRegister(uint64_t, uint64_t address, uint64_t size, uint32_t) {
  std::lock_guard lock(lock_);
  plain_[address] = size;
  return CUDA_SUCCESS;
}

CUresult RemoteBackend::HostUnregister(uint64_t context, uint64_t address) {
  {
    std::lock_guard lock(lock_);
    if (plain_.erase(address) == 0) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  return wire_.ContextSynchronize(context).Wait();
}

bool RemoteBackend::InRegion(uint64_t address, uint64_t size) {
  std::lock_guard lock(lock_);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  auto& [base, region] = *std::prev(after);
  return address - base < region.size && size <= region.size - (address - base);
}

Pending RemoteBackend::Copy(uint64_t context, uint64_t stream, uint32_t direction, const CopyShape& shape,
                            uint32_t flags) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0) return Pending::Now(CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  bool pageable = (flags & kPageable) != 0;
  if (direction == kHostToHost) {
    // Nothing for a card to do, but it has its place in the stream.
    result = wire_.StreamSynchronize(context, stream).Wait();
    if (result != CUDA_SUCCESS) return Pending::Now(result);
    for (uint64_t slice = 0; slice < shape.depth; ++slice) {
      for (uint64_t row = 0; row < shape.height; ++row) {
        std::memmove(
            reinterpret_cast<void*>(shape.destination + slice * shape.destination_slice +
                                    row * shape.destination_pitch),
            reinterpret_cast<const void*>(shape.source + slice * shape.source_slice + row * shape.source_pitch),
            shape.width);
      }
    }
    return Pending::Now(CUDA_SUCCESS);
  }
  if (direction == kDeviceToDevice) {
    result = wire_.CopyDevice(context, stream, shape);
  } else {
    bool upload = direction == kHostToDevice;
    uint64_t host = upload ? shape.source : shape.destination;
    uint64_t extent = upload ? Extent(shape.source_pitch, shape.source_slice, shape)
                             : Extent(shape.destination_pitch, shape.destination_slice, shape);
    if (InRegion(host, extent)) {
      result = wire_.CopyRegion(context, stream, direction, shape);
    } else if (pageable || (flags & kWait) != 0) {
      // Pinned memory that the caller waits for may be moved at once as well: its content cannot change meanwhile.
      if (!upload) return Download(context, stream, shape);
      result = Upload(context, stream, shape);
    } else {
      result = CopyThroughTokens(context, stream, direction, shape);
    }
  }
  if (result != CUDA_SUCCESS || (flags & kWait) == 0) return Pending::Now(result);
  if (direction == kHostToDevice && pageable) return Pending::Now(result);
  return wire_.StreamSynchronize(context, stream);
}

CUresult RemoteBackend::Upload(uint64_t context, uint64_t stream, const CopyShape& shape) {
  std::vector<std::byte> packed;
  return ForEachPiece(shape, kChunkBytes, [&](const Piece& piece) {
    std::span<const std::byte> data(reinterpret_cast<const std::byte*>(piece.source), piece.width);
    if (piece.height > 1) {
      packed.resize(piece.width * piece.height);
      Gather(packed.data(), piece.source, shape.source_pitch, piece.width, piece.height);
      data = packed;
    }
    return wire_.Upload(context, stream, piece.destination, shape.destination_pitch, piece.width, piece.height, data);
  });
}

Pending RemoteBackend::Download(uint64_t context, uint64_t stream, const CopyShape& shape) {
  // The first piece is ordered before this returns; the others follow while the first ones arrive.
  struct UnderWay {
    Piece piece;
    std::unique_ptr<std::vector<std::byte>> packed;  // only for several rows
    Pending pending;
  };
  auto pieces = std::make_shared<std::vector<Piece>>();
  (void)ForEachPiece(shape, kChunkBytes, [&](const Piece& piece) {
    pieces->push_back(piece);
    return CUDA_SUCCESS;
  });
  auto start = [this, context, stream, shape](const Piece& piece) {
    std::unique_ptr<std::vector<std::byte>> packed;
    std::span<std::byte> data(reinterpret_cast<std::byte*>(piece.destination), piece.width);
    if (piece.height > 1) {
      packed = std::make_unique<std::vector<std::byte>>(piece.width * piece.height);
      data = *packed;
    }
    Pending pending =
        wire_.Download(context, stream, piece.source, shape.source_pitch, piece.width, piece.height, data);
    return UnderWay{piece, std::move(packed), std::move(pending)};
  };
  auto under_way = std::make_shared<std::deque<UnderWay>>();
  size_t first = std::min(kDownloadsInFlight, pieces->size());
  for (size_t i = 0; i < first; ++i) under_way->push_back(start((*pieces)[i]));
  return Pending::Later([pieces, under_way, start, shape, next = first]() mutable {
    CUresult result = CUDA_SUCCESS;
    while (!under_way->empty()) {
      UnderWay done = std::move(under_way->front());
      under_way->pop_front();
      CUresult piece_result = done.pending.Wait();
      if (result == CUDA_SUCCESS) result = piece_result;
      if (result != CUDA_SUCCESS) continue;  // wait for the rest, start no more
      if (done.packed) {
        Scatter(done.piece.destination, shape.destination_pitch, done.piece.width, done.piece.height,
                done.packed->data());
      }
      if (next < pieces->size()) under_way->push_back(start((*pieces)[next++]));
    }
    return result;
  });
}

CUresult RemoteBackend::CopyThroughTokens(uint64_t context, uint64_t stream, uint32_t direction,
                                          const CopyShape& shape) {
  bool upload = direction == kHostToDevice;
  return ForEachPiece(shape, kMaxRowsBytes, [&](const Piece& piece) {
    uint64_t token;
    {
      std::lock_guard lock(lock_);
      token = next_id_++;
      tokens_[token] = {.address = upload ? piece.source : piece.destination,
                        .pitch = upload ? shape.source_pitch : shape.destination_pitch,
                        .width = piece.width,
                        .height = piece.height};
    }
    return upload
               ? wire_.FetchCopy(context, stream, token, piece.destination, shape.destination_pitch, piece.width,
                                 piece.height)
               : wire_.StoreCopy(context, stream, token, piece.source, shape.source_pitch, piece.width, piece.height);
  });
}

CUresult RemoteBackend::ModuleLoad(uint64_t context, uint64_t module, std::span<const std::byte> image,
                                   cuda::ModuleFacts* facts) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(image.data()), image.size(), digest);
  std::string_view hash(reinterpret_cast<const char*>(digest), sizeof digest);
  uint8_t found = 0;
  CUresult result = wire_.ModuleFind(context, module, hash, &found, facts);
  if (result != CUDA_SUCCESS || found) return result;
  return wire_.ModuleSend(context, module, hash, image, facts);
}

void RemoteBackend::HostFunction(uint64_t token, int32_t status) {
  front_->HostFunction(token, status);
  wire_.HostFunctionDone(token);
}

void RemoteBackend::Output(uint64_t context, std::string_view text) { front_->Output(context, text); }

void RemoteBackend::Fetch(uint64_t token, uint64_t offset, uint64_t size) {
  Rows rows;
  {
    std::lock_guard lock(lock_);
    auto found = tokens_.find(token);
    if (found == tokens_.end()) return;
    rows = found->second;
    tokens_.erase(found);
  }
  // The worker asks for the whole piece; anything else is not for its eyes.
  if (offset != 0 || size != rows.width * rows.height) return;
  std::vector<std::byte> packed;
  std::span<const std::byte> data(reinterpret_cast<const std::byte*>(rows.address), rows.width);
  if (rows.height > 1) {
    packed.resize(size);
    Gather(packed.data(), rows.address, rows.pitch, rows.width, rows.height);
    data = packed;
  }
  wire_.FetchData(token, 0, data);
}

void RemoteBackend::Store(uint64_t token, uint64_t offset, std::span<const std::byte> data) {
  Rows rows;
  {
    std::lock_guard lock(lock_);
    auto found = tokens_.find(token);
    if (found == tokens_.end()) return;
    rows = found->second;
    tokens_.erase(found);
  }
  if (offset != 0 || data.size() != rows.width * rows.height) return;
  Scatter(rows.address, rows.pitch, rows.width, rows.height, data.data());
}

}  // namespace tf::remoting
