// Words of Dockerfiles, and the variables in them.
#include <algorithm>
#include <utility>

#include "linux/image/dockerfile.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostBytes = 1u << 20, kMostWords = 100'000;
constexpr int kMostDepth = 8;  // of ${A:-${B:-…}}

std::unexpected<Error> wrong(std::string what) { return fail(ErrorCode::kInvalidInput, std::move(what)); }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_of_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

// Expands one text. The word in ${NAME:-word} is expanded by another instance, one level deeper.
class Expansion {
 public:
  Expansion(std::string_view text, const DockerVariables& variables, char escape, int depth)
      : text_(text), variables_(variables), escape_(escape), depth_(depth) {}

  // Expands the whole text as one word.
  Result<std::string> whole() {
    std::string out;
    while (at_ < text_.size()) MEMBRANE_TRY(step(out));
    return out;
  }

  // Returns the next word, up to white space; nothing at the end.
  Result<std::optional<std::string>> word() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (at_ == text_.size()) return std::nullopt;
    std::string out;
    while (at_ < text_.size() && !is_space(text_[at_])) MEMBRANE_TRY(step(out));
    return out;
  }

 private:
  Status step(std::string& out) {
    const char c = text_[at_];
    if (c == '\'') return single_quoted(out);
    if (c == '"') return double_quoted(out);
    if (c == '$') return variable(out);
    if (c == escape_) {
      if (++at_ == text_.size()) return {};  // one at the end says nothing
    }
    return add(out, text_.substr(at_++, 1));
  }

  static Status add(std::string& out, std::string_view bytes) {
    if (out.size() + bytes.size() > kMostBytes)
      return fail(ErrorCode::kTooLong, "a word of the Dockerfile becomes too long");
    out += bytes;
    return {};
  }

  Status single_quoted(std::string& out) {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == text_.npos) return wrong("a ' is not closed");
    const size_t begin = std::exchange(at_, end + 1) + 1;
    return add(out, text_.substr(begin, end - begin));
  }

  Status double_quoted(std::string& out) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_];
      if (c == '$') {
        MEMBRANE_TRY(variable(out));
        continue;
      }
      const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (c == escape_ && (next == '"' || next == '$' || next == escape_)) ++at_;
      MEMBRANE_TRY(add(out, text_.substr(at_++, 1)));
    }
    if (at_ == text_.size()) return wrong("a \" is not closed");
    ++at_;
    return {};
  }

  Status variable(std::string& out) {
    const size_t dollar = at_++;
    if (at_ < text_.size() && text_[at_] == '{') return braced(out);
    const size_t begin = at_;
    if (at_ < text_.size() && begins_name(text_[at_]))
      while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    if (at_ == begin) return add(out, text_.substr(dollar, 1));
    return add(out, variables_(text_.substr(begin, at_ - begin)).value_or(""));
  }

  // The end of what begins after "${": its '}'.
  [[nodiscard]] size_t end_of_braces(size_t at) const {
    int depth = 0;
    for (; at < text_.size(); ++at) {
      if (text_[at] == escape_) {
        ++at;
      } else if (text_[at] == '}') {
        if (depth-- == 0) return at;
      } else if (text_[at] == '{' && text_[at - 1] == '$') {
        ++depth;
      }
    }
    return text_.npos;
  }

  Status braced(std::string& out) {
    const size_t begin = ++at_, end = end_of_braces(begin);
    if (end == text_.npos) return wrong("a ${ has no }");
    const std::string_view inside = text_.substr(begin, end - begin);
    at_ = end + 1;
    const size_t name_bytes =
        static_cast<size_t>(std::ranges::find_if_not(inside, is_of_name) - inside.begin());
    const std::string_view name = inside.substr(0, name_bytes);
    std::string_view rest = inside.substr(name_bytes);
    if (name.empty() || !begins_name(name.front()))
      return wrong("${" + std::string(inside.substr(0, 100)) + "} names no variable");
    const auto value = variables_(name);
    if (rest.empty()) return add(out, value.value_or(""));
    const bool counts_empty = rest.starts_with(':');
    if (counts_empty) rest.remove_prefix(1);
    const bool is_set = value && !(counts_empty && value->empty());
    if (rest.starts_with('-')) return is_set ? add(out, *value) : add_expanded(out, rest.substr(1));
    if (rest.starts_with('+')) return is_set ? add_expanded(out, rest.substr(1)) : Status();
    if (rest.starts_with('?')) {
      if (is_set) return add(out, *value);
      return wrong(std::string(name) + " has no value: " + std::string(rest.substr(1, 200)));
    }
    return wrong("${" + std::string(inside.substr(0, 100)) + "} has an unknown form");
  }

  Status add_expanded(std::string& out, std::string_view word) {
    if (depth_ == kMostDepth) return wrong("variables are nested too deep");
    MEMBRANE_ASSIGN(const std::string expanded, Expansion(word, variables_, escape_, depth_ + 1).whole());
    return add(out, expanded);
  }

  std::string_view text_;
  const DockerVariables& variables_;
  const char escape_;
  const int depth_;
  size_t at_ = 0;
};

// "NAME=…": how long the name is. 0 when there is no '=' in the first word.
size_t name_bytes_of(std::string_view text) {
  for (size_t i = 0; i < text.size() && !is_space(text[i]); ++i)
    if (text[i] == '=') return i;
  return 0;
}

}  // namespace

Result<std::string> expand_docker_word(std::string_view word, const DockerVariables& variables, char escape) {
  return Expansion(word, variables, escape, 0).whole();
}

Result<std::vector<std::string>> expand_docker_words(std::string_view text, const DockerVariables& variables,
                                                     char escape) {
  std::vector<std::string> words;
  size_t bytes = 0;
  Expansion expansion(text, variables, escape, 0);
  while (true) {
    MEMBRANE_ASSIGN(auto word, expansion.word());
    if (!word) return words;
    bytes += word->size();
    if (bytes > kMostBytes || words.size() == kMostWords)
      return fail(ErrorCode::kTooLong, "an instruction of the Dockerfile becomes too long");
    words.push_back(std::move(*word));
  }
}

Result<std::vector<DockerPair>> docker_pairs(const DockerInstruction& instruction,
                                             const DockerVariables& variables, char escape) {
  const std::string_view text = instruction.text;
  std::vector<DockerPair> pairs;
  const bool is_argument = instruction.name == "ARG";
  if (!is_argument && name_bytes_of(text) == 0) {
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    const size_t begin = std::min(text.find_first_not_of(" \t", end), text.size());
    if (begin == text.size()) return wrong(instruction.name + " needs a name and a value");
    MEMBRANE_ASSIGN(std::string value, expand_docker_word(text.substr(begin), variables, escape));
    pairs.push_back({std::string(text.substr(0, end)), std::move(value)});
    return pairs;
  }
  MEMBRANE_ASSIGN(const std::vector<std::string> words, expand_docker_words(text, variables, escape));
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == 0 || word.empty()) return wrong(instruction.name + " has a value without a name");
    if (equals == word.npos && !is_argument)
      return wrong(instruction.name + " needs NAME=VALUE, but has \"" + word.substr(0, 100) + '"');
    if (equals == word.npos) pairs.push_back({word, std::nullopt});
    else pairs.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  return pairs;
}

}  // namespace membrane::linux
