// What client and worker call themselves when they meet.
#pragma once

namespace tf::remoting {

inline constexpr const char kProgramVersion[] = "0.1.0";

}  // namespace tf::remoting
