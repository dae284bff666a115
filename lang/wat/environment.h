// What a module's fields declare: names, types, and what the host needs of the module. Read
// leniently: a field that is malformed is skipped, since the parser reports it.
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
  std::shared_ptr<const wasm::FuncType> type;  // never null; of all functions that name one type the same
  bool is_import = false;
  const HostSignature* host = nullptr;  // when it is an import that the host offers
};

struct VariableInfo {
  std::string_view id;
  wasm::ValType type = wasm::ValType::kI32;
};

// A function's type. Those that only name a type share it: thousands may have one with a thousand parameters.
using SharedType = std::shared_ptr<const wasm::FuncType>;

// The locals of a function by their index. Parameters that only its type lists come first and are not copied.
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
  [[nodiscard]] std::span<const VariableInfo> listed() const { return listed_; }  // the last of them
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
  Tree::Node body = 0;  // the first node behind the head
  uint32_t end = 0;     // the byte behind the head: where another (local …) can be added
};

class Environment {
 public:
  Environment(const Tree& tree, const HostTable& host);

  [[nodiscard]] FunctionHead read_head(Tree::Node func) const;
  // The type of `(type …)? (param …)* (result …)*` from `n` on; `n` moves after it. Never null; of types that are too
  // long for a module the beginning. Parameters that it lists go to `params`.
  SharedType read_type_use(Tree::Node& n, Tree::Node close,
                           std::vector<VariableInfo>* params = nullptr) const;
  // At a value type, a word or `(ref …)`; nothing where none stands.
  [[nodiscard]] std::optional<wasm::ValType> val_type_at(Tree::Node n) const;

  [[nodiscard]] const FunctionInfo* find_function(std::string_view id) const;
  [[nodiscard]] const VariableInfo* find_global(std::string_view id) const;
  [[nodiscard]] const wasm::FuncType* find_tag(Tree::Node index) const;  // by its name or number
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
  uint32_t imports_end = 0;  // the byte where another import can be added

  uint32_t memory_count = 0;  // what follows is of the first
  bool memory_is_import = false;
  bool memory_is_exported = false;  // as "memory"
  Tree::Node memory_min = 0;        // the token of its minimum; 0 when it has none of its own
  uint64_t memory_pages = 0;
  std::optional<uint64_t> memory_max_pages;

  uint64_t data_end = 0;                   // past the last active data segment
  std::optional<Tree::Node> unknown_data;  // an active segment whose offset is no constant
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
