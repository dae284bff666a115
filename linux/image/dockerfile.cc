#include "linux/image/dockerfile.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "base/diagnostic.h"
#include "base/json.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostBytes = 1u << 20, kMostInstructions = 10'000, kMostDocuments = 100;

struct Known {
  std::string_view name;
  std::string_view flags;  // with a space before and after each
  bool has_exec = false, has_documents = false;
};
constexpr std::array kKnown = {
    Known{"ADD", " chown chmod checksum link keep-git-dir exclude ", true, true},
    Known{"ARG", ""},
    Known{"CMD", "", true},
    Known{"COPY", " from chown chmod link parents exclude ", true, true},
    Known{"ENTRYPOINT", "", true},
    Known{"ENV", ""},
    Known{"EXPOSE", ""},
    Known{"FROM", " platform "},
    Known{"HEALTHCHECK", " interval timeout start-period start-interval retries "},
    Known{"LABEL", ""},
    Known{"MAINTAINER", ""},
    Known{"ONBUILD", ""},
    Known{"RUN", " mount network security ", true, true},
    Known{"SHELL", "", true},
    Known{"STOPSIGNAL", ""},
    Known{"USER", ""},
    Known{"VOLUME", "", true},
    Known{"WORKDIR", ""},
};

constexpr std::string_view kSpaces = " \t\r\v\f";

std::string_view trimmed_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
}
std::string_view trimmed(std::string_view text) {
  text = trimmed_left(text);
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}
std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

class Parsing {
 public:
  explicit Parsing(std::string_view text) : text_(text) {}

  Result<Dockerfile> run() {
    if (text_.size() > kMostBytes) return fail(ErrorCode::kTooLong, "the Dockerfile is longer than 1 MiB");
    if (text_.find('\0') != text_.npos) return wrong(1, "it contains a zero byte");
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    MEMBRANE_TRY(directives());
    while (has_line()) {
      const std::string_view line = trimmed(next_line());
      if (line.empty() || line.starts_with('#')) continue;
      if (file_.instructions.size() == kMostInstructions)
        return fail(ErrorCode::kTooLong, "the Dockerfile has more than 10000 instructions");
      const size_t first = line_;
      MEMBRANE_TRY(instruction(logical_line(line), first));
    }
    if (!has_from_) return wrong(std::max<size_t>(line_, 1), "there is no FROM");
    return std::move(file_);
  }

 private:
  static std::unexpected<Error> wrong(size_t line, const std::string& what, const std::string& hint = "") {
    return fail(ErrorCode::kInvalidInput, "line " + std::to_string(line) + " of the Dockerfile: " + what,
                hint);
  }

  [[nodiscard]] bool has_line() const { return at_ < text_.size(); }
  std::string_view next_line() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = text_.substr(at_, end - at_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return line;
  }

  // "# escape=`": only before anything else.
  Status directives() {
    while (has_line()) {
      const size_t before = at_, line_before = line_;
      std::string_view line = trimmed(next_line());
      const size_t equals = line.find('=');
      const std::string_view name =
          line.starts_with('#') && equals != line.npos ? trimmed(line.substr(1, equals - 1)) : "";
      const bool is_directive = name == "escape" || name == "syntax" || name == "check";
      if (!is_directive) {
        at_ = before;
        line_ = line_before;
        return {};
      }
      if (name != "escape") continue;
      const std::string_view value = trimmed(line.substr(equals + 1));
      if (value != "\\" && value != "`") return wrong(line_, "escape is \\ or `");
      file_.escape = value.front();
    }
    return {};
  }

  // A line together with its continuation lines. Comments and empty lines between them are dropped.
  std::string logical_line(std::string_view line) {
    std::string joined(line);
    while (joined.ends_with(file_.escape)) {
      joined.pop_back();
      bool has_next = false;
      while (has_line() && !has_next) {
        const std::string_view next = next_line();
        const std::string_view content = trimmed(next);
        if (content.empty() || content.starts_with('#')) continue;
        joined += next.substr(0, next.find_last_not_of(kSpaces) + 1);
        has_next = true;
      }
      if (!has_next) break;
    }
    return joined;
  }

