#include "sandbox/check.h"

#include <chrono>

#include "base/stop_scope.h"
#include "host/link.h"
#include "lang/language.h"
#include "lang/wat/preprocessor.h"
#include "sandbox/wasi_calls.h"
#include "wasm/text/printer.h"
#include "wasm/validate.h"

namespace membrane::sandbox {
namespace {

// All findings about a program, without running it.
std::vector<Diagnostic> diagnostics_of(const std::string& source, const std::string& name) {
  auto loaded = lang::load_program(source, lang::Language::kAuto, name);
  if (!loaded) return loaded.error();
  if (auto valid = wasm::validate(loaded->module, loaded->text()); !valid)
    return {loaded->to_author(valid.error())};
  const auto is_of_wasi = [](const wasm::Import& import) { return find_wasi(import) != nullptr; };
  if (auto linkage = host::link_imports(loaded->module, is_of_wasi); !linkage) return linkage.error();
  return {};
}

Finding finding_of(const Diagnostic& d, const std::string& source, const std::string& name) {
  return {.code = std::string(name_of(d.code)),
          .message = d.message,
          .place = d.place,
          .function = d.function,
          .expected = d.expected,
          .found = d.found,
          .hint = std::string(hint_of(d)),
          .text = render(d, source, name)};
}

// For a program without findings.
std::string plain_text(const std::string& source, const std::string& name) {
  if (lang::detect(source) == lang::Language::kWasm) {
    const auto loaded = lang::load_program(source, lang::Language::kWasm, name);
    return loaded ? wasm::print_text(loaded->module) : std::string();
  }
  const auto expansion = lang::expand(source, lang::host_functions());
  return expansion ? std::string(expansion->text_or(source)) : std::string();
}

}  // namespace

CheckAnswer check_program(const CheckRequest& request) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(request.wall_ms);
  const StopScope scope([end] { return std::chrono::steady_clock::now() >= end; });
  CheckAnswer answer;
  for (const Diagnostic& d : diagnostics_of(request.source, request.name))
    answer.findings.push_back(finding_of(d, request.source, request.name));
  if (request.expands && answer.findings.empty()) answer.plain = plain_text(request.source, request.name);
  answer.was_stopped = scope.stopped();
  return answer;
}

}  // namespace membrane::sandbox
