// The backend whose card is in a worker: backend operations become messages (generated), and the few that move bytes of
// this process (copies, host memory, modules) are put together here from the wire operations.
//
// Thread-safe. Errors as Backend; CUDA_ERROR_DEVICE_UNAVAILABLE once the worker is lost.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cuda/backend.h"
#include "cuda/wire_client.h"
#include "remoting/client/port.h"

namespace tf::remoting {

class RemoteBackend : public cuda::Backend, private cuda::WireEvents {
 public:
  explicit RemoteBackend(std::unique_ptr<link::Connection> connection);
  ~RemoteBackend() override;

  void SetEvents(cuda::BackendEvents* events) override { front_ = events; }

#include "cuda/wire_forwards.inc"

  // A program ends its contexts itself.
  CUresult ContextAbandon(uint64_t) override { return CUDA_ERROR_NOT_SUPPORTED; }
  CUresult HostAllocate(uint64_t context, uint64_t size, uint32_t flags, uint64_t* address) override;
  CUresult HostFree(uint64_t context, uint64_t address) override;
  CUresult HostRegister(uint64_t context, uint64_t address, uint64_t size, uint32_t flags) override;
  CUresult HostUnregister(uint64_t context, uint64_t address) override;
  cuda::Pending Copy(uint64_t context, uint64_t stream, uint32_t direction, const cuda::CopyShape& shape,
                     uint32_t flags) override;
  CUresult ModuleLoad(uint64_t context, uint64_t module, std::span<const std::byte> image,
                      cuda::ModuleFacts* facts) override;

  cuda::WireClient<Port>& wire() { return wire_; }

 private:
  // Rows of this process's memory that the worker reads or writes when a stream gets there.
  struct Rows {
    uint64_t address, pitch, width, height;
  };
  // Host memory that the worker has mapped, at the same address.
  struct Region {
    uint64_t id, size, context;
  };

  void HostFunction(uint64_t token, int32_t status) override;
  void Output(uint64_t context, std::string_view text) override;
  void Fetch(uint64_t token, uint64_t offset, uint64_t size) override;
  void Store(uint64_t token, uint64_t offset, std::span<const std::byte> data) override;

  CUresult Upload(uint64_t context, uint64_t stream, const cuda::CopyShape& shape);
  cuda::Pending Download(uint64_t context, uint64_t stream, const cuda::CopyShape& shape);
  CUresult CopyThroughTokens(uint64_t context, uint64_t stream, uint32_t direction, const cuda::CopyShape& shape);
  bool InRegion(uint64_t address, uint64_t size);
  CUresult AllocateRegion(uint64_t context, uint64_t size, uint32_t flags, uint64_t* address);

  cuda::BackendEvents* front_ = nullptr;
  std::mutex lock_;
  uint64_t next_id_ = 1;                       // regions and tokens
  std::map<uint64_t, Region> regions_;         // by address
  std::map<uint64_t, uint64_t> plain_;         // pinned memory without a shared mapping: address -> size
  std::unordered_map<uint64_t, Rows> tokens_;  // of copies under way
  Port port_;
  cuda::WireClient<Port> wire_{&port_};
};

}  // namespace tf::remoting
