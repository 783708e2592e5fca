// The commands of tfctl. Each is declared by one function, in a file of its own: it adds a subcommand to `app`, whose
// callback does the work and stores the exit status of the program in `exit_status` (0 when it is left alone).
//
// Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed (one line says why),
// 2 wrong usage, 78 a licence was refused.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tf::tfctl {

void AddLicenseCommand(CLI::App& app, int& exit_status);
void AddLicenseUsageCommand(CLI::App& license, int& exit_status);
void AddPoolCommand(CLI::App& app, int& exit_status);
void AddRolloutCommand(CLI::App& app, int& exit_status);
void AddGpusCommand(CLI::App& app, int& exit_status);
void AddRunCommand(CLI::App& app, int& exit_status);
void AddTopCommand(CLI::App& app, int& exit_status);
void AddUpCommand(CLI::App& app, int& exit_status);
void AddDownCommand(CLI::App& app, int& exit_status);
void AddStatusCommand(CLI::App& app, int& exit_status);

// "tfctl: MESSAGE" on standard error.
void PrintError(const std::string& message);

}  // namespace tf::tfctl
