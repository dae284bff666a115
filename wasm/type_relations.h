// How the types of one module relate: which are the same, and which matches which (specification, chapter 3.3).
//
// Two definitions are the same type when their recursive groups are: of the same form, where references to the
// group itself mean the same member, and references to others mean the same type. Each type has the number of
// the first one that is the same, and a jump to one of its supertypes, by which any of them is found in a few steps.
// Both are computed at the first request.
//
// The indices in all types must be those of types, each of its own group or of one before: declarations are
// checked for that before anything else (validate.cc).
//
// Threads: belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "wasm/module.h"

namespace membrane::wasm {

inline constexpr uint32_t kMaxSubtypeDepth = 63;  // as on the web

class TypeRelations {
 public:
  explicit TypeRelations(const Module& module) : module_(module) {}

  // Whether a value of type `sub` may be used as one of `super`.
  bool matches(ValType sub, ValType super) {
    return sub == super || sub == ValType::kBottom || (is_ref(super) && reference_matches(sub, super));
  }
  bool field_matches(const FieldType& sub, const FieldType& super);
  // Of defined types.
  bool type_matches(uint32_t sub, uint32_t super);
  bool same(uint32_t a, uint32_t b) { return a == b || canonical(a) == canonical(b); }
  // The first type that is the same.
  uint32_t canonical(uint32_t type) {
    if (canonical_.size() != module_.types.size()) relate();
    return canonical_[type];
  }
  // How many supertypes a type has, direct or not.
  uint32_t depth(uint32_t type) {
    if (ancestry_.size() != module_.types.size()) relate();
    return ancestry_[type].depth;
  }

 private:
  // The jump of a root is the root. Of any other type it leads to the supertype, or skips as many as two jumps of
  // the supertype do when these are of one length: so the number of steps to any supertype is logarithmic.
  struct Ancestry {
    uint32_t depth;
    uint32_t jump;
  };

  bool reference_matches(ValType sub, ValType super);
  bool heap_type_matches(ValType sub, ValType super);
  void relate();
  void find_canonical();
  void find_ancestry();
  uint32_t number_in_key(ValType type, uint32_t begin, uint32_t end) const;
  void append_key(std::vector<uint32_t>& key, uint32_t begin, uint32_t size) const;

  const Module& module_;
  std::vector<uint32_t> canonical_;
  std::vector<Ancestry> ancestry_;
};

// Of abstract reference types, both nullable.
bool abstract_matches(ValType sub, ValType super);
// none, nofunc, noextern or noexn, whose only value is null. Nullable.
bool is_bottom_ref(ValType type);

// The greatest type of the hierarchy that a reference type belongs to, nullable: any, func, extern or exn.
ValType top_of(const Module& module, ValType type);

}  // namespace membrane::wasm
