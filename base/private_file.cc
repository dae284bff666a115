#include "base/private_file.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/write_at.h"

namespace membrane {

// What the linker wrote into the program that this code is part of: another build has another one. "" without.
std::string build_id() {
  struct Search {
    uintptr_t address = reinterpret_cast<uintptr_t>(&build_id);
    std::string id;
  } search;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const std::span<const ElfW(Phdr)> parts(object->dlpi_phdr, object->dlpi_phnum);
        const bool is_it = std::ranges::any_of(parts, [&](const ElfW(Phdr) & part) {
          return part.p_type == PT_LOAD && wanted.address - object->dlpi_addr - part.p_vaddr < part.p_memsz;
        });
        if (!is_it) return 0;
        for (const ElfW(Phdr) & part : parts) {
          if (part.p_type != PT_NOTE) continue;
          const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
          for (const char* const end = at + part.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const auto padded = [](uint32_t size) { return (size + 3) & ~3u; };
            const char* const name = at + sizeof note;
            const char* const content = name + padded(note.n_namesz);
            if (note.n_type == NT_GNU_BUILD_ID &&
                std::string_view(name, note.n_namesz) == std::string_view("GNU", 4))
              wanted.id.assign(content, note.n_descsz);
            at = content + padded(note.n_descsz);
          }
        }
        return 1;
      },
      &search);
  return search.id;
}

bool is_private(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

PrivateFile::PrivateFile(const std::string& path)
    : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
  struct stat status{};
  usable_ = number_ >= 0 && fstat(number_, &status) == 0 && S_ISREG(status.st_mode) && is_private(status);
  bytes_ = usable_ ? static_cast<size_t>(status.st_size) : 0;
}

PrivateFile::~PrivateFile() {
  if (number_ >= 0) close(number_);
}

OpenedFile::OpenedFile(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status{};
  usable_ = number_ >= 0 && fstat(number_, &status) == 0 && S_ISREG(status.st_mode);
  bytes_ = usable_ ? static_cast<size_t>(status.st_size) : 0;
}

OpenedFile::~OpenedFile() {
  if (number_ >= 0) close(number_);
}

namespace {

std::unexpected<Error> cannot(const char* what, const std::string& path) {
  return fail(ErrorCode::kUnavailable,
              std::string("cannot ") + what + " " + path + ": " + std::strerror(errno),
              "Give a directory of your own, on a disk with room.");
}

}  // namespace

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file;
  file.path_ = path;
  file.beside_ = path + ".XXXXXX";
  file.number_ = mkostemp(file.beside_.data(), O_CLOEXEC);
  if (file.number_ < 0) return cannot("make", file.beside_);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      beside_(std::move(other.beside_)),
      number_(std::exchange(other.number_, -1)) {}

NewFile::~NewFile() {
  if (number_ < 0) return;
  close(number_);
  if (!published_) unlink(beside_.c_str());
}

Status NewFile::write(uint64_t offset, std::span<const uint8_t> bytes) {
  if (!write_at(number_, offset, bytes)) return cannot("write", beside_);
  return {};
}

Status NewFile::resize(uint64_t bytes) {
  if (ftruncate(number_, static_cast<off_t>(bytes)) != 0) return cannot("write", beside_);
  return {};
}

Status NewFile::publish() {
  if (rename(beside_.c_str(), path_.c_str()) != 0) return cannot("rename", beside_);
  published_ = true;
  return {};
}

}  // namespace membrane
