#include "lang/package_install.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::lang {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileName = "language.json";
constexpr std::string_view kModuleName = "module.wasm";
constexpr std::string_view kFilesDirectory = "files";
constexpr size_t kMostNameBytes = 64;
// Names of languages that need no package.
constexpr std::string_view kTakenNames[] = {"wat", "wasm"};

Status check_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMostNameBytes && name.front() != '.' && name.front() != '-' &&
      std::ranges::all_of(name, fits) && std::ranges::find(kTakenNames, name) == std::end(kTakenNames))
    return {};
  return fail(ErrorCode::kInvalidArgument, "\"" + std::string(name) + "\" cannot be a language's name",
              "Use at most 64 of a-z, 0-9, \"-\", \"_\" and \".\", beginning with a letter or digit; wat and "
              "wasm are "
              "the engine's own.");
}

// Below files/, at the guest path; nothing for a path that would lead out of it.
std::optional<fs::path> place_of(const std::string& guest) {
  const fs::path path(guest);
  if (!path.is_absolute() || path.filename().empty() || std::ranges::find(path, "..") != path.end())
    return std::nullopt;
  return fs::path(kFilesDirectory) / path.lexically_normal().relative_path();
}

Status unavailable(const std::string& what, const std::string& path, int error) {
  return fail(ErrorCode::kUnavailable, "cannot " + what + " " + path + ": " + std::strerror(error),
              "Check the path, and that there is room.");
}

Result<std::string> write_file(const fs::path& to, std::span<const uint8_t> bytes) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  MEMBRANE_ASSIGN(NewFile file, NewFile::create(to.string()));
  MEMBRANE_TRY(file.write(0, bytes));
  MEMBRANE_TRY(file.publish());
  return sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// The bytes of a file of this machine, as long as this object lives.
struct Source {
  explicit Source(const std::string& path)
      : file(path), mapping(file.number(), 0, file.usable() ? file.bytes() : 0) {}
  OpenedFile file;
  FileMapping mapping;
};

Status copy_file(PackageFile& file, const fs::path& directory, const fs::path& place) {
  const Source source(file.path);
  if (!source.file.usable())
    return fail(ErrorCode::kNotFound, "cannot open " + file.path, "Check the path: it must be a file.");
  if (source.mapping.bytes().size() != source.file.bytes()) return unavailable("read", file.path, errno);
  MEMBRANE_ASSIGN(const std::string hash, write_file(directory / place, source.mapping.bytes()));
  if (!file.sha256.empty() && file.sha256 != hash)
    return fail(ErrorCode::kInvalidInput, file.path + " is not the expected file: its SHA-256 is " + hash,
                "Download it again, or give its actual hash.");
  file.path = place.string();
  file.sha256 = hash;
  return {};
}

// Warm images need a binary. A command starts at its entry, by the convention of WASI.
Status check_module(const wasm::Module& module, const Package& package) {
  const auto is_entry = [](const wasm::Export& e) {
    return e.name == "_start" && e.kind == wasm::ExternKind::kFunc;
  };
  if (package.driver != Driver::kStdin || std::ranges::any_of(module.exports, is_entry)) return {};
  return fail(ErrorCode::kInvalidInput, package.module.path + " exports no function \"_start\"",
              "Give a WASI command: a program with a main function, not a library.");
}

Status copy_module(Package& package, const fs::path& directory) {
  PackageFile& module = package.module;
  const Source source(module.path);
  if (!source.file.usable())
    return fail(ErrorCode::kNotFound, "cannot open " + module.path, "Check the path: it must be a file.");
  const std::span<const uint8_t> bytes = source.mapping.bytes();
  constexpr std::array<uint8_t, 4> kMagic = {0, 'a', 's', 'm'};
  if (bytes.size() >= kMagic.size() && std::ranges::equal(bytes.first(kMagic.size()), kMagic)) {
    const auto decoded = wasm::decode(bytes);
    if (!decoded)
      return fail(ErrorCode::kInvalidInput, module.path + ": " + decoded.error().message,
                  "Give a complete WebAssembly module.");
    MEMBRANE_TRY(check_module(*decoded, package));
    return copy_file(module, directory, kModuleName);
  }
  const auto parsed = wasm::parse_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed)
    return fail(ErrorCode::kInvalidInput, module.path + " is not a module: " + parsed.error().front().message,
                "Give a module of WebAssembly: a binary, or its text.");
  MEMBRANE_TRY(check_module(*parsed, package));
  MEMBRANE_ASSIGN(module.sha256, write_file(directory / kModuleName, wasm::encode(*parsed)));
  module.path = kModuleName;
  return {};
}

