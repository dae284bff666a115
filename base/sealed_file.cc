#include "base/sealed_file.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <ctime>
#include <optional>
#include <span>

#include "base/private_file.h"

namespace membrane {
namespace {

constexpr char kMagic[8] = {'m', 'b', 'r', 'n', 's', 'e', 'a', 'l'};
constexpr size_t kBootIdBytes = 36;

struct Record {
  char magic[8];
  uint64_t checksum;  // XXH3 of the fields below
  char boot_id[40];
  uint64_t device, inode, size;
  int64_t modified_ns, changed_ns;
};
constexpr size_t kCheckedFrom = offsetof(Record, boot_id);
static_assert(sizeof(Record) == 96, "no padding, which would have no value");

int64_t ns_of(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Identifies this boot of the system; false where the kernel does not say.
bool read_boot_id(char* to) {
  const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = ::read(file, to, kBootIdBytes);
  close(file);
  return got == static_cast<ssize_t>(kBootIdBytes);
}

std::optional<Record> record_of(const struct stat& status) {
  Record record{};
  std::memcpy(record.magic, kMagic, sizeof kMagic);
  if (!read_boot_id(record.boot_id)) return std::nullopt;
  record.device = status.st_dev;
  record.inode = status.st_ino;
  record.size = static_cast<uint64_t>(status.st_size);
  record.modified_ns = ns_of(status.st_mtim);
  record.changed_ns = ns_of(status.st_ctim);
  record.checksum =
      XXH3_64bits(reinterpret_cast<const char*>(&record) + kCheckedFrom, sizeof record - kCheckedFrom);
  return record;
}

}  // namespace

std::string seal_path_of(const std::string& path) { return path + ".seal"; }

int64_t real_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return ns_of(now);
}

bool is_sealed(const std::string& path, int file) {
  const PrivateFile seal(seal_path_of(path));
  Record found{};
  struct stat status{};
  if (seal.bytes() != sizeof found || pread(seal.number(), &found, sizeof found, 0) != sizeof found ||
      fstat(file, &status) != 0)
    return false;
  const auto expected = record_of(status);
  return expected && std::memcmp(&*expected, &found, sizeof found) == 0;
}

Status seal(const std::string& path, int file, const struct stat& before, int64_t now_ns) {
  struct stat after{};
  if (fstat(file, &after) != 0) return refused_by_system("look at", path);
  const auto record = record_of(before), still = record_of(after);
  if (!record || !still || std::memcmp(&*record, &*still, sizeof *record) != 0) return {};
  if (now_ns - record->changed_ns < kSealAfterNs) return {};
  MEMBRANE_ASSIGN(NewFile made, NewFile::create(seal_path_of(path)));
  MEMBRANE_TRY(made.write(0, {reinterpret_cast<const uint8_t*>(&*record), sizeof *record}));
  return made.publish();
}

void touch_seal(const std::string& path) { utimensat(AT_FDCWD, seal_path_of(path).c_str(), nullptr, 0); }

}  // namespace membrane
