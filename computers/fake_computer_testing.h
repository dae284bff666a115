// A computer for tests that runs nothing: its files are a map, and its commands are a few words.
//
//   echo WORDS   cat   pwd   env NAME   exit N   sleep (until it is killed)   flood (prints 1 MiB, then
//   sleeps)   bomb, spin (reach the limit of tasks, of CPU time)   size (of its terminal)
//
// They stand alone, or after the -c of a shell.
//
// Threads: any.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

class FakeCommand final : public linux::Command {
 public:
  FakeCommand(linux::CommandSpec spec, linux::CommandEvents events, int id)
      : spec_(std::move(spec)), events_(std::move(events)), id_(id), thread_([this] { run(); }) {}
  ~FakeCommand() override {
    signal(SIGKILL);
    thread_.join();
  }
  [[nodiscard]] int process_id() const override { return id_; }
  Status write_input(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    if (end_) return fail(ErrorCode::kUnavailable, "nobody reads");
    input_ += bytes;
    changed_.notify_all();
    return {};
  }
  void end_input() override {
    const std::lock_guard lock(mutex_);
    has_all_input_ = true;
    changed_.notify_all();
  }
  void resize(linux::TerminalSize size) override {
    const std::lock_guard lock(mutex_);
    spec_.terminal = size;
  }
  void signal(int number) override {
    const std::lock_guard lock(mutex_);
    signal_ = number;
    changed_.notify_all();
  }
  std::optional<linux::CommandEnd> wait(std::optional<std::chrono::steady_clock::time_point> until) override {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return end_.has_value(); };
    if (until) changed_.wait_until(lock, *until, is_over);
    else changed_.wait(lock, is_over);
    return end_;
  }

 private:
  void print(std::string_view text) const {
    if (events_.on_output) events_.on_output(text);
  }
  void run() {
    const auto flag = std::ranges::find(spec_.arguments, "-c");
    const std::string line = spec_.arguments.end() - flag > 1 ? *(flag + 1) : joined(spec_.arguments);
    const std::string word = line.substr(0, line.find(' '));
    const std::string rest = word.size() < line.size() ? line.substr(word.size() + 1) : "";
    linux::CommandEnd end;
    if (word == "echo") print(rest + "\n");
    else if (word == "pwd") print(spec_.directory + "\n");
    else if (word == "env") print_variable(rest);
    else if (word == "exit") end.status = std::stoi(rest);
    else if (word == "cat") end = copy();
    else if (word == "size") print_size();
    else if (word == "bomb") end.reached.tasks = 3;
    else if (word == "spin") end = {.was_signalled = true, .status = SIGKILL, .reached = {.cpu = 1}};
    else if (word == "flood") print(std::string(1u << 20, 'x'));
    if (word == "sleep" || word == "flood") end = sleep();
    {
      const std::lock_guard lock(mutex_);
      end_ = end;
      changed_.notify_all();
    }
    if (events_.on_end) events_.on_end(end);
  }
  void print_variable(const std::string& name) const {
    for (const std::string& each : spec_.environment)
      if (each.starts_with(name + "=")) print(each.substr(name.size() + 1) + "\n");
  }
  void print_size() {
    std::unique_lock lock(mutex_);
    const std::string line = spec_.terminal ? std::to_string(spec_.terminal->columns) + "\n" : "none\n";
    lock.unlock();  // the listener may hold a lock that signal() is called under
    print(line);
  }
  linux::CommandEnd killed() const { return {.was_signalled = true, .status = signal_}; }
  linux::CommandEnd sleep() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return signal_ != 0; });
    return killed();
  }
  linux::CommandEnd copy() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return signal_ != 0 || has_all_input_ || !input_.empty(); });
      if (signal_ != 0) return killed();
      const std::string piece = std::exchange(input_, {});
      const bool is_all = has_all_input_;
      lock.unlock();
      print(piece);
      if (is_all) return {};
      lock.lock();
    }
  }
  static std::string joined(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
    return line;
  }

  linux::CommandSpec spec_;
  const linux::CommandEvents events_;
  const int id_;
  std::mutex mutex_;  // guards what follows, and the terminal's size
  std::condition_variable changed_;
  std::string input_;
  bool has_all_input_ = false;
  int signal_ = 0;
  std::optional<linux::CommandEnd> end_;
  std::thread thread_;  // the last
};

class FakeComputer final : public linux::LiveComputer {
 public:
  using Files = std::map<std::string, std::string>;  // "/a/" is a directory
  explicit FakeComputer(Files files) : files_(std::move(files)) { files_.emplace("/", ""); }

  void end() override {}
  [[nodiscard]] const std::string& platform() const override { return platform_; }
  [[nodiscard]] const std::vector<std::string>& missing_walls() const override { return walls_; }
  Result<std::unique_ptr<linux::Command>> start(const linux::CommandSpec& spec,
                                                linux::CommandEvents events) override {
    if (spec.arguments.front() == "/bin/missing")
      return fail(ErrorCode::kNotFound, "there is no program /bin/missing");
    return std::make_unique<FakeCommand>(spec, std::move(events), ++processes_);
  }
  Result<std::unique_ptr<linux::Command>> attach(int, linux::CommandEvents) override { return no("attach"); }

