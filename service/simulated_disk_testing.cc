#include "service/simulated_disk_testing.h"

#include <algorithm>
#include <utility>

namespace membrane::service {
namespace {

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

bool SimulatedDisk::begin(bool* partly) {
  const uint64_t call = calls_++;
  if (call >= power_until_) return false;
  if (call != fail_at_) return true;
  if (partly != nullptr) *partly = coin();
  return false;
}

std::string SimulatedDisk::survived(const File& file) {
  // Synced data that was not written again stays; after it comes a part of what was written, or zeros: the
  // length was written, and the blocks were not.
  const std::string kept = file.bytes.starts_with(file.synced) ? file.synced : std::string();
  const std::string rest = file.bytes.substr(kept.size());
  switch (random_() % 4) {
    case 0: return file.synced;
    case 1: return file.bytes;
    case 2: return kept + rest.substr(0, random_() % (rest.size() + 1));
    default: return kept + std::string(rest.size(), '\0');
  }
}

// Each directory's names are those of the last sync, or of a later moment: file systems keep the order of
// changes of names, but need not have written all of them.
void SimulatedDisk::restart() {
  power_until_ = fail_at_ = ~uint64_t{0};
  std::set<std::string> all = directories_;
  directories_ = synced_directories_;
  for (const std::string& each : all)
    if (coin()) directories_.insert(each);
  Names kept;
  for (const std::string& directory : directories_) {
    const Names& from = coin() ? names_ : synced_names_;
    for (const auto& [path, file] : from)
      if (directory_of(path) == directory) kept.emplace(path, file);
  }
  std::map<File*, std::string> bytes;
  for (const auto& [path, file] : kept) bytes.try_emplace(file.get(), survived(*file));
  for (const auto& [file, text] : bytes) file->bytes = file->synced = text;
  names_ = synced_names_ = kept;
  synced_directories_ = directories_;
}

void SimulatedDisk::damage(const std::string& path) {
  File& file = *names_.at(path);
  if (file.bytes.empty()) return;
  char& byte = file.bytes[random_() % file.bytes.size()];
  byte = static_cast<char>(byte ^ (1 << random_() % 8));
  file.synced = file.bytes;
}

Status SimulatedDisk::write(const std::string& path, std::string_view bytes) {
  bool partly = false;
  const bool works = begin(&partly);
  if (!works && !partly) return failed();
  if (!directories_.contains(directory_of(path))) return missing(path);
  auto& file = names_[path];
  if (!file) file = std::make_shared<File>();
  file->bytes = works ? bytes : bytes.substr(0, bytes.size() / 2);
  return works ? Status() : Status(failed());
}

Status SimulatedDisk::append(const std::string& path, std::string_view bytes) {
  bool partly = false;
  const bool works = begin(&partly);
  if (!works && !partly) return failed();
  if (!directories_.contains(directory_of(path))) return missing(path);
  auto& file = names_[path];
  if (!file) file = std::make_shared<File>();
  file->bytes += works ? bytes : bytes.substr(0, bytes.size() / 2);
  return works ? Status() : Status(failed());
}

Status SimulatedDisk::truncate(const std::string& path, uint64_t size_bytes) {
  if (!begin()) return failed();
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  found->second->bytes.resize(size_bytes);
  return {};
}

Result<std::string> SimulatedDisk::read(const std::string& path, uint64_t most_bytes) {
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  if (found->second->bytes.size() > most_bytes) return fail(ErrorCode::kTooLong, path + " is too large");
  return found->second->bytes;
}

Result<uint64_t> SimulatedDisk::size(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  return found->second->bytes.size();
}

Result<std::string> SimulatedDisk::read_end(const std::string& path, uint64_t most_bytes) {
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  const std::string& bytes = found->second->bytes;
  return bytes.substr(bytes.size() - std::min<uint64_t>(bytes.size(), most_bytes));
}

Status SimulatedDisk::rename(const std::string& from, const std::string& to) {
  if (!begin()) return failed();
  const auto found = names_.find(from);
  if (found == names_.end()) return missing(from);
  names_[to] = found->second;
  names_.erase(from);
  return {};
}

Status SimulatedDisk::remove(const std::string& path) {
  if (!begin()) return failed();
  return names_.erase(path) > 0 ? Status() : Status(missing(path));
}

Status SimulatedDisk::make_directory(const std::string& path) {
  if (!begin()) return failed();
  directories_.insert(path);
  return {};
}

Result<std::vector<std::string>> SimulatedDisk::list(const std::string& directory) {
  if (!directories_.contains(directory)) return missing(directory);
  std::vector<std::string> names;
  for (const auto& [path, file] : names_)
    if (directory_of(path) == directory)
      names.push_back(path.substr(directory.empty() ? 0 : directory.size() + 1));
  return names;
}

Status SimulatedDisk::sync_file(const std::string& path) {
  bool partly = false;
  const bool works = begin(&partly);
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  if (!works && partly)
    found->second->bytes = found->second->synced;  // like kernels, drops data whose sync failed
  if (!works) return failed();
  found->second->synced = found->second->bytes;
  return {};
}

Status SimulatedDisk::sync_directory(const std::string& directory) {
  if (!begin()) return failed();
  std::erase_if(synced_names_, [&](const auto& each) { return directory_of(each.first) == directory; });
  for (const auto& [path, file] : names_)
    if (directory_of(path) == directory) synced_names_.emplace(path, file);
  for (const std::string& each : directories_)
    if (!each.empty() && directory_of(each) == directory) synced_directories_.insert(each);
  return {};
}

}  // namespace membrane::service
