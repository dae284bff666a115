#include "host/json_path.h"

#include <charconv>

#include "base/json.h"

namespace membrane::host {
namespace {

class PathParser {
 public:
  explicit PathParser(std::string_view path) : path_(path) {}

  HostResult<std::vector<PathStep>> parse() {
    std::vector<PathStep> steps;
    if (peek() == '$' && (path_.size() == 1 || path_[1] == '.' || path_[1] == '[')) ++at_;
    while (at_ < path_.size()) {
      if (steps.size() == kMaxPathSteps) return refuse(Errno::kInvalid, "the path has more than 256 steps");
      auto step = peek() == '[' ? bracket() : name(!steps.empty() || at_ != 0);
      if (!step) return std::unexpected(step.error());
      steps.push_back(std::move(*step));
    }
    return steps;
  }

 private:
  [[nodiscard]] char peek() const { return at_ < path_.size() ? path_[at_] : '\0'; }

  [[nodiscard]] std::unexpected<HostError> wrong(std::string_view what) const {
    return refuse(Errno::kInvalid, "the path '" + std::string(path_.substr(0, 80)) +
                                       "' is malformed at byte " + std::to_string(at_) + ": " +
                                       std::string(what) + R"( (write a.b[0].c, or ["a.b"]))");
  }

  static void read_index(PathStep& step) {
    const char* end = step.name.data() + step.name.size();
    const auto [stop, error] = std::from_chars(step.name.data(), end, step.index);
    step.has_index = error == std::errc() && stop == end;
  }

  // A dot before the first step is accepted: ".a" is "a", as many are used to write it.
  HostResult<PathStep> name(bool needs_dot) {
    if (peek() == '.') {
      ++at_;
    } else if (needs_dot) {
      return wrong("a \".\" or \"[\" is missing");
    }
    const size_t end = std::min(path_.find_first_of(".[]", at_), path_.size());
    if (end == at_) return wrong("a name is missing");
    if (end < path_.size() && path_[end] == ']') {
      at_ = end;
      return wrong("\"]\" without \"[\"");
    }
    PathStep step{.name = std::string(path_.substr(at_, end - at_))};
    read_index(step);
    at_ = end;
    return step;
  }

  HostResult<PathStep> bracket() {
    ++at_;
    if (peek() == '"') return quoted();
    const size_t end = path_.find(']', at_);
    if (end == std::string_view::npos) return wrong("\"]\" is missing");
    PathStep step{.name = std::string(path_.substr(at_, end - at_)), .is_index = true};
    read_index(step);
    if (!step.has_index) return wrong("an index is a number; a name in brackets needs quotes");
    at_ = end + 1;
    return step;
  }

  HostResult<PathStep> quoted() {
    size_t end = at_ + 1;
    while (end < path_.size() && path_[end] != '"') end += path_[end] == '\\' ? 2 : 1;
    if (end + 1 >= path_.size() || path_[end + 1] != ']') return wrong("\"] is missing");
    const auto text = read_json(path_.substr(at_, end + 1 - at_));
    if (!text || !text->is_string()) return wrong("the name is not a JSON string");
    at_ = end + 2;
    return PathStep{.name = text->get<std::string>()};
  }

  std::string_view path_;
  size_t at_ = 0;
};

}  // namespace

HostResult<std::vector<PathStep>> parse_json_path(std::string_view path) { return PathParser(path).parse(); }

}  // namespace membrane::host
