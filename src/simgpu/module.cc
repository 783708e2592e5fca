#include "simgpu/module.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "cuda/fatbin.h"

namespace tf::simgpu {
namespace {

constexpr uint32_t kDefaultShared = 48 << 10;
constexpr uint64_t kVariableAlignment = 256;

// PTX of the CUDA releases of the driver's major version, which a program may be built with.
constexpr int kNewestPtx = 99;  // 10 * major + minor

}  // namespace

CUresult Module::Load(Context& context, std::span<const std::byte> image, std::unique_ptr<Module>* module,
                      cuda::ModuleFacts* facts) {
  auto text = cuda::fatbin::ChoosePtx(image, context.device().sm());
  if (!text.ok()) {
    facts->log = std::string(text.status().message());
    return absl::IsNotFound(text.status()) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
  }
  auto program = ptx::Program::Parse(*text, context.device().sm());
  if (!program.ok()) {
    facts->log = std::string(program.status().message());
    return CUDA_ERROR_INVALID_PTX;
  }
  if (int version = (*program)->isa_version(); version > kNewestPtx) {
    facts->log = "the image is PTX " + std::to_string(version / 10) + "." + std::to_string(version % 10) +
                 "; this driver reads PTX up to " + std::to_string(kNewestPtx / 10) + "." +
                 std::to_string(kNewestPtx % 10);
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  std::unique_ptr<Module> loaded(new Module(*std::move(program)));
  loaded->shared_limit_ = context.device().card().model->shared_per_block_optin;
  std::vector<std::atomic<int32_t>> dynamic(loaded->program_->kernels().size());
  for (size_t i = 0; i < dynamic.size(); ++i) {
    int64_t fixed = loaded->program_->kernels()[i].static_shared_bytes;
    dynamic[i] = static_cast<int32_t>(std::max<int64_t>(0, kDefaultShared - fixed));
  }
  loaded->dynamic_shared_ = std::move(dynamic);
  if (CUresult result = loaded->Place(context, facts); result != CUDA_SUCCESS) {
    loaded->Unload(context);
    return result;
  }
  loaded->Describe(context.device().sm(), facts);
  *module = std::move(loaded);
  return CUDA_SUCCESS;
}

CUresult Module::Place(Context& context, cuda::ModuleFacts* facts) {
  const auto& globals = program_->globals();
  // Constants lie apart from variables: kernels may only read them.
  std::vector<uint64_t> addresses(globals.size());
  uint64_t sizes[2]{};
  for (size_t i = 0; i < globals.size(); ++i) {
    uint64_t& end = sizes[globals[i].constant];
    addresses[i] = RoundUp(end, std::max(globals[i].alignment, kVariableAlignment));
    end = addresses[i] + globals[i].size;
  }
  for (int constant : {0, 1}) {
    if (!sizes[constant]) continue;
    CUresult result =
        context.Allocate(sizes[constant], constant ? PageMap::kRead : PageMap::kReadWrite, nullptr, &blocks_[constant]);
    if (result != CUDA_SUCCESS) return result;
  }
  for (size_t i = 0; i < globals.size(); ++i) {
    addresses[i] += blocks_[globals[i].constant];
    variables_[globals[i].name] = {addresses[i], globals[i].size};
  }
  for (size_t i = 0; i < globals.size(); ++i) {
    char* memory = reinterpret_cast<char*>(addresses[i]);
    std::memcpy(memory, globals[i].initial.data(), std::min<uint64_t>(globals[i].initial.size(), globals[i].size));
    for (const auto& relocation : globals[i].relocations) {
      auto target = variables_.find(relocation.symbol);
      if (target == variables_.end()) {
        facts->log = "the initial value of " + globals[i].name + " refers to " + relocation.symbol +
                     ", which the module does not define";
        return CUDA_ERROR_INVALID_PTX;
      }
      uint64_t value = target->second.address + relocation.addend;
      std::memcpy(memory + relocation.offset, &value, relocation.bytes);
    }
  }
  if (absl::Status bound = program_->Bind(addresses); !bound.ok()) {
    facts->log = std::string(bound.message());
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

void Module::Describe(int sm, cuda::ModuleFacts* facts) const {
  uint64_t constant_bytes = 0;
  for (const auto& global : program_->globals()) constant_bytes += global.constant ? global.size : 0;
  for (size_t i = 0; i < program_->kernels().size(); ++i) {
    const ptx::KernelInfo& info = program_->kernels()[i];
    cuda::KernelFacts kernel{.name = info.name, .parameters = {}, .attributes = {}};
    for (const auto& parameter : info.parameters) kernel.parameters.push_back({parameter.offset, parameter.size});
    kernel.attributes.resize(CU_FUNC_ATTRIBUTE_MAX);
    auto set = [&](CUfunction_attribute attribute, int64_t value) {
      kernel.attributes[attribute] = static_cast<int32_t>(value);
    };
    set(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, info.max_threads);
    set(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, info.static_shared_bytes);
    set(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, constant_bytes);
    set(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, info.local_bytes);
    // The estimate never makes a block too large for the register file: a compiler would have spilled.
    set(CU_FUNC_ATTRIBUTE_NUM_REGS, std::min<uint32_t>(info.registers, 65536 / std::max(info.max_threads, 257u)));
    set(CU_FUNC_ATTRIBUTE_PTX_VERSION, program_->target_sm());
    set(CU_FUNC_ATTRIBUTE_BINARY_VERSION, sm);
    set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_shared_[i]);
    set(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1);
    facts->kernels.push_back(std::move(kernel));
  }
}

void Module::Unload(Context& context) {
  for (uint64_t& block : blocks_) {
    Context::Allocation allocation;
    if (block && context.Take(block, &allocation)) context.GiveBack(block, allocation);
    block = 0;
  }
}

bool Module::FindVariable(std::string_view name, uint64_t* address, uint64_t* size) const {
  auto found = variables_.find(std::string(name));
  if (found == variables_.end()) return false;
  *address = found->second.address;
  *size = found->second.size;
  return true;
}

CUresult Module::SetAttribute(uint32_t kernel, int32_t attribute, int32_t value) {
  if (kernel >= dynamic_shared_.size()) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value + int64_t{program_->kernels()[kernel].static_shared_bytes} > shared_limit_) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      dynamic_shared_[kernel] = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:  // a hint
      return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool Module::AllowsShared(uint32_t kernel, uint32_t dynamic_bytes) const {
  return dynamic_bytes <= static_cast<uint32_t>(dynamic_shared_[kernel].load());
}

}  // namespace tf::simgpu
