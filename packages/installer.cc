#include "packages/installer.h"

namespace membrane::packages {

Result<std::unique_ptr<Installer>> Installer::of(const lang::Package& language, const Options& options) {
  switch (language.driver) {
    case lang::Driver::kPython: return make_python_installer(language, options);
    case lang::Driver::kQuickJs: return make_npm_installer(options);
    case lang::Driver::kStdin: break;
  }
  return fail(ErrorCode::kUnsupported, "programs in " + language.name + " cannot use packages",
              "Packages are for Python and JavaScript. Give another language its files when it is added: "
              "membrane languages "
              "add --file.");
}

Result<SubprocessEnd> run_installer(Subprocess process, const WorkDirectory& work, const Options& options) {
  process.most_time = kMostInstallTime;
  process.watch = [&]() -> Status {
    if (options.cancel != nullptr && *options.cancel)
      return fail(ErrorCode::kCancelled, "installing packages was interrupted", "");
    return work.check_size(kMostWorkBytes);
  };
  return run_subprocess(process);
}

}  // namespace membrane::packages
