#include "packages/work_directory.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/private_file.h"

namespace membrane::packages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeginning = "work-";

void remove_what_is_left(const std::string& cache_directory) {
  std::error_code error;
  const auto limit = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_directory, error)) {
    std::error_code none;
    if (entry.path().filename().string().starts_with(kBeginning) && entry.last_write_time(none) < limit &&
        !none)
      fs::remove_all(entry.path(), none);
  }
}

}  // namespace

WorkDirectory::WorkDirectory(std::string path) : path_(std::move(path)) {}
WorkDirectory::WorkDirectory(WorkDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
WorkDirectory::~WorkDirectory() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

Result<WorkDirectory> WorkDirectory::make(const std::string& cache_directory) {
  remove_what_is_left(cache_directory);
  std::string path = cache_directory + "/" + std::string(kBeginning) + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return refused_by_system("make a directory in", cache_directory);
  return WorkDirectory(std::move(path));
}

Status WorkDirectory::write(std::string_view name, std::string_view text) const {
  const std::string path = path_ + "/" + std::string(name);
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) return refused_by_system("write", path);
  return {};
}

Result<std::string> WorkDirectory::read(std::string_view name, size_t most_bytes) const {
  const std::string path = path_ + "/" + std::string(name);
  std::ifstream file(path, std::ios::binary);
  if (!file) return refused_by_system("read", path);
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > most_bytes) return fail(ErrorCode::kExhausted, path + " is too large", "");
  return text;
}

Status WorkDirectory::check_size(uint64_t most_bytes) const {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // files are created and removed concurrently
    if (!at->is_symlink(gone) && at->is_regular_file(gone))
      if (const uint64_t size = at->file_size(gone); !gone) bytes += size;
    if (bytes > most_bytes)
      return fail(ErrorCode::kExhausted,
                  "the packages have more than " + std::to_string(most_bytes >> 20) + " MiB",
                  "Request fewer packages.");
  }
  return {};
}

}  // namespace membrane::packages
