// What a person sees while a task runs: the model's text as it comes, each program, its result, the answer
// and the table.
//
// Models and programs may write anything: all of it passes through printable() (base/terminal.h), even when
// `out` is not a terminal.
//
// Threads: that of the loop that it observes.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "agent/loop.h"

namespace membrane::agent {

struct ConsoleOptions {
  bool colour = false;
  bool thoughts = false;          // show the reasoning of reasoning models
  size_t observation_lines = 20;  // of each observation, shown
};

class Console final : public Observer {
 public:
  // `out` is borrowed.
  explicit Console(std::ostream& out, ConsoleOptions options = {}) : out_(out), options_(options) {}

  void on_step(uint32_t number) override;
  void on_text(std::string_view text) override;
  void on_thought(std::string_view text) override;
  void on_retry(std::string_view why, uint64_t wait_ms) override;
  void on_reply(const ChatQuery& query, const Completion& completion) override;
  void on_program(const Program& program) override;
  void on_observation(std::string_view text) override;
  void on_note(std::string_view text) override;
  void on_end(const TaskResult& result) override;

 private:
  void line_end();
  void title(std::string_view text);
  void dim(std::string_view text);

  std::ostream& out_;
  ConsoleOptions options_;
  bool in_line_ = false;  // the cursor is not at the start of a line
  std::string reply_;     // the words of the reply so far
};

}  // namespace membrane::agent
