#include "linux/kept/kept_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/private_file.h"
#include "linux/kept/page_writer.h"

namespace membrane::linux {
namespace {

static_assert(sizeof(KeptHeader) <= kPageBytes);

// Detects accidental changes; eight bytes at a time, since the whole state is read before a sandbox resumes.
uint64_t check_of(std::span<const std::byte> bytes) {
  uint64_t check = 0x9e3779b97f4a7c15 ^ bytes.size();
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), count);
    check = (check ^ word) * 0xff51afd7ed558ccd;
    check ^= check >> 32;
    bytes = bytes.subspan(count);
  }
  return check;
}

uint64_t check_of(const KeptHeader& header) {
  return check_of(std::as_bytes(std::span(&header, 1)).first(offsetof(KeptHeader, check)));
}

}  // namespace

std::unexpected<Error> damaged_kept_file(std::string_view what) {
  return fail(ErrorCode::kInvalidInput,
              "the file is not a saved sandbox of this version: " + std::string(what),
              "Save the sandbox again with this build of Membrane.");
}

void name_image(KeptHeader& header, const Layer* image, const std::string& image_name) {
  if (image != nullptr) std::ranges::copy(image->digest(), header.image_digest);
  if (image_name.size() < sizeof header.image_name) std::ranges::copy(image_name, header.image_name);
}

Status write_state(int file, uint64_t state_at, std::span<const std::byte> state, KeptHeader header) {
  header.state_at = state_at;
  header.state_bytes = state.size();
  header.file_bytes = state_at + state.size();
  header.state_check = check_of(state);
  header.check = check_of(header);
  int error = write_at(file, state_at, state);
  if (error == 0) error = write_at(file, 0, std::as_bytes(std::span(&header, 1)));
  if (error == 0 && ftruncate(file, static_cast<off_t>(header.file_bytes)) != 0) error = errno;
  if (error == 0) return {};
  errno = error;
  return refused_by_system("write", "the file that the sandbox is saved to");
}

namespace {

Status check_header(const KeptHeader& header, uint64_t file_bytes) {
  const KeptHeader wanted;
  if (std::memcmp(header.magic, wanted.magic, sizeof wanted.magic) != 0)
    return damaged_kept_file("it does not begin with the right magic number");
  if (header.version != kKeptVersion) return damaged_kept_file("it has another version");
  if (header.check != check_of(header)) return damaged_kept_file("its header is damaged");
  if (header.file_bytes != file_bytes || header.state_at < kPageBytes || header.state_at % kPageBytes != 0 ||
      header.state_at > file_bytes || header.state_bytes != file_bytes - header.state_at)
    return damaged_kept_file("its length does not match");
  return {};
}

KeptFacts facts_of(const KeptHeader& header) {
  KeptFacts facts;
  facts.has_processes = (header.flags & KeptHeader::kHasProcesses) != 0;
  if ((header.flags & KeptHeader::kIsVirtual) != 0) facts.clock_start_ms = header.start_ms;
  if (header.image_digest[0] != 0) facts.image_digest.assign(header.image_digest, sizeof header.image_digest);
  facts.image_name.assign(header.image_name, strnlen(header.image_name, sizeof header.image_name));
  return facts;
}

}  // namespace

Result<KeptFacts> read_kept_facts(int file) {
  struct stat status = {};
  if (fstat(file, &status) != 0) return refused_by_system("read", "the file of the saved sandbox");
  if (!S_ISREG(status.st_mode)) return damaged_kept_file("it is not a regular file");
  KeptHeader header;
  const ssize_t count = pread(file, &header, sizeof header, 0);
  if (count < 0) return refused_by_system("read", "the file of the saved sandbox");
  if (count != ssize_t{sizeof header}) return damaged_kept_file("it is too short");
  MEMBRANE_TRY(check_header(header, static_cast<uint64_t>(status.st_size)));
  return facts_of(header);
}

Result<KeptFile> KeptFile::open(int file) {
  KeptFile kept;
  auto pages = PageFile::map(file);
  if (!pages && pages.error() == EINVAL) return damaged_kept_file("it is empty or not a regular file");
  if (!pages) {
    errno = pages.error();
    return refused_by_system("map", "the file of the saved sandbox");
  }
  kept.pages_ = std::move(*pages);
  const auto bytes = kept.pages_->bytes();
  if (bytes.size() < kPageBytes) return damaged_kept_file("it is too short");
  std::memcpy(&kept.header_, bytes.data(), sizeof kept.header_);
  MEMBRANE_TRY(check_header(kept.header_, bytes.size()));
  if (kept.header_.state_check != check_of(bytes.subspan(kept.header_.state_at)))
    return damaged_kept_file("its state is damaged");
  kept.facts_ = facts_of(kept.header_);
  return kept;
}

StateReader KeptFile::state() const { return StateReader(pages_->bytes().subspan(header_.state_at)); }

}  // namespace membrane::linux
