// How packages of one language are downloaded to this machine.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "lang/package.h"
#include "packages/lock.h"
#include "packages/provide.h"
#include "packages/work_directory.h"

namespace membrane::packages {

class Installer {
 public:
  // kUnsupported for a language without packages.
  static Result<std::unique_ptr<Installer>> of(const lang::Package& language, const Options& options);
  virtual ~Installer() = default;

  [[nodiscard]] virtual policy::Registry registry() const = 0;
  // Where programs find the packages.
  [[nodiscard]] virtual std::string_view guest_directory() const = 0;
  // In one line, what a lock depends on apart from the requested names.
  [[nodiscard]] virtual std::string made_for() const = 0;
  // The language's part of a lock.
  [[nodiscard]] virtual std::optional<LockedLanguage>& part_of(Lock& lock) const = 0;

  // Chooses versions, and leaves the files of all packages below tree_in(work). `pins` are the choices of another
  // lock.
  virtual Result<LockedLanguage> resolve(const WorkDirectory& work,
                                         const std::vector<policy::PackageName>& names,
                                         const std::vector<LockedPackage>& pins) const = 0;
  // Leaves the files that a lock names there.
  virtual Status fetch(const WorkDirectory& work, const LockedLanguage& locked) const = 0;
  [[nodiscard]] virtual std::string tree_in(const WorkDirectory& work) const = 0;
};

std::unique_ptr<Installer> make_python_installer(const lang::Package& language, const Options& options);
std::unique_ptr<Installer> make_npm_installer(const Options& options);

// Bounds on what an installer may write to its work directory, and on its time.
inline constexpr uint64_t kMostWorkBytes = 2ull << 30;
inline constexpr std::chrono::minutes kMostInstallTime(10);

// Runs an installer within these bounds, until the options cancel it. Errors: those of run_subprocess(); kExhausted;
// kCancelled.
Result<SubprocessEnd> run_installer(Subprocess process, const WorkDirectory& work, const Options& options);

}  // namespace membrane::packages
