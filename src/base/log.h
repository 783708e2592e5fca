// The log of a program: lines on standard error, by spdlog's default logger (spdlog::info and friends).
#pragma once

#include <string>

namespace tf {

// Call once, at the start of main. TF_LOG_LEVEL (trace, debug, info, warn, error, off) decides what is shown; without
// it TF_ENABLE_LOG=1 shows "info" and above, anything else warnings and errors.
void InitLog(const std::string& program);

}  // namespace tf