  Status instruction(const std::string& line, size_t first) {
    const size_t end = std::min(line.find_first_of(kSpaces), line.size());
    DockerInstruction made{.name = upper(line.substr(0, end)), .line = first};
    const auto known = std::ranges::find(kKnown, made.name, &Known::name);
    if (known == kKnown.end()) return unknown(line.substr(0, end), made.name, first);
    std::string_view rest = trimmed_left(std::string_view(line).substr(end));
    MEMBRANE_TRY(read_flags(*known, rest, made));
    made.text = rest;
    if (rest.empty()) return wrong(first, made.name + " needs an argument");
    if (known->has_exec && rest.starts_with('[')) made.exec = exec_form(rest);
    if (made.name == "SHELL" && !made.exec) return wrong(first, "SHELL needs the form [\"program\", \"-c\"]");
    if (made.name == "FROM") has_from_ = true;
    if (!has_from_ && made.name != "ARG") return wrong(first, made.name + " comes before FROM");
    if (known->has_documents && !made.exec) MEMBRANE_TRY(read_documents(made));
    file_.instructions.push_back(std::move(made));
    return {};
  }

  static Status unknown(const std::string& written, const std::string& name, size_t line) {
    std::vector<std::string_view> names;
    for (const Known& each : kKnown) names.push_back(each.name);
    const std::string_view near = nearest(name.substr(0, 20), names);
    return wrong(line, '"' + written.substr(0, 50) + "\" is not an instruction",
                 near.empty() ? "" : "Is it " + std::string(near) + "?");
  }

  static Status read_flags(const Known& known, std::string_view& rest, DockerInstruction& made) {
    while (!known.flags.empty() && rest.starts_with("--")) {
      const size_t end = std::min(rest.find_first_of(kSpaces), rest.size());
      const std::string_view flag = rest.substr(2, end - 2);
      const size_t equals = std::min(flag.find('='), flag.size());
      const std::string name(flag.substr(0, equals));
      rest = trimmed_left(rest.substr(end));
      if (name.empty()) return {};
      if (known.flags.find(" " + name + " ") == known.flags.npos)
        return wrong(made.line, made.name + " has no flag --" + name.substr(0, 50));
      made.flags.emplace_back(name, flag.substr(std::min(equals + 1, flag.size())));
    }
    return {};
  }

  // Anything but a list of strings is treated as a shell command, as in Docker.
  static std::optional<std::vector<std::string>> exec_form(std::string_view text) {
    const auto json = read_json(text, "a list", {.bytes = kMostBytes, .depth = 2, .values = 10'000});
    if (!json || !json->is_array()) return std::nullopt;
    std::vector<std::string> words;
    for (const auto& each : *json) {
      if (!each.is_string()) return std::nullopt;
      words.push_back(each.get<std::string>());
    }
    return words;
  }

  Status read_documents(DockerInstruction& made) {
    std::vector<HereDocument> wanted;
    std::vector<bool> strips;
    for (const auto part : std::views::split(made.text, ' ')) {
      std::string_view word(part.begin(), part.end());
      if (!word.starts_with("<<") || word.size() < 3 || word[2] == '<') continue;
      word.remove_prefix(2);
      const bool strips_tabs = word.starts_with('-');
      if (strips_tabs) word.remove_prefix(1);
      const bool is_quoted =
          word.size() > 2 && (word.front() == '"' || word.front() == '\'') && word.back() == word.front();
      if (is_quoted) word = word.substr(1, word.size() - 2);
      const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '.' || c == '-';
      };
      if (word.empty() || !std::ranges::all_of(word, fits)) continue;
      if (wanted.size() == kMostDocuments) return wrong(made.line, "there are too many documents");
      wanted.push_back({.name = std::string(word), .text = "", .expands = !is_quoted});
      strips.push_back(strips_tabs);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      MEMBRANE_TRY(read_document(wanted[i], strips[i], made.line));
      made.documents.push_back(std::move(wanted[i]));
    }
    return {};
  }

  Status read_document(HereDocument& document, bool strips_tabs, size_t first) {
    while (has_line()) {
      std::string_view line = next_line();
      if (strips_tabs) line = line.substr(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == document.name) return {};
      document.text += line;
      document.text += '\n';
    }
    return wrong(first, "the document <<" + document.name + " is not closed",
                 "End it with a line that contains only " + document.name + ".");
  }

  std::string_view text_;
  size_t at_ = 0, line_ = 0;
  bool has_from_ = false;
  Dockerfile file_;
};

}  // namespace

Result<Dockerfile> parse_dockerfile(std::string_view text) { return Parsing(text).run(); }

}  // namespace membrane::linux
