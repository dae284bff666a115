#include "host/broker/broker.h"

#include <algorithm>

namespace membrane::host {
namespace {

std::unexpected<HostError> no_files() { return refuse(Errno::kUnsupported, "No files can be opened here."); }

}  // namespace

std::vector<HostResult<HttpResponse>> Broker::http_many(std::span<const HttpRequest> requests) {
  std::vector<HostResult<HttpResponse>> answers;
  for (const HttpRequest& request : requests) answers.push_back(http(request));
  return answers;
}

HostResult<OpenedFile> Broker::file_open(std::string_view, const FileOpening&) { return no_files(); }
HostResult<std::string> Broker::file_read_at(FileHandle, uint64_t, uint32_t) { return no_files(); }
HostResult<void> Broker::file_write_at(FileHandle, uint64_t, std::string_view) { return no_files(); }
HostResult<void> Broker::file_resize(FileHandle, uint64_t) { return no_files(); }
HostResult<FileStatus> Broker::file_status(FileHandle) { return no_files(); }
HostResult<void> Broker::file_sync(FileHandle) { return no_files(); }
HostResult<void> Broker::file_close(FileHandle) { return no_files(); }
HostResult<FileStatus> Broker::path_status(std::string_view) { return no_files(); }
HostResult<LinkOnPath> Broker::path_find_link(std::string_view) { return no_files(); }
HostResult<void> Broker::link_make_symbolic(std::string_view, std::string_view) { return no_files(); }
HostResult<void> Broker::link_make_hard(std::string_view, std::string_view) { return no_files(); }
HostResult<void> Broker::path_set_times(std::string_view, const FileTimes&) { return no_files(); }
HostResult<void> Broker::path_unlink(std::string_view) { return no_files(); }
HostResult<void> Broker::path_rename(std::string_view, std::string_view) { return no_files(); }
HostResult<void> Broker::directory_make(std::string_view) { return no_files(); }
HostResult<void> Broker::directory_remove(std::string_view) { return no_files(); }

HostResult<int64_t> Broker::clock_ns() {
  const auto now_ms = clock_ms();
  if (!now_ms) return now_ms;
  constexpr int64_t kNsPerMs = 1'000'000, kMost = INT64_MAX / kNsPerMs;
  return std::clamp(*now_ms, -kMost, kMost) * kNsPerMs;
}

}  // namespace membrane::host
