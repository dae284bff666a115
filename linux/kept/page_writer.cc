#include "linux/kept/page_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/private_file.h"
#include "linux/image/layer.h"

namespace membrane::linux {

int write_at(int file, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
    offset += static_cast<uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return 0;
}

std::span<std::byte> PageWriter::room(size_t pages) {
  const size_t bytes = std::min(pages, kMostPages) * kPageBytes;
  if (waiting_.size() + bytes > kMostPages * kPageBytes) flush();
  const size_t at = waiting_.size();
  waiting_.resize(at + bytes);
  end_ += bytes;
  return std::span(waiting_).subspan(at);
}

void PageWriter::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t pages = std::min((bytes.size() + kPageBytes - 1) / kPageBytes, kMostPages);
    const auto to = room(pages);
    const size_t piece = std::min(bytes.size(), to.size());
    std::ranges::copy(bytes.first(piece), to.begin());
    std::ranges::fill(to.subspan(piece), std::byte{});
    bytes = bytes.subspan(piece);
  }
}

void PageWriter::flush() {
  if (goes_on()) error_ = write_at(file_, written_, waiting_);
  written_ += waiting_.size();
  waiting_.clear();
}

bool PageWriter::goes_on() {
  if (error_ == 0 && std::chrono::steady_clock::now() > until_) error_ = ETIME;
  return error_ == 0;
}

Status PageWriter::finish() {
  flush();
  if (error_ == 0) return {};
  if (error_ == ETIME)
    return fail(ErrorCode::kExhausted,
                "the sandbox could not be saved within " + std::to_string(kMostTime.count()) +
                    " s: its memory is too scattered",
                "End processes that reserve a lot of memory.");
  errno = error_;
  return refused_by_system("write", "the file that the sandbox is saved to");
}

}  // namespace membrane::linux
