#include "linux/kernel/vdso.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "linux/kernel/memory.h"
#include "linux/kernel/vdso/layout.h"

namespace membrane::linux {

namespace {

constexpr uint64_t kBytes = VDSO_DATA_AT + kPage;
constexpr std::string_view kName = "[vdso]";

}  // namespace

Vdso::Vdso(uint64_t clock_gettime, std::chrono::nanoseconds ahead) {
  if (kVdsoImage.empty() || kVdsoImage.size() > VDSO_DATA_AT) return;
  HostFile file(memfd_create("membrane-vdso", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const VdsoData data = {.clock_gettime = clock_gettime, .ahead_ns = ahead.count()};
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (!file || ftruncate(file.number(), kBytes) != 0) return;
  if (pwrite(file.number(), kVdsoImage.data(), kVdsoImage.size(), 0) !=
          static_cast<ssize_t>(kVdsoImage.size()) ||
      pwrite(file.number(), &data, sizeof data, VDSO_DATA_AT) != sizeof data ||
      fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    return;
  file_ = std::move(file);
}

Try<uint64_t> Vdso::map(Memory& memory) const {
  if (!file_) return uint64_t{0};
  return memory.map({.length = kBytes,
                     .protection = PROT_READ | PROT_EXEC,
                     .file = nullptr,
                     .backing = {.fd = file_.number(), .may_write = false},
                     .name = kName});
}

Done Vdso::renew(Memory& memory) const {
  std::vector<uint64_t> places;
  for (const auto& [start, area] : memory.areas())
    if (area.name == kName && area.end - start == kBytes) places.push_back(start);
  if (!file_) return places.empty() ? Done{} : err(ENOMEM);
  for (const uint64_t place : places)
    MEMBRANE_TRY(memory.map({.address = place,
                             .length = kBytes,
                             .protection = PROT_READ | PROT_EXEC,
                             .is_fixed = true,
                             .file = nullptr,
                             .backing = {.fd = file_.number(), .may_write = false},
                             .name = kName}));
  return {};
}

}  // namespace membrane::linux
