// Parses Dockerfiles into instructions. The builder carries them out.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::linux {

// <<NAME in RUN, COPY and ADD.
struct HereDocument {
  std::string name, text;
  bool expands = true;  // expand variables: its name was not quoted
  bool operator==(const HereDocument&) const = default;
};

struct DockerInstruction {
  std::string name;  // "RUN"
  std::vector<std::pair<std::string, std::string>> flags =
      {};                 // --from=X as {"from", "X"}; the value may be empty
  std::string text = {};  // the text after the flags: lines joined, nothing expanded
  // The words of the form ["a", "b"]. Without it, the text applies.
  std::optional<std::vector<std::string>> exec = {};
  std::vector<HereDocument> documents = {};
  size_t line = 0;  // its first line, from 1
};

struct Dockerfile {
  char escape = '\\';  // or '`', by a directive
  std::vector<DockerInstruction> instructions;
};

// Accepts the instructions that Docker knows, with the flags that Docker knows for each; the first one except
// ARG must be FROM. Errors: kInvalidInput, with the line; kTooLong past 1 MiB or 10,000 instructions.
Result<Dockerfile> parse_dockerfile(std::string_view text);

// The value of a variable, valid until the call returns; nothing when it is unset.
using DockerVariables = std::function<std::optional<std::string_view>(std::string_view name)>;

// Expands $NAME, ${NAME}, ${NAME:-word}, ${NAME-word}, ${NAME:+word}, ${NAME+word}, quotes and the escape as
// Docker does; '…' is literal. Values are not expanded again. Errors: kInvalidInput; kTooLong past 1 MiB.
Result<std::string> expand_docker_word(std::string_view word, const DockerVariables& variables, char escape);
// The words of a text, each expanded; a value is never several words.
Result<std::vector<std::string>> expand_docker_words(std::string_view text, const DockerVariables& variables,
                                                     char escape);
// The words of ENV, LABEL and ARG: NAME=VALUE, or for ENV and LABEL the old form NAME VALUE; an ARG may have
// no value. Errors: kInvalidInput.
struct DockerPair {
  std::string name;
  std::optional<std::string> value;
  bool operator==(const DockerPair&) const = default;
};
Result<std::vector<DockerPair>> docker_pairs(const DockerInstruction& instruction,
                                             const DockerVariables& variables, char escape);

}  // namespace membrane::linux
