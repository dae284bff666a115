// Packages for programs in a language: found by the language's own installer on this machine, kept in a cache, and mounted
// read-only into every session of the language.
//
//   names ─▶ lock ──────────────────────────────▶ layer ─▶ Template::over() ─▶ sessions
//            (or pip, npm: versions and hashes)    (or pip, npm: those files; bytecode, made inside)
//
// The installers run as the user, with the user's configuration, and take no code of a package: of Python wheels only, which
// host/wheels.py unpacks; of JavaScript packages without their scripts. What a package has runs inside, when a program
// imports it.
//
// When lock and layer are there, neither an installer nor the network is needed.
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

// Where programs find what is mounted.
inline constexpr std::string_view kPythonPackages = "/usr/lib/python-packages";
inline constexpr std::string_view kNodeModules = "/usr/lib/node_modules";

struct Wanted {
  std::vector<std::string> named;  // by a policy, as it has them
  std::vector<std::string> added;  // by --with
  std::string lock_file;           // of what is named; "": the lock is kept in the cache
};

struct Options {
  std::string cache_directory;                             // of locks and layers; the user's own
  std::function<void(std::string_view step)> on_progress;  // may be null
  std::function<void(std::string_view sentence)>
      on_notice;                              // what a person should hear of in any case; may be null
  const std::atomic<bool>* cancel = nullptr;  // ends an installer; may be null
};

// The language with the packages, or as it is when there are none. Errors: kInvalidArgument for names that are none, and for
// a version other than the one that is built in; kUnsupported for what is native code, and for a language that takes no
// packages; kNotFound without an installer; kUnavailable for what the installer says; kInvalidInput for packages that are
// not what they say they are; kTimedOut; kCancelled.
Result<std::shared_ptr<const sandbox::Template>> provide(std::shared_ptr<const sandbox::Template> language,
                                                         const Wanted& wanted, const Options& options);

// The template that has this spec(), from the files of the caches: nothing is made, and nobody is asked. Errors: those of
// Template::open() with only_finds, and of Layer::open().
Result<std::shared_ptr<const sandbox::Template>> find_template(const sandbox::TemplateSpec& spec);

// The names in a policy that are for programs in a language; null where the language takes no packages.
using Names = std::vector<std::string> policy::Packages::*;
Names names_for(lang::Driver driver);

// $XDG_CACHE_HOME/membrane/packages, else ~/.cache/membrane/packages; "" without a home.
std::string default_cache_directory();

}  // namespace membrane::packages