Status fill(const Package& package, const fs::path& directory) {
  Package copied = package;
  MEMBRANE_TRY(copy_module(copied, directory));
  for (PackageFile& file : copied.files) {
    const auto place = place_of(file.guest);
    if (!place)
      return fail(ErrorCode::kInvalidArgument, file.guest + " is not a valid path for a file of the program",
                  "Give an absolute path that names a file, such as /usr/share/words=words.txt.");
    MEMBRANE_TRY(copy_file(file, directory, *place));
  }
  const std::string text = to_json(copied);
  MEMBRANE_TRY(
      write_file(directory / kFileName, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return {};
}

}  // namespace

Result<std::vector<PackageFile>> files_below(const std::string& guest, const std::string& directory) {
  std::vector<PackageFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory(error) && !at->is_symlink(error)) continue;
    if (at->is_symlink(error) || !at->is_regular_file(error))
      return fail(ErrorCode::kUnsupported, at->path().string() + " is not a regular file",
                  "Replace it with a copy of its target.");
    if (files.size() == kMostPackageFiles)
      return fail(ErrorCode::kUnsupported,
                  directory + " has more than " + std::to_string(kMostPackageFiles) + " files",
                  "Give only the parts that are needed, or an archive, if the program can read one.");
    files.push_back(
        {(fs::path(guest) / at->path().lexically_relative(directory)).string(), at->path().string(), {}});
  }
  if (error)
    return fail(ErrorCode::kNotFound, "cannot read the directory " + directory + ": " + error.message(),
                "Check the path.");
  std::ranges::sort(files, {}, &PackageFile::guest);
  return files;
}

Result<Package> install_package(const Package& package) {
  MEMBRANE_TRY(check_name(package.name));
  if (const auto known = find_package(package.name); known || known.error().code != ErrorCode::kNotFound)
    return fail(ErrorCode::kInvalidArgument, "there is a language " + package.name + " already",
                "Use another name, or: membrane languages remove " + package.name);
  const std::vector<std::string> roots = package_directories();
  std::error_code error;
  fs::create_directories(roots.front(), error);
  std::string beside = roots.front() + "/.new-XXXXXX";
  if (mkdtemp(beside.data()) == nullptr)
    return std::unexpected(unavailable("make a directory in", roots.front(), errno).error());
  const auto give_up = [&](Error why) -> Result<Package> {
    fs::remove_all(beside, error);
    return std::unexpected(std::move(why));
  };
  if (Status filled = fill(package, beside); !filled) return give_up(std::move(filled).error());
  if (auto readable = read_package(beside); !readable) return give_up(std::move(readable).error());
  const std::string directory = roots.front() + "/" + package.name;
  fs::rename(beside, directory, error);
  if (error) return give_up(std::move(unavailable("make", directory, error.value())).error());
  return read_package(directory);
}

Result<std::string> remove_package(std::string_view name) {
  MEMBRANE_TRY(check_name(name));
  const std::vector<std::string> roots = package_directories();
  const fs::path own = fs::path(roots.front()) / name;
  std::error_code error;
  if (!fs::is_regular_file(own / kFileName, error)) {
    const Result<Package> found = find_package(name);
    if (found)
      return fail(ErrorCode::kDenied, found->directory + " is not among your own languages",
                  "Remove it where it was installed.");
    return fail(found.error().code, found.error().message,
                "`membrane languages list` shows what is installed.");
  }
  fs::remove_all(own, error);
  if (error) return std::unexpected(unavailable("remove", own.string(), error.value()).error());
  return own.string();
}

}  // namespace membrane::lang
