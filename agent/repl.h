// `membrane agent` without a task: one task after another in one conversation.
//
// A line is a task; a trailing backslash or an open code fence continues it on the next line. Some lines that
// begin with a slash or a colon are commands (/help lists them). Ctrl-C ends the step in progress, Ctrl-D the
// session.
//
// Threads: one; a signal handler may set the cancel flag.
#pragma once

#include <atomic>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "agent/line_reader.h"
#include "agent/loop.h"
#include "agent/meta_commands.h"
#include "agent/transcript.h"

namespace membrane::agent {

struct ReplOptions {
  std::string policy_explanation;  // for /policy
  std::string policy_json;         // for the transcript
  std::string model;
  std::vector<Language> languages = {wat()};  // for the transcript
  std::vector<std::string> given = {};        // the same (TranscriptWriter())
  std::string history_file;                   // "": none
  std::string banner;                         // printed first; may be empty
};

class Repl {
 public:
  // All are borrowed. The loop gets an observer, so the Repl must outlive its last run.
  Repl(Loop& loop, LineReader& in, std::ostream& out, std::atomic<bool>& cancel, ReplOptions options);

  // Until /quit or the end of the input.
  void run();

 private:
  LineEvent read_entry(std::string& entry);
  bool command(const MetaLine& line);  // false to leave
  void help(char prefix);
  void budget();
  void save(const std::string& path);
  void history();

  Loop& loop_;
  LineReader& in_;
  std::ostream& out_;
  std::atomic<bool>& cancel_;
  ReplOptions options_;
  History history_;
  std::string transcript_;
  TranscriptWriter writer_;
};

}  // namespace membrane::agent
