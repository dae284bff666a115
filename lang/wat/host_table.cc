#include "lang/wat/host_table.h"

#include <utility>

namespace membrane::lang {

HostTable::HostTable(std::vector<HostSignature> functions) : functions_(std::move(functions)) {
  names_.reserve(functions_.size());
  for (const HostSignature& f : functions_) {
    by_name_.insert(wasm::hash_bytes(f.module + "." + f.name), static_cast<uint32_t>(names_.size()));
    names_.push_back(f.module + "." + f.name);
  }
}

const HostSignature* HostTable::find(std::string_view dotted) const {
  const uint32_t at =
      by_name_.find(wasm::hash_bytes(dotted), [&](uint32_t index) { return names_[index] == dotted; });
  return at == wasm::kNoIndex ? nullptr : &functions_[at];
}

const HostSignature* HostTable::find(std::string_view module, std::string_view name) const {
  std::string dotted(module);
  dotted += '.';
  dotted += name;
  return find(dotted);
}

bool HostTable::has_module(std::string_view module) const {
  for (const HostSignature& f : functions_)
    if (f.module == module) return true;
  return false;
}

const HostSignature& fail_function() {
  using wasm::ValType;
  static const HostSignature kFail{"membrane", "fail", {{ValType::kI32, ValType::kI32, ValType::kI32}, {}},
                                   false,      0b010,  "membrane.fail(errno, function, line)"};
  return kFail;
}

}  // namespace membrane::lang
