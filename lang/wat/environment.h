// The declarations of a module's fields: names, types, and what the host needs from the module. Read leniently: a
// malformed field is skipped, since the parser reports it.
//
// Ownership: names are views into the text. Threads: immutable once made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/wat/host_table.h"
#include "lang/wat/tree.h"
#include "wasm/text/scope.h"
#include "wasm/types.h"

namespace membrane::lang {

struct FunctionInfo {
  std::string_view id;                         // "$main", or empty
  std::shared_ptr<const wasm::FuncType> type;  // never null; shared by all functions that name the same type
  bool is_import = false;
  const HostSignature* host = nullptr;  // if it is an import of a known host function
};

struct VariableInfo {
  std::string_view id;
  wasm::ValType type = wasm::ValType::kI32;
};

// A function's type, shared by functions that only name a type: thousands may have one with a thousand parameters.
using SharedType = std::shared_ptr<const wasm::FuncType>;

// The locals of a function by index. Parameters that are only in its type come first and are not copied.
class LocalList {
 public:
  LocalList() = default;
  LocalList(SharedType type, std::vector<VariableInfo> params)
      : type_(std::move(type)),
        unlisted_(params.empty() ? type_->params.size() : 0),
        listed_(std::move(params)) {}

  [[nodiscard]] size_t size() const { return unlisted_ + listed_.size(); }
  [[nodiscard]] wasm::ValType type_of(size_t i) const {
    return i < unlisted_ ? type_->params[i] : listed_[i - unlisted_].type;
  }
  [[nodiscard]] const VariableInfo& named(size_t i) const { return listed_[i - unlisted_]; }
  [[nodiscard]] std::span<const VariableInfo> listed() const { return listed_; }  // the last of the locals
  void add(VariableInfo local) { listed_.push_back(local); }

 private:
  SharedType type_;
  size_t unlisted_ = 0;
  std::vector<VariableInfo> listed_;
};

// The head of a function, `(func $f (export …) (param …) … (local …)`.
struct FunctionHead {
  SharedType type;
  LocalList locals;
  Tree::Node body = 0;  // the first node after the head
  uint32_t end = 0;     // the offset after the head: where another (local …) can be added
};

class Environment {
 public:
  Environment(const Tree& tree, const HostTable& host);

  [[nodiscard]] FunctionHead read_head(Tree::Node func) const;
  // The type of `(type …)? (param …)* (result …)*` from `n` on; `n` moves after it. Never null; a type that is too
  // long for a module is truncated. Parameters that it lists are added to `params`.
  SharedType read_type_use(Tree::Node& n, Tree::Node close,
                           std::vector<VariableInfo>* params = nullptr) const;
  // The value type at `n`, a word or `(ref …)`; nothing if there is none.
  [[nodiscard]] std::optional<wasm::ValType> val_type_at(Tree::Node n) const;

  [[nodiscard]] const FunctionInfo* find_function(std::string_view id) const;
  [[nodiscard]] const VariableInfo* find_global(std::string_view id) const;
  [[nodiscard]] const wasm::FuncType* find_tag(Tree::Node index) const;  // by name or index
  [[nodiscard]] bool has_tags() const { return !tags_.empty(); }

  // The fields, and the close of the module: a `)`, or the end of the text.
  Tree::Node fields_begin = 0;
  Tree::Node fields_end = 0;
  bool is_module = true;  // false for `(module binary …)` and `(module quote …)`

  std::vector<FunctionInfo> functions;  // imports and definitions, in the order of the text
  std::vector<VariableInfo> globals;
  wasm::NameScope tables;
  wasm::NameScope memories;
  wasm::NameScope elements;
  uint32_t imported_function_count = 0;
  uint32_t imports_end = 0;  // the offset where another import can be added

  uint32_t memory_count = 0;  // the following members are about the first
  bool memory_is_import = false;
  bool memory_is_exported = false;  // as "memory"
  Tree::Node memory_min = 0;        // the token of its minimum; 0 if the module does not define it
  uint64_t memory_pages = 0;
  std::optional<uint64_t> memory_max_pages;

  uint64_t data_end = 0;                   // end of the last active data segment
  std::optional<Tree::Node> unknown_data;  // an active segment whose offset is not constant
  bool has_active_data = false;
  bool exports_function = false;
  bool exports_memory_name = false;  // something is exported as "memory"
  bool exports_heap_base = false;
  bool has_start = false;

 private:
  using Node = Tree::Node;

  void find_fields();
  void read_type(Node field);
  void read_types(Node field);
  void read_field(Node field);
  void read_import(Node field);
  void read_export(Node field);
  void read_function(Node field, Node n, bool is_import, std::string_view module, std::string_view name);
  void read_global(Node field, Node n);
  void read_tag(Node field, Node n);
  void read_memory(Node field, Node n, bool is_import);
  void read_data(Node field);
  bool read_inline_exports(Node& n, Node close, std::string_view kind);
  bool read_inline_import(Node& n, Node close, std::string_view& module, std::string_view& name);
  void note_export(std::string_view quoted, std::string_view kind);
  [[nodiscard]] uint64_t string_bytes(Node n, Node close) const;

  const Tree& tree_;
  const HostTable& host_;
  std::vector<SharedType> types_;
  wasm::NameScope type_ids_;
  wasm::NameScope function_ids_;
  wasm::NameScope global_ids_;
  std::vector<std::shared_ptr<const wasm::FuncType>> tags_;
  wasm::NameScope tag_ids_;
};

}  // namespace membrane::lang
