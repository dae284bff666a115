// The host's functions as the preprocessor needs them: the type of each, so that a call can import it, check it and
// type its literals.
//
// Ownership: a table owns its strings. Threads: immutable once created; share it freely.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wasm/text/scope.h"
#include "wasm/types.h"

namespace membrane::lang {

struct HostSignature {
  std::string module;          // "http"
  std::string name;            // "get"
  wasm::FuncType type;         // including the errno, if it has one
  bool has_errno = false;      // the last result is an errno, 0 for success
  uint32_t string_params = 0;  // bit i: parameter i is the address of a string
  std::string usage;           // for messages: "http.get(url) -> body, errno"
};

class HostTable {
 public:
  HostTable() = default;
  explicit HostTable(std::vector<HostSignature> functions);

  // By its dotted name ("http.get"), or by its parts. Null when there is none.
  [[nodiscard]] const HostSignature* find(std::string_view dotted) const;
  [[nodiscard]] const HostSignature* find(std::string_view module, std::string_view name) const;

  [[nodiscard]] const std::vector<HostSignature>& functions() const { return functions_; }
  // The dotted names, in the order of functions().
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool has_module(std::string_view module) const;

 private:
  std::vector<HostSignature> functions_;
  std::vector<std::string> names_;
  wasm::HashIndex by_name_;
};

// The import that a checked call `(call $f! …)` needs. It does not return: the run ends with a trap whose message
// has the function's name and the errno, at the place of the call.
//
//   (import "membrane" "fail" (func $membrane.fail (param i32 i32 i32)))
//
// Parameters: the errno, not 0; the address of a string with the function's name ("http.get"); the line of the call
// in the author's text, counted from 1. Every host must provide it; it needs no grant, and a call of it is not a
// host call in the report.
const HostSignature& fail_function();

}  // namespace membrane::lang
