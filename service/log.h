// The service's log, one JSON object per line: {"time":…,"level":"info","event":"request",…}. It is never
// passed a token, body, secret or query.
//
// Threads: any; lines are whole.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <variant>

namespace membrane::service {

enum class Level : uint8_t { kDebug, kInfo, kWarning, kError, kSilent };

class Log {
 public:
  using Value = std::variant<std::string_view, int64_t, double, bool>;
  using Field = std::pair<std::string_view, Value>;

  // Lines below `least` are dropped. `to` is borrowed.
  Log(std::FILE* to, Level least) : to_(to), least_(least) {}
  void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

 private:
  std::FILE* to_;
  Level least_;
};

}  // namespace membrane::service
