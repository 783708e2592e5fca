// May an image from the wire be given to a driver? Drivers trust the lengths inside an image and follow the pointer of
// a wrapper, so everything that an image says about itself must lie inside the bytes that were received.
#pragma once

#include <cstddef>
#include <span>

namespace tf::remoting {

bool IsSelfContained(std::span<const std::byte> image);

}  // namespace tf::remoting
