// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: which cards a program sees, and in which order.
#pragma once

#include <vector>

#include "cuda/backend.h"

namespace tf::cuda::driver {

// Indices into `devices`. `visible`: the value of CUDA_VISIBLE_DEVICES, null when unset (all cards): a list of numbers
// and of UUIDs (GPU-…, any prefix that fits one card only), up to the first entry that names no card. A card that is
// named twice makes the whole list void, as with NVIDIA's driver. `order`: of CUDA_DEVICE_ORDER; PCI_BUS_ID numbers the
// cards by their bus, anything else as `devices` has them.
std::vector<int> VisibleDevices(const std::vector<DeviceFacts>& devices, const char* visible, const char* order);

}  // namespace tf::cuda::driver
