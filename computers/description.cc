#include "computers/description.h"

#include <sys/stat.h>

#include <map>
#include <mutex>

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "sandbox/receipt_content.h"

namespace membrane::computers {

std::string mark_of(const linux::StoredImage& image) {
  struct stat facts = {};
  if (stat(image.path.c_str(), &facts) != 0) return "";
  std::string mark;
  for (const auto part : {static_cast<uint64_t>(facts.st_dev), static_cast<uint64_t>(facts.st_ino),
                          static_cast<uint64_t>(facts.st_size), static_cast<uint64_t>(facts.st_mtim.tv_sec),
                          static_cast<uint64_t>(facts.st_mtim.tv_nsec)})
    mark += std::to_string(part) + ":";
  return mark;
}

Result<std::string> sha256_of(const linux::StoredImage& image, const std::string& mark) {
  constexpr size_t kMostKnown = 64;
  static std::mutex mutex;  // guards what follows
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(mark); found != known.end()) return found->second;
  const OpenedFile opened(image.path);
  if (!opened.usable()) return fail(ErrorCode::kUnavailable, "the image " + image.path + " cannot be read");
  const FileMapping mapping(opened.number(), 0, opened.bytes());
  MEMBRANE_ASSIGN(const std::string sha256,
                  sha256_hex(std::string_view(reinterpret_cast<const char*>(mapping.bytes().data()),
                                              mapping.bytes().size())));
  if (mark.empty() || mark_of(image) != mark)
    return fail(ErrorCode::kNotFound, "the image " + image.name + " is another one by now",
                "Make another sandbox.");
  if (known.size() >= kMostKnown) known.clear();
  return known[mark] = sha256;
}

Result<std::string> description_of(const linux::StoredImage& image, const std::string& mark,
                                   const std::string& platform, const std::string& directory,
                                   const std::optional<linux::Determinism>& deterministic) {
  sandbox::ComputerDescription computer;
  MEMBRANE_ASSIGN(computer.image_sha256, sha256_of(image, mark));
  computer.image_bytes = image.size_bytes;
  computer.platform = platform;
  computer.directory = directory;
  if (deterministic) computer.deterministic = {deterministic->start_ms, deterministic->seed};
  return sandbox::describe_computer(computer);
}

}  // namespace membrane::computers
