#include "tfctl/completion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace tf::tfctl {
namespace {

const CLI::App* Subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(name)) return command;
  }
  return nullptr;
}

// The option that this word names, if a value must follow it.
const CLI::Option* OptionBefore(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional() && option->check_name(word)) {
      return option->get_items_expected_max() > 0 ? option : nullptr;
    }
  }
  return nullptr;
}

// The nth argument without a name; null: there are not so many.
const CLI::Option* Positional(const CLI::App& app, size_t n) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && n-- == 0) return option;
  }
  return nullptr;
}

// What CLI::IsMember allows: the type's name ends with "{a,b}".
std::vector<std::string> Values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.rfind('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',', absl::SkipEmpty());
}

}  // namespace

std::vector<std::string> Completions(const CLI::App& app, const std::vector<std::string>& words,
                                     const std::function<std::vector<std::string>()>& pools) {
  const CLI::App* command = &app;
  const CLI::Option* value_of = nullptr;
  size_t positionals = 0;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (value_of != nullptr) {
      value_of = nullptr;
    } else if (absl::StartsWith(word, "-")) {
      value_of = OptionBefore(*command, word);
    } else if (const CLI::App* next = Subcommand(*command, word)) {
      command = next;
      positionals = 0;
    } else {
      ++positionals;
    }
  }
  const std::string typed = words.empty() ? "" : words.back();

  std::vector<std::string> candidates;
  if (value_of != nullptr) {
    candidates = Values(*value_of);
  } else {
    if (!absl::StartsWith(typed, "-")) {
      for (const CLI::App* next : command->get_subcommands([](const CLI::App*) { return true; })) {
        candidates.push_back(next->get_name());
      }
      if (const CLI::Option* argument = Positional(*command, positionals)) {
        candidates = absl::StrContains(argument->get_type_name(), "POOL") ? pools() : Values(*argument);
      }
    }
    if (absl::StartsWith(typed, "-") || candidates.empty()) {
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      }
    }
  }
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](const std::string& one) { return !absl::StartsWith(one, typed); }),
                   candidates.end());
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::string BashCompletion() {
  return "_tfctl() {\n"
         "  local word IFS=$'\\n'\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    [[ $word == -- ]] && { COMPREPLY=($(compgen -c -- \"${COMP_WORDS[COMP_CWORD]}\")); return; }\n"
         "  done\n"
         "  COMPREPLY=($(\"${COMP_WORDS[0]}\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
         "}\n"
         "complete -o default -F _tfctl tfctl\n";
}

}  // namespace tf::tfctl
