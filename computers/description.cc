#include "computers/description.h"

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "sandbox/receipt_content.h"

namespace membrane::computers {

Result<std::string> sha256_of(const linux::StoredImage& image) {
  const OpenedFile opened(image.path);
  if (!opened.usable()) return fail(ErrorCode::kUnavailable, "the image " + image.path + " cannot be read");
  const FileMapping mapping(opened.number(), 0, opened.bytes());
  return sha256_hex(
      std::string_view(reinterpret_cast<const char*>(mapping.bytes().data()), mapping.bytes().size()));
}

Result<std::string> description_of(const linux::StoredImage& image, const std::string& platform,
                                   const std::string& directory,
                                   const std::optional<linux::Determinism>& deterministic) {
  sandbox::ComputerDescription computer;
  MEMBRANE_ASSIGN(computer.image_sha256, sha256_of(image));
  computer.platform = platform;
  computer.directory = directory;
  if (deterministic) computer.deterministic = {deterministic->start_ms, deterministic->seed};
  return sandbox::describe_computer(computer);
}

}  // namespace membrane::computers
