#include "packages/bytecode.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "packages/layer.h"
#include "sandbox/session.h"

namespace membrane::packages {
namespace {

namespace fs = std::filesystem;

// Per session: small enough that a source which exhausts it takes few others with it.
constexpr uint64_t kMostSourceBytes = 1u << 20;
constexpr size_t kMostSources = 200;
constexpr uint64_t kMostSessionFuel = 100'000'000'000;
// For all sessions: about two minutes. Remaining sources are compiled by each program that imports them.
constexpr uint64_t kMostFuel = 1'000'000'000'000;

// The bytecode is not checked against its source: neither changes any more.
constexpr std::string_view kCompile = R"(
import os, py_compile, sys
for path, to in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        py_compile.compile(path, to, path, True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except Exception:
        pass
)";

struct Source {
  fs::path path;  // relative
  uint64_t bytes = 0;
};

std::vector<Source> sources_below(const std::string& directory) {
  std::vector<Source> sources;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".py" && at->is_regular_file(error))
      sources.push_back({at->path().lexically_relative(directory), at->file_size(error)});
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

// "cpython-315" of "3.15.0".
std::string tag_of(const std::string& version) {
  std::string digits;
  for (const char c : version.substr(0, version.find('.', version.find('.') + 1)))
    if (c != '.') digits += c;
  return "cpython-" + digits;
}

fs::path bytecode_of(const Source& source, const std::string& tag) {
  return source.path.parent_path() / "__pycache__" / (source.path.stem().string() + "." + tag + ".pyc");
}

policy::Policy policy_of_compiling(uint64_t fuel) {
  policy::Policy policy;
  policy.limits.fuel = fuel;
  policy.limits.memory_bytes = 1ull << 30;
  policy.limits.wall_ms = 600'000;
  return policy;
}

class Compiling {
 public:
  Compiling(std::string_view guest, const std::string& directory, std::string tag)
      : guest_(guest), directory_(directory), tag_(std::move(tag)) {}

  Status compile(const std::shared_ptr<const sandbox::Template>& language, std::span<const Source> sources,
                 const std::atomic<bool>* cancel) {
    sandbox::RunOptions options;
    options.policy = policy_of_compiling(std::min(kMostSessionFuel, fuel_left_));
    options.cancel = cancel;
    MEMBRANE_ASSIGN(const auto session, sandbox::Session::create(language, options));
    std::vector<std::string> arguments;
    for (const Source& source : sources) {
      arguments.push_back(guest_ + "/" + source.path.string());
      arguments.push_back(place_of(source));
    }
    const auto report = session->exec({.code = std::string(kCompile), .arguments = std::move(arguments)});
    fuel_left_ -= std::min(fuel_left_, report.fuel_used);
    for (const Source& source : sources)
      if (const auto bytecode = session->read_file(place_of(source))) keep(source, *bytecode);
    return {};
  }

  [[nodiscard]] bool has_fuel() const { return fuel_left_ != 0; }

 private:
  // The path in the session.
  [[nodiscard]] std::string place_of(const Source& source) const {
    return "/bytecode/" + bytecode_of(source, tag_).string();
  }
  void keep(const Source& source, const std::string& bytecode) const {
    const fs::path to = fs::path(directory_) / bytecode_of(source, tag_);
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    std::ofstream(to, std::ios::binary) << bytecode;
  }

  std::string guest_;
  const std::string& directory_;
  std::string tag_;
  uint64_t fuel_left_ = kMostFuel;
};

}  // namespace

Status add_bytecode(const std::shared_ptr<const sandbox::Template>& language, std::string_view guest,
                    const std::string& directory, const WorkDirectory& work,
                    const std::atomic<bool>* cancel) {
  const std::string path = work.path() + "/sources.layer";
  MEMBRANE_TRY(write_layer(path, "sources", directory));
  MEMBRANE_ASSIGN(const Layer layer, Layer::open(path, "sources"));
  MEMBRANE_ASSIGN(const auto with_sources,
                  sandbox::Template::over(language, layer.files(guest), std::string(guest)));
  const std::vector<Source> all = sources_below(directory);
  Compiling compiling(guest, directory, tag_of(language->package().version));
  for (size_t from = 0; from < all.size() && compiling.has_fuel();) {
    size_t to = from;
    for (uint64_t bytes = 0;
         to < all.size() && to - from < kMostSources && (to == from || bytes < kMostSourceBytes); ++to)
      bytes += all[to].bytes;
    if (cancel != nullptr && *cancel)
      return fail(ErrorCode::kCancelled, "installing packages was interrupted", "");
    MEMBRANE_TRY(compiling.compile(with_sources, std::span(all).subspan(from, to - from), cancel));
    from = to;
  }
  return {};
}

}  // namespace membrane::packages
