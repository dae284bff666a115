// Ready programs that a model runs by name: WAT files with front matter in their
// leading comments.
//
//   ;; name: add
//   ;; does: Adds two integers.
//   ;; arguments: a i32, b i32
//   ;; result: the sum, i32
//   ;; example: add 2 40
//   (func (export "main") …)
//
// Keys, each at most once: name and does (required), arguments, input (what it reads with io.input), result,
// example, needs (capabilities that must be granted: "http, kv"), entry. A comment line with three spaces or
// more after ";;" continues the previous value. The front matter ends at the first line that is not a
// comment, or at a bare ";;".
//
// Threads: immutable once filled.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::agent {

struct CatalogEntry {
  std::string name;       // a-z, 0-9, "-" and "_"; begins with a letter; the file's name without ".wat"
  std::string does;       // one or two sentences
  std::string arguments;  // empty: takes none
  std::string input;      // empty: reads none
  std::string result;
  std::string example;
  std::vector<std::string> needs;
  std::string entry;   // an export; empty: the usual ones
  std::string source;  // the whole file
  std::string file_name;
};

class Catalog {
 public:
  static constexpr size_t kMaxEntries = 512;
  static constexpr size_t kMaxProgramBytes = 256u << 10;
  static constexpr std::string_view kReservedName =
      "capabilities";  // a ```run block asks about host functions by it

  // Reads every *.wat of a directory, sorted by name. Malformed files are left out, and problems() says why;
  // kNotFound when the directory cannot be read.
  static Result<Catalog> load(const std::string& directory);

  // kInvalidInput: "add.wat:3: …", with what to write instead.
  Status add(std::string source, std::string file_name);

  // kNotFound, with the nearest name.
  [[nodiscard]] Result<const CatalogEntry*> find(std::string_view name) const;
  [[nodiscard]] const std::vector<CatalogEntry>& entries() const { return entries_; }  // by name
  [[nodiscard]] const std::vector<Error>& problems() const { return problems_; }

 private:
  std::vector<CatalogEntry> entries_;
  std::vector<Error> problems_;
};

// For the model's prompt: one line for each program, except that those which need one of `ungranted` are only
// counted.
std::string render_list(const Catalog& catalog, std::span<const std::string_view> ungranted = {});
// The same in one line, with only names and arguments.
std::string render_short_list(const Catalog& catalog, std::span<const std::string_view> ungranted = {});

// The value of the front matter's `key` in any program ("entry", "input", "arguments"), or "". Lenient, for
// programs that a model wrote.
std::string front_matter(std::string_view source, std::string_view key);

// Splits "2 'two words' \"3\"" as a shell would, without its expansions. kInvalidInput: an open quote.
Result<std::vector<std::string>> split_arguments(std::string_view text);

}  // namespace membrane::agent
