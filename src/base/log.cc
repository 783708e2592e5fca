#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string_view>

namespace tf {

void InitLog(const std::string& program) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %n[%P] %l: %v");
  const char* enabled = std::getenv("TF_ENABLE_LOG");
  const char* wanted = std::getenv("TF_LOG_LEVEL");
  auto level = enabled != nullptr && std::string_view(enabled) == "1" ? spdlog::level::info : spdlog::level::warn;
  if (wanted != nullptr && *wanted != '\0') {
    const auto named = spdlog::level::from_str(wanted);
    if (named == spdlog::level::off && std::string_view(wanted) != "off") {
      logger->warn("TF_LOG_LEVEL is no level: use trace, debug, info, warn, error or off");
    } else {
      level = named;
    }
  }
  logger->set_level(level);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace tf
