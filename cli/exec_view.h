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

// Shows the events of an exec as they come, and keeps its report.
class ExecView {
 public:
  // `is_quiet`: it only keeps the report.
  ExecView(std::string sandbox, bool is_quiet) : sandbox_(std::move(sandbox)), is_quiet_(is_quiet) {}

  void take(const agent::SseEvent& event);
  // The last value, and why the program failed.
  void show_end();
  // As that of membrane run.
  [[nodiscard]] int exit_code() const;

  Json report;
  std::string last_id;
  uint64_t count = 0;

 private:
  void show_approval(const Json& approval) const;
  static void show(std::FILE* to, const std::string& text, bool& in_line);

  const std::string sandbox_;
  const bool is_quiet_;
  bool in_line_ = false, error_in_line_ = false;
};

// The events of an exec, after the one with this id; "": all.
RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after);

// Reads an exec's events to the report; a stream that is cut is read on from where it was. `exec` may be "" where the answer
// to the request names it.
Status follow(Remote& remote, const std::string& sandbox, RemoteRequest request, std::string exec,
              ExecView& view);

}  // namespace membrane::cli
