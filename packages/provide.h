// Packages for programs in a language: resolved by the language's own installer on this machine, kept in a cache,
// and mounted read-only into every session of the language.
//
//   names ─▶ lock ──────────────────────────────▶ layer ─▶ Template::over() ─▶ sessions
//            (or pip, npm: versions and hashes)    (or pip, npm: those files; bytecode, made inside)
//
// The installers run as the user, with the user's configuration, and run no code of a package: Python packages must
// be wheels, which host/wheels.py unpacks; scripts of JavaScript packages are not run. Code of a package runs only
// inside, when a program imports it.
//
// If the lock and the layer exist, neither an installer nor the network is needed.
//
// Threads: any; processes may share the cache.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lang/package.h"
#include "policy/policy.h"
#include "sandbox/template.h"

namespace membrane::packages {

// Where programs find the packages.
inline constexpr std::string_view kPythonPackages = "/usr/lib/python-packages";
inline constexpr std::string_view kNodeModules = "/usr/lib/node_modules";

struct Wanted {
  std::vector<std::string> named;  // by a policy, as written there
  std::vector<std::string> added;  // by --with
  std::string lock_file;           // for `named`; "": the lock is kept in the cache
};

struct Options {
  std::string cache_directory;                             // of locks and layers; owned by the user
  std::function<void(std::string_view step)> on_progress;  // may be null
  std::function<void(std::string_view sentence)>
      on_notice;                              // messages that should reach a person in any case; may be null
  const std::atomic<bool>* cancel = nullptr;  // stops an installer; may be null
};

// The language with the packages, or unchanged when there are none. Errors: kInvalidArgument for invalid names, and
// for a version other than the built-in one; kUnsupported for native code, and for a language without packages;
// kNotFound without an installer; kUnavailable when the installer fails; kInvalidInput for packages whose files do
// not match their declarations; kTimedOut; kCancelled.
Result<std::shared_ptr<const sandbox::Template>> provide(std::shared_ptr<const sandbox::Template> language,
                                                         const Wanted& wanted, const Options& options);

// The template that has this spec(), from the cached files: nothing is built or downloaded. Errors: those of
// Template::open() with only_finds, and of Layer::open().
Result<std::shared_ptr<const sandbox::Template>> find_template(const sandbox::TemplateSpec& spec);

// The member of a policy with a language's packages; null for a language without packages.
using Names = std::vector<std::string> policy::Packages::*;
Names names_for(lang::Driver driver);

// $XDG_CACHE_HOME/membrane/packages, else ~/.cache/membrane/packages; "" without a home.
std::string default_cache_directory();

}  // namespace membrane::packages
