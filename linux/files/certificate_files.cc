#include "linux/files/certificate_files.h"

#include <algorithm>
#include <span>

namespace membrane::linux {
namespace {

constexpr size_t kMostFileBytes = 4u << 20;
constexpr size_t kMostNames = 6;  // in the paths to match

// The directories above the file are those of the package.
constexpr std::array<std::string_view, 4> kOfPackages = {"/certifi/cacert.pem", "/botocore/cacert.pem",
                                                         "/Mozilla/CA/cacert.pem", "/ssl/cacert.pem"};

std::string end_of_path(const Location& location) {
  std::string path;
  const Location* at = &location;
  for (size_t names = 0; names < kMostNames && at != nullptr && at->parent != nullptr; ++names) {
    path.insert(0, "/" + at->name);
    at = at->parent.get();
  }
  return path;
}

}  // namespace

bool is_certificate_file(const Location& location) {
  const std::string_view name = location.name;
  if (!name.ends_with(".crt") && !name.ends_with(".pem")) return false;
  const std::string path = end_of_path(location);
  const auto ends = [&](std::string_view each) { return path.ends_with(each); };
  return std::ranges::any_of(kCertificateFiles, ends) || std::ranges::any_of(kOfPackages, ends);
}

Try<std::string> text_with_certificate(Node& file, std::string_view certificate) {
  const uint64_t size = file.attributes().size;
  if (size > kMostFileBytes) return err(EFBIG);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    MEMBRANE_ASSIGN(const size_t got, file.read(done, std::as_writable_bytes(std::span(text)).subspan(done)));
    if (got == 0) break;
    done += got;
  }
  text.resize(done);
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  return text.append(certificate);
}

Try<NodeRef> with_certificate(const NodeRef& file, Node& directory, std::string_view certificate) {
  MEMBRANE_ASSIGN(const std::string text, text_with_certificate(*file, certificate));
  const Attributes facts = file->attributes();
  MEMBRANE_ASSIGN(
      NodeRef made,
      directory.create_nameless({.mode = facts.mode, .uid = facts.uid, .gid = facts.gid, .copy_of = file}));
  size_t done = 0;
  while (done < text.size()) {
    MEMBRANE_ASSIGN(const size_t written, made->write(done, std::as_bytes(std::span(text)).subspan(done)));
    if (written == 0) return err(ENOSPC);
    done += written;
  }
  return made;
}

}  // namespace membrane::linux
