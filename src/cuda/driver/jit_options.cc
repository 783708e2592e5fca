#include "cuda/driver/jit_options.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tf::cuda::driver {

CUresult JitOptions::Read(unsigned int count, CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_.size = static_cast<unsigned int>(reinterpret_cast<uintptr_t>(values[i]));
        info_.size_out = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.size = static_cast<unsigned int>(reinterpret_cast<uintptr_t>(values[i]));
        error_.size_out = &values[i];
        break;
      case CU_JIT_WALL_TIME: {
        float none = 0;
        std::memcpy(&values[i], &none, sizeof none);
        break;
      }
      default:
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

void JitOptions::WriteLogs(CUresult result, std::string_view log) const {
  Write(info_, result == CUDA_SUCCESS ? log : std::string_view());
  Write(error_, result == CUDA_SUCCESS ? std::string_view() : log);
}

void JitOptions::Write(const Buffer& buffer, std::string_view log) {
  size_t size = 0;
  if (buffer.text != nullptr && buffer.size != 0) {
    size = std::min(log.size(), buffer.size - 1);
    if (size != 0) std::memcpy(buffer.text, log.data(), size);
    buffer.text[size] = '\0';
  }
  if (buffer.size_out != nullptr) *buffer.size_out = reinterpret_cast<void*>(size);
}

}  // namespace tf::cuda::driver
