// A driver for tests of the runtime: it computes nothing, counts two devices, and writes down what it is asked.
// The library exports tf_fake(), which gives access to what it wrote down and to what it shall answer.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver_types.h"

namespace tf::cuda::runtime {

struct Fake {
  std::mutex mutex;
  std::vector<std::string> calls;           // name and the arguments that matter, in order
  std::map<std::string, CUresult> answers;  // for a name: answered once instead of what it would do
  int version = 13000;
  std::map<int, int> retained;      // device to references of its primary context
  std::vector<const void*> images;  // what cuLibraryLoadData got

  std::vector<std::string> TakeCalls() {
    std::lock_guard lock(mutex);
    return std::exchange(calls, {});
  }
};

}  // namespace tf::cuda::runtime

extern "C" tf::cuda::runtime::Fake* tf_fake();
