// The quotas for all sandboxes of one tenant together. An absent quota bounds nothing.
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

  // Takes the smaller of each.
  void narrow(const Quotas& other) {
#define X(id, name, sentence)                                     \
  if (other.id) id = std::min(*other.id, id.value_or(*other.id));
#include "service/quotas.def"
#undef X
  }
  // Takes those of `usual` where it names none.
  void fill(const Quotas& usual) {
#define X(id, name, sentence) \
  if (!id) id = usual.id;
#include "service/quotas.def"
#undef X
  }

  // The quotas that it names, by name.
  [[nodiscard]] std::map<std::string, uint64_t> by_name() const {
    std::map<std::string, uint64_t> all;
#define X(id, name, sentence)     \
  if (id) all.emplace(name, *id);
#include "service/quotas.def"
#undef X
    return all;
  }
  // Ignores unknown names.
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
