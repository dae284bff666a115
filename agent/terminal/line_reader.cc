#include "agent/terminal/line_reader.h"

#include <editline/readline.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/private_file.h"
#include "base/shared_library.h"
#include "base/terminal.h"
#include "base/user_directory.h"

namespace membrane::agent {

LineEvent StreamLineReader::read(std::string_view prompt, std::string& line) {
  if (prompts_ != nullptr) *prompts_ << prompt << std::flush;
  if (!std::getline(in_, line)) return LineEvent::kEnd;
  if (line.ends_with('\r')) line.pop_back();
  return LineEvent::kLine;
}

// -- the terminal --------------------------------------------------------------------

namespace {

constexpr char kLibrary[] = "libedit.so.2";

// The parts of libedit that are used: functions, and variables of its readline interface.
struct Edit {
  decltype(&::readline) read_line = nullptr;
  decltype(&::add_history) remember_line = nullptr;
  rl_completion_func_t** completer = nullptr;
  int* completer_is_last = nullptr;  // otherwise it completes file names
  int* appended = nullptr;           // after a completed word
  char** line = nullptr;
  int* cursor = nullptr;

  Status bind() {
    MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open(kLibrary, "libedit2"));
    MEMBRANE_TRY(library.bind(read_line, "readline"));
    MEMBRANE_TRY(library.bind(remember_line, "add_history"));
    MEMBRANE_TRY(library.bind(completer, "rl_attempted_completion_function"));
    MEMBRANE_TRY(library.bind(completer_is_last, "rl_attempted_completion_over"));
    MEMBRANE_TRY(library.bind(appended, "rl_completion_append_character"));
    MEMBRANE_TRY(library.bind(line, "rl_line_buffer"));
    return library.bind(cursor, "rl_point");
  }
};

// libedit's callbacks have no context argument.
const Completer* completer_now = nullptr;
const Edit* edit_now = nullptr;

char* copy_of(std::string_view text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) copy[text.copy(copy, text.size())] = '\0';
  return copy;
}

bool is_utf8(locale_t locale) { return std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8"; }

// The environment's characters, by which libedit reads the terminal: in the locale that a process starts with
// it drops all that is not ASCII. Where the environment names none, they are of UTF-8.
locale_t locale_of_terminal() {
  const locale_t named = newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (named != locale_t{} && nl_langinfo_l(CODESET, named) != std::string_view("ANSI_X3.4-1968"))
    return named;
  const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
  if (utf8 == locale_t{}) return named;
  if (named != locale_t{}) freelocale(named);
  return utf8;
}

// Sets it for this thread while libedit works; the rest of the process has none.
class CharactersOfTerminal {
 public:
  explicit CharactersOfTerminal(locale_t locale)
      : before_(locale == locale_t{} ? locale_t{} : uselocale(locale)) {}
  CharactersOfTerminal(const CharactersOfTerminal&) = delete;
  CharactersOfTerminal& operator=(const CharactersOfTerminal&) = delete;
  ~CharactersOfTerminal() {
    if (before_ != locale_t{}) uselocale(before_);
  }

 private:
  locale_t before_;
};

// The bytes of so many characters of UTF-8.
size_t bytes_of(std::string_view text, size_t characters) {
  for (size_t at = 0; at < text.size(); ++at)
    if ((static_cast<uint8_t>(text[at]) & 0xc0) != 0x80 && characters-- == 0) return at;
  return text.size();
}

// The text before the cursor, which libedit counts in characters.
std::string_view text_before_cursor() {
  const std::string_view line(*edit_now->line);
  const auto cursor = static_cast<size_t>(*edit_now->cursor);
  return line.substr(0, is_utf8(uselocale(locale_t{})) ? bytes_of(line, cursor) : cursor);
}

// The common prefix of all of them.
std::string common_beginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto end = std::ranges::mismatch(common, word).in1;
    common.erase(end, common.end());
  }
  return common;
}

// The words in libedit's format: their common prefix, then each, then null; libedit frees them. `typed` is
// its own idea of the word, which may begin before ours.
char** matches_for(const char* typed, int /*start*/, int /*end*/) {
  *edit_now->completer_is_last = 1;
  *edit_now->appended = '\0';
  Completions found = (*completer_now)(text_before_cursor());
  const std::string_view word(typed);
  if (found.words.empty() || found.begun > word.size()) return nullptr;
  const std::string kept(word.substr(0, word.size() - found.begun));
  for (std::string& each : found.words) each.insert(0, kept);
  if (found.words.size() > 1) found.words.insert(found.words.begin(), common_beginning(found.words));
  auto** const matches = static_cast<char**>(std::calloc(found.words.size() + 1, sizeof(char*)));
  if (matches == nullptr) return nullptr;
  for (size_t i = 0; i < found.words.size(); ++i) matches[i] = copy_of(found.words[i]);
  return matches;
}

