#include "simgpu/ptx/exec/find.h"

namespace tf::simgpu::ptx {
namespace {

using Finder = Handler (*)(const Key&);

bool UseV3() {
#ifdef TF_PTX_HAS_V3
  static const bool use = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") &&
                          __builtin_cpu_supports("lzcnt");
  return use;
#else
  return false;
#endif
}

}  // namespace

const char* HandlerSet() { return UseV3() ? "v3" : "plain"; }

Handler Find(const Key& key, bool allow_v3) {
  static constexpr Finder kPlain[] = {plain::FindInteger, plain::FindMove,    plain::FindCompare, plain::FindReal,
                                      plain::FindHalf,    plain::FindConvert, plain::FindMemory,  plain::FindAtomic};
  const Finder* finders = kPlain;
#ifdef TF_PTX_HAS_V3
  static constexpr Finder kV3[] = {v3::FindInteger, v3::FindMove,    v3::FindCompare, v3::FindReal,
                                   v3::FindHalf,    v3::FindConvert, v3::FindMemory,  v3::FindAtomic};
  if (allow_v3 && UseV3()) finders = kV3;
#else
  static_cast<void>(allow_v3);
#endif
  for (int i = 0; i < 8; ++i) {
    if (Handler handler = finders[i](key)) return handler;
  }
  return nullptr;
}

}  // namespace tf::simgpu::ptx
