#include "service/linux_files.h"

#include <sys/stat.h>

#include <algorithm>

namespace membrane::service {
namespace {

constexpr uint64_t kReadAtOnce = 4u << 20;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostListedFiles = 1'000;  // of the files that it has created
constexpr uint32_t kModeBits = 07777;

// Nothing of it can be recovered: a later attempt would fail the same way.
ApiError lost(const std::string& why) {
  return {ApiCode::kConflict, "the sandbox is lost: " + why, "End it, and create another."};
}

wasi::FileFact fact_of(const linux::FileFacts& facts, const std::string& path) {
  const auto type_of = [](uint32_t mode) {
    switch (mode & S_IFMT) {
      case S_IFDIR: return wasi::FileType::kDirectory;
      case S_IFREG: return wasi::FileType::kRegularFile;
      case S_IFLNK: return wasi::FileType::kSymbolicLink;
      default: return wasi::FileType::kUnknown;
    }
  };
  return {path, type_of(facts.mode), facts.size,
          static_cast<uint64_t>(std::max<int64_t>(facts.modified_ns, 0))};
}

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Answer<void> file_answer(const Status& done) {
  if (!done) return std::unexpected(file_error(done.error()));
  return {};
}

}  // namespace

ApiError computer_error(const Error& error) {
  if (error.code == ErrorCode::kUnavailable) return lost(error.message);
  return api_error(error);
}

ApiError file_error(const Error& error) {
  ApiError shown = computer_error(error);
  if (shown.code == ApiCode::kNotFound && shown.hint.empty())
    shown.hint = "The list of files says what there is: files.list() of the clients, GET …/files/list.";
  return shown;
}

Answer<void> LinuxFiles::check_path(const std::string& path) {
  if (path.starts_with('/') && path.size() <= kMostPathBytes && !path.contains('\0')) return {};
  return refuse(ApiCode::kInvalidValue, "the path is not absolute, or has a NUL, or more than 4096 bytes",
                "Paths in a sandbox are absolute, as /tmp/data.csv.");
}

Answer<std::string> LinuxFiles::read(const std::string& path) {
  if (const auto checked = check_path(path); !checked) return std::unexpected(checked.error());
  std::string bytes;
  for (;;) {
    const auto piece = computer_->read_file(path, bytes.size(), kReadAtOnce);
    if (!piece) return std::unexpected(file_error(piece.error()));
    bytes += *piece;
    if (piece->size() < kReadAtOnce) return bytes;
    if (bytes.size() > kMostBytes)
      return refuse(ApiCode::kTooLarge, path + " has more than " + std::to_string(kMostBytes) + " bytes",
                    "Read it in parts: head -c and tail -c in the sandbox.");
  }
}

Answer<void> LinuxFiles::write(const std::string& path, std::string_view bytes) {
  constexpr uint32_t kMode = 0644;
  if (const auto checked = check_path(path); !checked) return checked;
  const auto there = computer_->stat(path, true);
  const uint32_t mode = there && S_ISREG(there->mode) ? there->mode & kModeBits : kMode;
  if (const Status written = computer_->write_file(path, bytes, mode); !written)
    return std::unexpected(file_error(written.error()));
  return {};
}

Answer<linux::FileFacts> LinuxFiles::stat(const std::string& path, bool follows_links) {
  if (const auto checked = check_path(path); !checked) return std::unexpected(checked.error());
  auto facts = computer_->stat(path, follows_links);
  if (!facts) return std::unexpected(file_error(facts.error()));
  return *std::move(facts);
}

Answer<void> LinuxFiles::set_mode(const std::string& path, uint32_t mode) {
  if (const auto checked = check_path(path); !checked) return checked;
  return file_answer(computer_->set_mode(path, mode & kModeBits));
}

Answer<void> LinuxFiles::make_link(const std::string& path, const std::string& target) {
  if (const auto checked = check_path(path); !checked) return checked;
  if (const auto there = computer_->stat(path, false); there && !S_ISDIR(there->mode))
    if (auto removed = file_answer(computer_->remove(path, false)); !removed) return removed;
  const size_t above = path.rfind('/');
  if (above > 0)
    if (const auto made = make_directories(path.substr(0, above)); !made)
      return std::unexpected(made.error());
  return file_answer(computer_->make_link(path, target));
}

Answer<std::vector<wasi::FileFact>> LinuxFiles::list(const std::string& path, bool is_deep) {
  std::vector<wasi::FileFact> all;
  std::vector<std::string> waiting = {path};  // pending directories, the next one last
  uint64_t path_bytes = 0;
  while (!waiting.empty()) {
    const std::string directory = std::exchange(waiting.back(), {});
    waiting.pop_back();
    auto listed = computer_->list(directory);
    if (!listed && directory != path && listed.error().code == ErrorCode::kNotFound) continue;  // gone by now
    if (!listed) return std::unexpected(file_error(listed.error()));
    std::ranges::sort(*listed, {}, &linux::FileFacts::path);
    std::vector<std::string> below;
    for (const linux::FileFacts& facts : *listed) {
      const std::string found =
          (directory.ends_with('/') ? directory : directory + "/") + name_in(facts.path);
      path_bytes += found.size();
      if (path_bytes > wasi::System::kMaxListedPathBytes)
        return refuse(ApiCode::kTooLarge, path + " has too many entries to list at once",
                      "List directories below it, or run find in the sandbox.");
      all.push_back(fact_of(facts, found));
      if (is_deep && S_ISDIR(facts.mode)) below.push_back(found);
    }
    waiting.insert(waiting.end(), below.rbegin(), below.rend());
  }
  if (is_deep) std::ranges::sort(all, {}, &wasi::FileFact::path);
  return all;
}

Answer<wasi::FileFact> LinuxFiles::fact_at(const std::string& path) {
  const auto facts = computer_->stat(path, true);
  if (!facts) return std::unexpected(file_error(facts.error()));
  return fact_of(*facts, path);
}

Answer<wasi::FileFact> LinuxFiles::make_directories(const std::string& path) {
  constexpr uint32_t kMode = 0755;
  if (const auto checked = check_path(path); !checked) return std::unexpected(checked.error());
  for (size_t end = 0; end != path.npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (part.ends_with('/')) continue;
    if (const auto there = computer_->stat(part, true)) {
      if (S_ISDIR(there->mode)) continue;
      return refuse(ApiCode::kInvalidValue, part + " is not a directory");
    }
    if (const Status made = computer_->make_directory(part, kMode); !made)
      return std::unexpected(file_error(made.error()));
  }
  return fact_at(path);
}

Answer<std::vector<wasi::FileFact>> LinuxFiles::act(const wasi::FileRequest& request) {
  if (const auto checked = check_path(request.path); !checked) return std::unexpected(checked.error());
  if (request.act == wasi::FileAct::kMove)
    if (const auto checked = check_path(request.to); !checked) return std::unexpected(checked.error());
  const auto one = [](Answer<wasi::FileFact> fact) -> Answer<std::vector<wasi::FileFact>> {
    if (!fact) return std::unexpected(fact.error());
    return std::vector<wasi::FileFact>{*std::move(fact)};
  };
  switch (request.act) {
    case wasi::FileAct::kTellTime: return std::vector<wasi::FileFact>();
    case wasi::FileAct::kStat: return one(fact_at(request.path));
    case wasi::FileAct::kList: return list(request.path, request.is_deep);
    case wasi::FileAct::kMakeDirectory: return one(make_directories(request.path));
    case wasi::FileAct::kMove: {
      if (const Status moved = computer_->move(request.path, request.to); !moved)
        return std::unexpected(file_error(moved.error()));
      return one(fact_at(request.to));
    }
    case wasi::FileAct::kRemove: break;
  }
  const Status removed = computer_->remove(request.path, request.is_deep);
  if (removed) return std::vector<wasi::FileFact>();
  ApiError error = file_error(removed.error());
  if (error.code == ApiCode::kInvalidValue && !request.is_deep) {
    error.code = ApiCode::kConflict;
    error.hint = "Remove a directory that is not empty with recursive=true.";
  }
  return std::unexpected(std::move(error));
}

Answer<std::vector<sandbox::ReportFile>> LinuxFiles::created() {
  const auto changes = computer_->changes();
  if (!changes) return std::unexpected(computer_error(changes.error()));
  std::vector<sandbox::ReportFile> all;
  for (const linux::ChangedPath& each : *changes) {
    if (each.change == linux::Change::kRemoved || !S_ISREG(each.mode)) continue;
    if (all.size() == kMostListedFiles) break;
    const auto facts = computer_->stat(each.path, false);
    if (facts) all.push_back({each.path, facts->size});
  }
  return all;
}

}  // namespace membrane::service