  Result<linux::FileFacts> stat(const std::string& path, bool) override {
    const std::lock_guard lock(mutex_);
    for (const bool is_directory : {false, true})
      if (const auto found = files_.find(is_directory ? below(path) : path); found != files_.end())
        return facts(path, is_directory, found->second.size());
    return missing(path);
  }
  Result<std::vector<linux::FileFacts>> list(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (!files_.contains(below(path))) return missing(path);
    std::vector<linux::FileFacts> all;
    for (const auto& [name, bytes] : files_) {
      if (!name.starts_with(below(path)) || name == below(path)) continue;
      const std::string rest = name.substr(below(path).size());
      if (rest.find('/') < rest.size() - 1) continue;
      const bool is_directory = rest.ends_with('/');
      all.push_back(facts(is_directory ? name.substr(0, name.size() - 1) : name, is_directory, bytes.size()));
    }
    return all;
  }
  Result<std::string> read_file(const std::string& path, uint64_t offset, uint64_t most_bytes) override {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(path);
    if (found == files_.end()) return missing(path);
    return found->second.substr(std::min<size_t>(offset, found->second.size()), most_bytes);
  }
  Status write_file(const std::string& path, std::string_view bytes, uint32_t) override {
    const std::lock_guard lock(mutex_);
    for (size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1))
      files_.emplace(path.substr(0, at + 1), "");
    files_[path] = bytes;
    return {};
  }
  Status write_pieces(const std::string& path, const Pieces& next, uint32_t mode) override {
    std::string all;
    while (true) {
      MEMBRANE_ASSIGN(const std::string bytes, next());
      if (bytes.empty()) return write_file(path, all, mode);
      all += bytes;
    }
  }
  Status make_directory(const std::string& path, uint32_t) override {
    const std::lock_guard lock(mutex_);
    files_.emplace(below(path), "");
    return {};
  }
  Status make_link(const std::string&, const std::string&) override { return no("links"); }
  Status set_owner(const std::string&, uint32_t, uint32_t) override { return {}; }
  Status set_mode(const std::string&, uint32_t) override { return {}; }
  Status move(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(from);
    if (found == files_.end()) return missing(from);
    files_[to] = std::string(found->second);
    files_.erase(from);
    return {};
  }
  Status remove(const std::string& path, bool with_contents) override {
    const std::lock_guard lock(mutex_);
    const auto count =
        std::ranges::count_if(files_, [&](const auto& each) { return each.first.starts_with(below(path)); });
    if (count > 1 && !with_contents) return fail(ErrorCode::kInvalidInput, path + " is not empty");
    if (files_.erase(path) + static_cast<size_t>(count) == 0) return missing(path);
    std::erase_if(files_, [&](const auto& each) { return each.first.starts_with(below(path)); });
    return {};
  }
  Result<std::vector<linux::ChangedPath>> changes() override {
    const std::lock_guard lock(mutex_);
    std::vector<linux::ChangedPath> all;
    for (const auto& [name, bytes] : files_)
      if (!name.ends_with('/')) all.push_back({name, linux::Change::kAdded, 0100644});
    return all;
  }
  Status save_image(int, const std::string&) override { return no("images"); }
  Status clamp_times(int64_t) override { return {}; }

  Status freeze() override { return {}; }
  Status thaw() override { return {}; }
  Status keep(int file, Keep) override {
    const std::lock_guard lock(mutex_);
    std::string bytes;
    for (const auto& [name, content] : files_) bytes += name + '\0' + content + '\0';
    const bool is_whole = pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    return is_whole ? Status() : no("room");
  }
  static Files kept(int file) {
    Files files;
    std::string bytes(1u << 20, '\0');
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(pread(file, bytes.data(), bytes.size(), 0), 0)));
    for (size_t at = 0; at < bytes.size();) {
      const size_t middle = bytes.find('\0', at), end = bytes.find('\0', middle + 1);
      files.emplace(bytes.substr(at, middle - at), bytes.substr(middle + 1, end - middle - 1));
      at = end + 1;
    }
    return files;
  }
  Result<linux::ComputerUsage> usage() override {
    return linux::ComputerUsage{
        .memory_bytes = 1, .memory_peak_bytes = 4096, .disk_bytes = 0, .tasks = 0, .absent_calls = {}};
  }

 private:
  static std::string below(const std::string& path) { return path.ends_with('/') ? path : path + "/"; }
  static std::unexpected<Error> missing(const std::string& path) {
    return fail(ErrorCode::kNotFound, path + ": no such file or directory");
  }
  static std::unexpected<Error> no(const char* what) {
    return fail(ErrorCode::kUnsupported, std::string("a fake computer has no ") + what);
  }
  static linux::FileFacts facts(const std::string& path, bool is_directory, uint64_t size) {
    linux::FileFacts facts;
    facts.path = path;
    facts.mode = is_directory ? 0040755 : 0100644;
    facts.size = size;
    return facts;
  }

  std::string platform_ = "test";
  std::vector<std::string> walls_;
  std::atomic<int> processes_ = 0;
  std::mutex mutex_;
  Files files_;
};

class FakeSource final : public linux::ComputerSource {
 public:
  [[nodiscard]] pid_t process() const override { return 0; }
  void make_ready() override {}
  Result<std::unique_ptr<linux::LiveComputer>> create(const linux::LiveSpec& spec) override {
    if (spec.image.empty() && spec.kept < 0) return fail(ErrorCode::kNotFound, "there is no image");
    return std::make_unique<FakeComputer>(
        spec.kept >= 0 ? FakeComputer::kept(spec.kept)
                       : FakeComputer::Files{{"/root/", ""}, {"/bin/", ""}, {"/bin/bash", "x"}});
  }
};

}  // namespace membrane::computers
