#include "service/log.h"

#include "base/json.h"
#include "service/times.h"

namespace membrane::service {

void Log::write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (level < least_) return;
  constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", ""};
  nlohmann::ordered_json line = {
      {"time", iso_time(system_now_ms())}, {"level", kLevels[static_cast<size_t>(level)]}, {"event", event}};
  for (const auto& [name, value] : fields)
    std::visit([&](const auto& each) { line[std::string(name)] = each; }, value);
  const std::string text = json_text(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), to_);  // one call: stdio keeps it whole
  std::fflush(to_);
}

}  // namespace membrane::service
