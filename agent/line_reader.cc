#include "agent/line_reader.h"

#include <editline/readline.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/environment.h"
#include "base/private_file.h"
#include "base/shared_library.h"

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

class TerminalLineReader final : public LineReader {
 public:
  TerminalLineReader(decltype(&::readline) read_line, decltype(&::add_history) remember_line,
                     std::atomic<bool>& interrupted)
      : read_line_(read_line), remember_line_(remember_line), interrupted_(interrupted) {}

  LineEvent read(std::string_view prompt, std::string& line) override {
    interrupted_ = false;
    char* text = read_line_(std::string(prompt).c_str());
    // Whether libedit gave up or went on after the signal: what was typed is dropped.
    if (interrupted_.exchange(false)) {
      std::free(text);
      return LineEvent::kInterrupted;
    }
    if (text == nullptr) return LineEvent::kEnd;
    line = text;
    std::free(text);
    return LineEvent::kLine;
  }
  void remember(std::string_view line) override { remember_line_(std::string(line).c_str()); }

 private:
  decltype(&::readline) read_line_;
  decltype(&::add_history) remember_line_;
  std::atomic<bool>& interrupted_;
};

}  // namespace

Result<std::unique_ptr<LineReader>> terminal_line_reader(std::atomic<bool>& interrupted) {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open(kLibrary, "libedit2"));
  decltype(&::readline) read_line = nullptr;
  decltype(&::add_history) remember_line = nullptr;
  MEMBRANE_TRY(library.bind(read_line, "readline"));
  MEMBRANE_TRY(library.bind(remember_line, "add_history"));
  return std::make_unique<TerminalLineReader>(read_line, remember_line, interrupted);
}

// -- history ------------------------------------------------------------------------------

namespace {

// Several lines in one of the file.
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

std::string History::default_path() {
  if (const std::string state = environment_variable("XDG_STATE_HOME"); state.starts_with('/'))
    return state + "/membrane/history";
  if (const std::string home = environment_variable("HOME"); home.starts_with('/'))
    return home + "/.local/state/membrane/history";
  return {};
}

namespace {

// The end of the file, from a line's beginning on.
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
  // A link, a pipe or a file of others is not read, and not written to either.
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
