// What every exported function of NVML goes through, and the state between nvmlInit and nvmlShutdown. The
// implementations are in namespace api, declared by the generated cuda/nvml_api.h.
#pragma once

#include "cuda/nvml_types.h"

namespace tf::cuda::nvml {

// True between the first nvmlInit and the shutdown that matches it.
bool Initialized();

// An exported function that is not implemented.
nvmlReturn_t NotSupported(const char* symbol);

// Around an exported function. Nothing escapes, whatever goes wrong inside.
template <class Call>
nvmlReturn_t Early(const char*, Call&& call) noexcept {
  return call();
}

template <class Call>
nvmlReturn_t Enter(const char*, Call&& call) noexcept {
  if (!Initialized()) return NVML_ERROR_UNINITIALIZED;
  return call();
}

}  // namespace tf::cuda::nvml