class TerminalLineReader final : public LineReader {
 public:
  TerminalLineReader(const Edit& edit, std::atomic<bool>& interrupted, bool colour)
      : edit_(edit), interrupted_(interrupted), colour_(colour), locale_(locale_of_terminal()) {}
  TerminalLineReader(const TerminalLineReader&) = delete;
  TerminalLineReader& operator=(const TerminalLineReader&) = delete;
  ~TerminalLineReader() override {
    if (locale_ != locale_t{}) freelocale(locale_);
    if (edit_now != &edit_) return;
    *edit_.completer = nullptr;
    edit_now = nullptr;
  }

  LineEvent read(std::string_view prompt, std::string& line) override {
    interrupted_ = false;
    const CharactersOfTerminal characters(locale_);
    char* text = edit_.read_line(shown(prompt).c_str());
    // Whether libedit gave up or continued after the signal: what was typed is dropped.
    if (interrupted_.exchange(false)) {
      std::free(text);
      return LineEvent::kInterrupted;
    }
    if (text == nullptr) return LineEvent::kEnd;
    line = text;
    std::free(text);
    return LineEvent::kLine;
  }
  bool has_more() override {
    constexpr int kPatienceMs = 20;  // a paste arrives in pieces
    pollfd terminal{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return poll(&terminal, 1, kPatienceMs) > 0 && (terminal.revents & POLLIN) != 0;
  }
  void remember(std::string_view line) override {
    const CharactersOfTerminal characters(locale_);
    edit_.remember_line(std::string(line).c_str());
  }
  void complete_by(Completer completer) override {
    completer_ = std::move(completer);
    completer_now = &completer_;
    edit_now = &edit_;
    *edit_.completer = matches_for;
  }

 private:
  // Text that does not move the cursor is between the marks; after the last of them libedit needs something
  // that does.
  [[nodiscard]] std::string shown(std::string_view prompt) const {
    const size_t end = prompt.find_last_not_of(' ') + 1;
    if (!colour_ || end == prompt.size()) return std::string(prompt);
    const auto unmoved = [](std::string_view text) { return "\1" + std::string(text) + "\2"; };
    return unmoved(terminal::kBoldCyan) + std::string(prompt.substr(0, end)) + unmoved(terminal::kPlain) +
           std::string(prompt.substr(end));
  }

  Edit edit_;
  std::atomic<bool>& interrupted_;
  bool colour_;
  locale_t locale_;  // null: none was found
  Completer completer_;
};

}  // namespace

Result<std::unique_ptr<LineReader>> terminal_line_reader(std::atomic<bool>& interrupted, bool colour) {
  Edit edit;
  MEMBRANE_TRY(edit.bind());
  return std::make_unique<TerminalLineReader>(edit, interrupted, colour);
}

// -- history ------------------------------------------------------------------------------

namespace {

// Joins several lines into one of the file.
std::string folded(std::string_view line) {
  std::string out;
  for (const char c : line) out += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}

std::string unfolded(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) out += line[i];
    else out += line[++i] == 'n' ? '\n' : line[i];
  }
  return out;
}

}  // namespace

std::string History::default_path(std::string_view name) { return user_path(UserDirectory::kState, name); }

namespace {

// The end of the file, from the start of a line.
std::string last_lines(const PrivateFile& file) {
  constexpr size_t kMostBytes = 4u << 20;
  std::string text(std::min(file.bytes(), kMostBytes), '\0');
  const ssize_t got =
      pread(file.number(), text.data(), text.size(), static_cast<off_t>(file.bytes() - text.size()));
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  if (file.bytes() > kMostBytes) text.erase(0, text.find('\n') + 1);
  return text;
}

bool write_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += folded(line) + "\n";
  auto file = NewFile::create(path);
  return file && file->write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}) &&
         file->publish();
}

}  // namespace

History History::load(std::string path) {
  History history;
  struct stat status{};
  if (path.empty() || lstat(path.c_str(), &status) != 0) {
    history.path_ = std::move(path);
    return history;
  }
  // A link, a pipe or a file of another user is neither read nor written.
  const PrivateFile file(path);
  if (!file.usable()) return history;
  std::istringstream in(last_lines(file));
  for (std::string line; std::getline(in, line);) history.lines_.push_back(unfolded(line));
  const bool is_long = history.lines_.size() > kMaxLines;
  if (is_long) history.lines_.erase(history.lines_.begin(), history.lines_.end() - kMaxLines);
  history.path_ = std::move(path);
  if (is_long) static_cast<void>(write_lines(history.path_, history.lines_));
  return history;
}

Status History::add(std::string line) {
  if (line.empty() || line.front() == ' ' || (!lines_.empty() && lines_.back() == line)) return {};
  const std::string text = folded(line) + "\n";
  lines_.push_back(std::move(line));
  if (path_.empty()) return {};
  static_cast<void>(make_directory(std::filesystem::path(path_).parent_path()));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int file = open(path_.c_str(), kFlags, S_IRUSR | S_IWUSR);
  struct stat status{};
  const bool written = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                       is_private(status) && status.st_nlink == 1 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) close(file);
  if (!written)
    return fail(ErrorCode::kUnavailable, "The history cannot be written to " + path_ + ".",
                "It is kept in memory only.");
  return {};
}

}  // namespace membrane::agent
