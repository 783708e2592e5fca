// Shell completion: what may come next on a command line of tfctl, asked of the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace tf::tfctl {

// `words`: those after the program's name; the last one is being typed and may be "". Subcommands, options, the values
// that an option accepts, and for an argument that is a pool what `pools` gives. Sorted.
std::vector<std::string> Completions(const CLI::App& app, const std::vector<std::string>& words,
                                     const std::function<std::vector<std::string>()>& pools);

// A script for bash that asks `tfctl __complete WORD…` for these, a line each.
std::string BashCompletion();

}  // namespace tf::tfctl
