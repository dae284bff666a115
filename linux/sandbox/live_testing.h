// Live computers for tests, over an image of this machine's own programs.
#pragma once

#include <gtest/gtest.h>
#include <stdio.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "base/sanitized_testing.h"
#include "linux/image/image_testing.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

// Collects a command's output.
class Heard {
 public:
  CommandEvents events() {
    return {.on_output = [this](std::string_view bytes) { add(output_, bytes); },
            .on_error = [this](std::string_view bytes) { add(errors_, bytes); },
            .on_end = {}};
  }
  // Waits until the output contains that text.
  std::string wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return output_.find(text) != std::string::npos; });
    return output_;
  }
  std::string output() { return copy(output_); }
  std::string errors() { return copy(errors_); }

 private:
  void add(std::string& to, std::string_view bytes) {
    const std::scoped_lock lock(mutex_);
    to += bytes;
    news_.notify_all();
  }
  std::string copy(const std::string& of) {
    const std::scoped_lock lock(mutex_);
    return of;
  }
  std::mutex mutex_;
  std::condition_variable news_;
  std::string output_, errors_;
};

class LiveTest : public ImageTest {
 protected:
  LiveTest() {
    LayerTree tree;
    for (const char* const name : {"root", "tmp", "proc", "dev", "sys", "etc"})
      EXPECT_TRUE(tree.put(name, directory()));
    for (const char* const name : {"sh", "cat", "sleep", "stty", "head"})
      add_program(tree, std::string("/bin/") + name);
    add_program(tree, MEMBRANE_KEPT_GUEST);
    add_program(tree, MEMBRANE_KEPT_SHAPES);
    EXPECT_TRUE(tree.write(in("programs.image")));
  }

  void SetUp() override {
    if (kIsThreadSanitized)
      GTEST_SKIP() << "the thread sanitizer makes calls that a kernel process may not make";
  }

  [[nodiscard]] LiveSpec spec() const {
    LiveSpec spec;
    spec.image = in("programs.image");
    if (const char* const platform = std::getenv("MEMBRANE_LINUX_PLATFORM")) spec.platform = platform;
    return spec;
  }
  static CommandSpec shell(const std::string& script) {
    CommandSpec command;
    command.arguments = {"/bin/sh", "-c", script};
    command.environment = {"PATH=/bin"};
    return command;
  }
  // Starts it and waits for its end. Returns its output.
  static std::string run(LiveComputer& computer, const std::string& script, int status = 0) {
    Heard heard;
    const auto command = computer.start(shell(script), heard.events());
    if (!command) return command.error().to_string();
    const auto end = (*command)->wait(std::nullopt);
    EXPECT_EQ(end->status, status) << script << heard.errors();
    return heard.output();
  }

  // Puts a program into /bin, and the libraries that it loads at their own paths.
  void add_program(LayerTree& tree, const std::string& path) {
    EXPECT_TRUE(tree.put("bin" + path.substr(path.rfind('/')), file(read_file(path), 0755)));
    FILE* const listed = popen(("ldd " + path).c_str(), "r");
    ASSERT_NE(listed, nullptr);
    char word[4096];
    while (fscanf(listed, "%4095s", word) == 1)
      if (word[0] == '/') {
        EXPECT_TRUE(tree.put(word, file(read_file(word), 0755)));
      }
    pclose(listed);
  }
};

}  // namespace membrane::linux
