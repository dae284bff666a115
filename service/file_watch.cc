#include "service/file_watch.h"

#include <utility>

#include "base/json.h"

namespace membrane::service {

std::string_view name_of_type(wasi::FileType type) {
  switch (type) {
    case wasi::FileType::kRegularFile: return "file";
    case wasi::FileType::kDirectory: return "directory";
    case wasi::FileType::kSymbolicLink: return "link";
    default: return "other";
  }
}

void FileWatch::tell(std::string_view event, const std::string& of, const Known& known) {
  const nlohmann::ordered_json json = {
      {"path", of}, {"type", name_of_type(known.type)}, {"size_bytes", known.size_bytes}};
  waiting_ += "id: " + std::to_string(number_++) + "\nevent: " + std::string(event) +
              "\ndata: " + json_text(json) + "\n\n";
}

void FileWatch::look(const std::vector<wasi::FileFact>& facts) {
  std::map<std::string, Known, std::less<>> now;
  for (const wasi::FileFact& fact : facts)
    now.emplace(fact.path, Known{fact.type, fact.size_bytes, fact.modified_ns});
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (has_looked_) {
      for (const auto& [of, known] : known_)
        if (!now.contains(of)) tell("removed", of, known);
      for (const auto& [of, known] : now)
        if (const auto before = known_.find(of); before == known_.end()) tell("created", of, known);
        else if (before->second != known && known.type != wasi::FileType::kDirectory)
          tell("changed", of, known);
    } else {
      waiting_ += ": watching\n\n";
    }
    has_looked_ = true;
    known_ = std::move(now);
    if (waiting_.size() > kMostWaitingBytes || !count()) is_over_ = true;  // the reader does not read
    if (!waiting_.empty()) wake = std::exchange(wake_, nullptr);
  }
  if (wake) wake();
}

bool FileWatch::count() {
  constexpr uint64_t kBytesOfEach = 96;  // besides the path
  uint64_t bytes = waiting_.size();
  for (const auto& [of, known] : known_) bytes += of.size() + kBytesOfEach;
  held_.shrink_to(bytes);
  return held_.try_reach(bytes).has_value();
}

void FileWatch::end() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    known_.clear();
    wake = std::exchange(wake_, nullptr);
  }
  if (wake) wake();
}

bool FileWatch::is_over() const {
  const std::lock_guard lock(mutex_);
  return is_over_;
}

BodySource::Piece FileWatch::next(size_t most_bytes, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  Piece piece;
  piece.bytes = waiting_.substr(0, most_bytes);
  waiting_.erase(0, most_bytes);
  piece.is_end = is_over_ && waiting_.empty();
  if (piece.bytes.empty() && !piece.is_end) wake_ = std::move(wake);
  return piece;
}

}  // namespace membrane::service
