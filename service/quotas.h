// What the sandboxes of one tenant may use together. A quota that is absent bounds nothing.
//
// Threads: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace membrane::service {

struct Quotas {
#define X(id, name, sentence) std::optional<uint64_t> id = {};
#include "service/quotas.def"
#undef X

  // Of each the smaller one.
  void narrow(const Quotas& other) {
#define X(id, name, sentence)                                     \
  if (other.id) id = std::min(*other.id, id.value_or(*other.id));
#include "service/quotas.def"
#undef X
  }
  // Where it names none, those of `usual`.
  void fill(const Quotas& usual) {
#define X(id, name, sentence) \
  if (!id) id = usual.id;
#include "service/quotas.def"
#undef X
  }

  // Those that it names, by their names.
  [[nodiscard]] std::map<std::string, uint64_t> by_name() const {
    std::map<std::string, uint64_t> all;
#define X(id, name, sentence)     \
  if (id) all.emplace(name, *id);
#include "service/quotas.def"
#undef X
    return all;
  }
  // Names that it does not know are left out.
  static Quotas of_names(const std::map<std::string, uint64_t>& all) {
    Quotas quotas;
#define X(id, name, sentence)                                                           \
  if (const auto found = all.find(name); found != all.end()) quotas.id = found->second;
#include "service/quotas.def"
#undef X
    return quotas;
  }
};

}  // namespace membrane::service
