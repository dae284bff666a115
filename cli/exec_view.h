// What comes of an exec of a service: its events, shown as they come, and its report.
//
// Include from .cc files only: the JSON library is slow to compile. Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/sse.h"
#include "base/result.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {

inline constexpr int kExitInterrupted = 130;  // by Ctrl-C

// How output is asked for: as bytes, in events alone. The report does not say it again, which may be more than JSON is read of.
inline constexpr const char* kOutputForm = "base64";
// Of an event with output that was asked for so.
std::string output_in(const Json& event);

// Shows the events of an exec as they come, and keeps its report.
class ExecView {
 public:
  // `is_quiet`: it shows nothing, for whole_report().
  ExecView(std::string sandbox, bool is_quiet) : sandbox_(std::move(sandbox)), is_quiet_(is_quiet) {}

  void take(const agent::SseEvent& event);
  // The last value, and why the program failed.
  void show_end();
  // As that of membrane run.
  [[nodiscard]] int exit_code() const;

  // Of a quiet one: what was printed is in it again.
  [[nodiscard]] Json whole_report() const;

  Json report;  // without what was printed
  std::string last_id;
  uint64_t count = 0;

 private:
  void show_approval(const Json& approval) const;
  void take_output(std::FILE* to, const std::string& bytes, std::string& kept, bool& in_line);

  const std::string sandbox_;
  const bool is_quiet_;
  bool in_line_ = false, error_in_line_ = false;
  std::string printed_, error_printed_;  // of a quiet one
};

// The events of an exec, after the one with this id; "": all.
RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after);

// Reads an exec's events to the report; a stream that is cut is read on from where it was. `exec` may be "" where the answer
// to the request names it.
Status follow(Remote& remote, const std::string& sandbox, RemoteRequest request, std::string exec,
              ExecView& view);

}  // namespace membrane::cli
