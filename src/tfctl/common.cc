#include <cstdio>

#include "tfctl/commands.h"

namespace tf::tfctl {
namespace {

// A line of the `case` per command: what may follow it.
void AppendCases(const CLI::App& app, const std::string& path, std::string& script) {
  std::string words;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    words += command->get_name() + " ";
    AppendCases(*command, path + "/" + command->get_name(), script);
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  script += "    " + (path.empty() ? "''" : path) + ") words='" + words + "' ;;\n";
}

}  // namespace

void PrintError(const std::string& message) { std::fprintf(stderr, "tfctl: %s\n", message.c_str()); }

std::string BashCompletion(const CLI::App& app) {
  std::string script =
      "_tfctl() {\n"
      "  local path='' words='' options='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [[ $word == -- ]] && { COMPREPLY=($(compgen -c -- \"${COMP_WORDS[COMP_CWORD]}\")); return; }\n"
      "    [[ $word == -* ]] && options=1\n"
      "    [[ $options ]] || path+=/$word\n"
      "  done\n"
      "  case $path in\n";
  AppendCases(app, "", script);
  return script +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _tfctl tfctl\n";
}

}  // namespace tf::tfctl
