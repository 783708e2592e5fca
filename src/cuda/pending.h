// Pending: an operation that is ordered already and whose answer can be awaited, once, by any thread.
#pragma once

#include <functional>
#include <utility>

#include "cuda/driver_types.h"

namespace tf::cuda {

class [[nodiscard]] Pending {
 public:
  static Pending Now(CUresult result) { return Pending(result, nullptr); }
  // `wait` blocks until the operation is over and returns its result.
  static Pending Later(std::function<CUresult()> wait) { return Pending(CUDA_SUCCESS, std::move(wait)); }

  bool over() const { return !wait_; }
  // Blocks until the operation is over.
  CUresult Wait() {
    if (wait_) result_ = std::exchange(wait_, nullptr)();
    return result_;
  }

 private:
  Pending(CUresult result, std::function<CUresult()> wait) : result_(result), wait_(std::move(wait)) {}
  CUresult result_;
  std::function<CUresult()> wait_;
};

}  // namespace tf::cuda
