// What a model's reply asks for: running a program or a program of the catalog, a description of host
// functions, or the answer. Given by tool calls if the model has them, otherwise by fenced code:
//
//   ```python                  a program in a language that was chosen: the tag says which
//   print(2 + 40)
//   ```
//
//   ```wat                     one in WAT. Leading comments may give
//   ;; entry: main             the export to call,
//   ;; arguments: 2 40         its arguments,
//   ;; input: text             and one line for io.input
//   (module …)
//   ```
//
//   ```run                     a program of the catalog: its name and arguments,
//   add 2 40                   and below them the input, if any
//   ```
//
//   ```run                     what host functions do, of whole groups or single ones;
//   capabilities str fs.read   where WAT was chosen
//   ```
//
//   ANSWER: text               at the start of a line; everything after it is the answer
//
// In text the first of them counts: a model writes anything after its program without having seen what the
// program does. When there is none of them, a block without a tag is a program, and one in a language that
// was not chosen is answered with those that were.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/catalog.h"
#include "agent/chat.h"
#include "agent/languages.h"

namespace membrane::agent {

struct Action {
  enum class Kind : uint8_t {
    kRun,      // `program`
    kSubmit,   // `answer`
    kAsk,      // about host functions; `description` is the answer
    kUnclear,  // `problem` says what is wrong, so that the model can fix it
  };
  Kind kind = Kind::kUnclear;
  Program program;
  std::string answer;
  std::string description;
  std::string problem;
  std::string call_id;  // of the tool call; empty for text
};

struct Reply {
  std::vector<Action> actions;  // in order; at most one from text, several from tool calls
  std::string note;             // for the model: what was ignored; may be empty
};

// `languages`: those that were chosen, at least one.
Reply read_reply(const Completion& completion, const Catalog& catalog, std::span<const Language> languages);

// run_program, run_catalog (when there is a catalog) and submit.
std::vector<ToolSpec> tools_for(const Catalog& catalog, std::span<const Language> languages);

}  // namespace membrane::agent
