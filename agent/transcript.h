// A task as JSON lines: written while it runs, and read to repeat it without a model.
//
// One object a line, each with a "type" (docs/agent.md has every field):
//   header       format, version, model, policy, languages, given where there is any
//   task         text
//   reply        what the model wrote: content, tool_calls, finish, usage; and a summary of the request
//   program      language, source, name, entry, arguments, input
//   report       the run's report, as in sandbox::render_json
//   observation  what the model was shown
//   end          stop, answer, totals
//
// A replay takes the model's replies from the recording; the programs are really compiled, metered and run
// again, and differences from the recording are reported.
//
// Plain answers, as a person writes them for a demo, are also one object a line:
//   {"content": "…"}  or  {"content": "…", "tool_calls": [{"name": "submit", "arguments": {…}}]}
//
// Threads: each object is used by one thread at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/chat.h"
#include "agent/loop.h"

namespace membrane::agent {

// Version 1 had no languages: its programs are WAT. It is read as well.
inline constexpr int kTranscriptVersion = 2;

// One object, with the fields that every JSON about a task has.
std::string totals_json(const Totals& totals);

// Writes a transcript as the loop proceeds. `write` gets whole lines, including their ends.
class TranscriptWriter final : public Observer {
 public:
  using Write = std::function<void(std::string_view line)>;
  // `policy_json`: policy::to_json(). `languages`: those that were chosen. `given`: options that a replay
  // needs again, such as "--copy ./repo".
  TranscriptWriter(Write write, std::string_view model, std::string_view policy_json,
                   std::span<const Language> languages, std::span<const std::string> given = {});

  void on_task(std::string_view task) override;
  void on_reply(const ChatQuery& query, const Completion& completion) override;
  void on_program(const Program& program) override;
  void on_report(const Program& program, const sandbox::Report& report) override;
  void on_observation(std::string_view text) override;
  void on_end(const TaskResult& result) override;

 private:
  Write write_;
};

struct RecordedRun {
  Program program;
  std::string report;  // JSON; empty when the recording ends in the program
};

struct Recording {
  static constexpr size_t kMaxBytes = 256u << 20;

  bool plain = false;                  // answers only: no tasks, no runs to compare with
  std::string model;                   // "" when plain
  std::string policy_json;             // "" when plain
  std::vector<std::string> languages;  // by name; none when plain
  std::vector<std::string> given;      // options that it was made with
  std::vector<std::string> tasks;
  std::vector<Completion> replies;
  std::vector<RecordedRun> runs;
  std::vector<std::string> answers;  // of tasks that have one

  // kInvalidInput: "demo.jsonl:3: …", for anything that is in neither of the two forms.
  static Result<Recording> parse(std::string_view text, std::string_view name);
  static Result<Recording> load(const std::string& path);
};

// Answers with the recorded replies, one after another. kExhausted after the last: the loop behaved
// differently than in the recording.
class RecordedModel final : public ChatModel {
 public:
  explicit RecordedModel(Recording recording) : recording_(std::move(recording)) {}
  Result<Completion> complete(const ChatQuery& query, const ChatControl& control) override;
  [[nodiscard]] std::string name() const override;

 private:
  Recording recording_;
  size_t next_ = 0;
};

// Compares a replay's programs and reports with the recorded ones. Times and latencies may differ; fuel,
// outcome, output and host calls may not.
class ReplayCheck final : public Observer {
 public:
  // Borrowed.
  explicit ReplayCheck(const Recording& recording) : recording_(recording) {}
  void on_program(const Program& program) override;
  void on_report(const Program& program, const sandbox::Report& report) override;

  // "program 2: fuel_used was 812, is 840"; empty: no differences so far.
  [[nodiscard]] const std::vector<std::string>& divergences() const { return divergences_; }

 private:
  void diverged(const std::string& what);

  const Recording& recording_;
  size_t next_ = 0;  // the current or next run
  std::vector<std::string> divergences_;
};

}  // namespace membrane::agent
