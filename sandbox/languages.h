// The languages that programs may be written in, found by name or by a program's name. Each is opened when it is
// first needed and kept for the life of this object.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sandbox/template.h"

namespace membrane::sandbox {

class Languages {
 public:
  explicit Languages(TemplateOptions options) : options_(std::move(options)) {}

  // Opens the language with the warm image that has most of what `program` imports. Errors: those of
  // lang::find_package() and Template::open().
  Result<std::shared_ptr<const Template>> open(std::string_view name, std::string_view program);
  // The template that open() would open, without opening it. Errors: those of lang::find_package(); kInvalidArgument
  // without a directory for warm images.
  struct Located {
    lang::Package package;
    TemplateSpec spec;
  };
  [[nodiscard]] Result<Located> locate(std::string_view name, std::string_view program) const;
  // For turns that are not known yet: uses the warm image with the most modules. Errors: as open().
  Result<std::shared_ptr<const Template>> open_for_session(std::string_view name);

  // $XDG_CACHE_HOME/membrane/templates, else ~/.cache/membrane/templates; "" without a home.
  static std::string default_cache_directory();

 private:
  using Modules = std::vector<std::string>;
  Result<std::shared_ptr<const Template>> open(lang::Package package, const Modules* modules);
  [[nodiscard]] Status check_cache(const lang::Package& package) const;

  TemplateOptions options_;
  using Templates = std::map<std::string, std::shared_ptr<const Template>, std::less<>>;
  std::mutex mutex_;  // guards the members below
  Templates templates_;
  Templates for_sessions_;  // by the language's name
};

// The language of a program, by its name and how it begins: "python", "js" or an installed package with that
// extension; "wat" or "wasm" for programs that the engine runs itself. A text without a name is Python unless it
// begins as WAT or a binary does; if a name has no known extension, the language is "", and can be guessed.
std::string language_of(std::string_view file_name, std::string_view source);
// "python" or "js", if the words of a text suggest one of them; otherwise "".
std::string guessed_language(std::string_view source);

}  // namespace membrane::sandbox
