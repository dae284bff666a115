#include "face/isolated.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <utility>

#include "worker/ready_workers.h"
#include "worker/worker.h"

namespace membrane::face {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "membrane-worker";
constexpr const char* kVariable = "MEMBRANE_WORKER";

// The file that this code was loaded from; "" where the system does not say.
fs::path file_of_library() {
  Dl_info info{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<const void*>(&find_worker_program), &info) != 0 && info.dli_fname != nullptr &&
      info.dli_fname[0] == '/')
    return fs::canonical(info.dli_fname, ignored);
  return fs::read_symlink("/proc/self/exe", ignored);  // of a program, which is named as it was started
}

std::vector<fs::path> places_beside(const fs::path& library) {
  const fs::path here = library.parent_path();
  std::vector<fs::path> places = {here / kProgram};
  for (const fs::path& prefix : {here.parent_path(), here.parent_path().parent_path()})
    places.push_back(prefix / "libexec" / "membrane" / kProgram);
  return places;
}

// The zygote of this process. One that has ended is replaced; so is the one of the process that this one was forked from.
class Workers {
 public:
  static Workers& instance() {
    static auto* const all = new Workers;  // outlives every session, also static ones
    return *all;
  }

  // A worker that has the template. If a request shows that the zygote has ended, another one is started and
  // asked.
  Result<std::shared_ptr<worker::Worker>> take(const sandbox::TemplateSpec& spec) {
    auto taken = take_once(spec);
    return taken || is_alive() ? std::move(taken) : take_once(spec);
  }

 private:
  Result<std::shared_ptr<worker::Worker>> take_once(const sandbox::TemplateSpec& spec) {
    MEMBRANE_ASSIGN(const auto workers, get());
    MEMBRANE_TRY(workers->open(spec));
    return workers->take();
  }
  bool is_alive() {
    const std::lock_guard lock(mutex_);
    return zygote_ == nullptr || zygote_->is_alive();
  }
  Result<std::shared_ptr<worker::ReadyWorkers>> get() {
    const std::lock_guard lock(mutex_);
    if (zygote_ && zygote_->is_alive()) return workers_;
    MEMBRANE_ASSIGN(const std::string program, find_worker_program());
    MEMBRANE_ASSIGN(zygote_, worker::Zygote::start_program(program));
    workers_ = std::make_shared<worker::ReadyWorkers>(zygote_, 0);
    return workers_;
  }

  std::mutex mutex_;  // guards all below
  std::shared_ptr<worker::Zygote> zygote_;
  std::shared_ptr<worker::ReadyWorkers> workers_;
};

// The program has another working directory, so names are resolved in this process.
Result<sandbox::TemplateSpec> with_whole_paths(sandbox::TemplateSpec spec) {
  for (std::string* const path : {&spec.package_directory, &spec.cache_directory, &spec.layer_path}) {
    if (path->empty()) continue;
    std::error_code failed;
    *path = fs::absolute(*path, failed).string();
    if (failed)
      return fail(ErrorCode::kUnavailable, "the current directory is not known: " + failed.message(),
                  "Name languages and caches by paths that begin with /.");
  }
  return spec;
}

Status check_walls(worker::Worker& worker, const std::vector<std::string>& accepted) {
  for (const auto& [name, why] : worker.raise_walls({}).missing)
    if (std::ranges::find(accepted, name) == accepted.end())
      return fail(ErrorCode::kUnsupported,
                  "this machine cannot raise the wall " + name + " around a session: " + why,
                  "membrane doctor says more. Accept it in the session's options (accepted_missing_walls) to "
                  "go on without it.");
  return {};
}

}  // namespace

Result<std::string> find_worker_program() {
  if (const char* const given = secure_getenv(kVariable); given != nullptr && *given != '\0') return given;
  std::string looked_for;
  for (const fs::path& place : places_beside(file_of_library())) {
    if (access(place.c_str(), X_OK) == 0) return place.string();
    looked_for += (looked_for.empty() ? "" : ", ") + place.string();
  }
  return fail(ErrorCode::kNotFound,
              "a session in a process of its own needs the program membrane-worker, which is not there: " +
                  looked_for,
              "Install it beside the library, or name it in the environment: "
              "MEMBRANE_WORKER=/path/to/membrane-worker.");
}

Result<std::unique_ptr<sandbox::Session>> isolated_session(const sandbox::Template& of,
                                                           sandbox::RunOptions options,
                                                           const std::vector<std::string>& accepted_walls,
                                                           std::optional<std::span<const uint8_t>> kept) {
  MEMBRANE_ASSIGN(const sandbox::TemplateSpec spec, with_whole_paths(of.spec()));
  MEMBRANE_ASSIGN(const auto worker, Workers::instance().take(spec));
  MEMBRANE_TRY(check_walls(*worker, accepted_walls));
  return kept ? worker->restore(spec, *kept, std::move(options)) : worker->create(spec, std::move(options));
}

}  // namespace membrane::face
