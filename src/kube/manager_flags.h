// The options that every program on a Manager has: where the API server is, leadership, ports. One list, which is also
// the program's --help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kube/manager.h"

namespace CLI {
class App;
}

namespace tf::kube {

// For programs with more options of their own. `options` outlives the parsing; what it holds are the defaults.
void AddManagerFlags(CLI::App& app, ManagerOptions& options);

// One more option "ADDRESS:PORT" (":8081": every address).
void AddAddressFlag(CLI::App& app, const std::string& name, std::string& address, uint16_t& port, const char* help);

// For programs without. An exit code when the program is to end: after --help, or with a line on standard error.
std::optional<int> ParseManagerFlags(int argc, char** argv, ManagerOptions& options);

}  // namespace tf::kube
