#include <cstdio>

#include "tfctl/commands.h"

namespace tf::tfctl {

void PrintError(const std::string& message) { std::fprintf(stderr, "tfctl: %s\n", message.c_str()); }

}  // namespace tf::tfctl
