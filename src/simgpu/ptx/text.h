// Strings put together for messages.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace tf::simgpu::ptx {

inline void Append(std::string& out, std::string_view text) { out += text; }
template <std::integral T>
void Append(std::string& out, T number) {
  out += std::to_string(number);
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (Append(out, parts), ...);
  return out;
}

}  // namespace tf::simgpu::ptx
