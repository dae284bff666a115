#include "computers/description.h"

#include <sys/stat.h>

#include <ctime>
#include <map>
#include <mutex>

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "computers/image_digests.h"
#include "sandbox/receipt_content.h"

namespace membrane::computers {

std::string mark_of(const linux::StoredImage& image) {
  struct stat facts = {};
  return stat(image.path.c_str(), &facts) == 0 ? ImageDigests::mark_of(facts) : "";
}

Result<std::string> sha256_of(const linux::StoredImage& image, const std::string& mark) {
  constexpr size_t kMostKnown = 64;
  static std::mutex mutex;  // guards what follows
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(mark); found != known.end()) return found->second;
  if (known.size() >= kMostKnown) known.clear();
  const ImageDigests digests(ImageDigests::default_directory());
  if (const auto found = digests.find(mark)) return known[mark] = *found;
  const OpenedFile opened(image.path);
  struct stat facts = {};
  if (!opened.usable() || fstat(opened.number(), &facts) != 0)
    return fail(ErrorCode::kUnavailable, "the image " + image.path + " cannot be read");
  const bool is_settled = ImageDigests::is_settled(facts, std::time(nullptr));
  const FileMapping mapping(opened.number(), 0, opened.bytes());
  MEMBRANE_ASSIGN(const std::string sha256,
                  sha256_hex(std::string_view(reinterpret_cast<const char*>(mapping.bytes().data()),
                                              mapping.bytes().size())));
  if (mark.empty() || ImageDigests::mark_of(facts) != mark || mark_of(image) != mark)
    return fail(ErrorCode::kNotFound, "the image " + image.name + " has been replaced",
                "Create a new sandbox.");
  if (is_settled) digests.keep(mark, sha256);
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
