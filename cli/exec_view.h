// Shows the events of an exec of a service as they come, and keeps its report.
//
// Include from .cc files only: the JSON library is slow to compile. Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/model/sse.h"
#include "base/result.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {

// The requested form of output: bytes, only in events. The report does not repeat it, since that could exceed
// what JSON is read of.
inline constexpr const char* kOutputForm = "base64";
// The output in an event that was requested in this form.
std::string output_in(const Json& event);

// Shows the events of an exec as they come, and keeps its report.
class ExecView {
 public:
  // `is_quiet`: it shows nothing, for whole_report().
  ExecView(std::string sandbox, bool is_quiet) : sandbox_(std::move(sandbox)), is_quiet_(is_quiet) {}

  void take(const agent::SseEvent& event);
  // Shows the last value, and why the program failed.
  void show_end();
  // The same as membrane run's.
  [[nodiscard]] int exit_code() const;

  // For a quiet view: includes the output again.
  [[nodiscard]] Json whole_report() const;

  Json report;  // without output
  std::string last_id;
  uint64_t count = 0;

 private:
  void show_approval(const Json& approval) const;
  void take_output(std::FILE* to, const std::string& bytes, std::string& kept, bool& in_line);

  const std::string sandbox_;
  const bool is_quiet_;
  bool in_line_ = false, error_in_line_ = false;
  std::string printed_, error_printed_;  // of a quiet view
};

// The events of an exec, after the one with this id; "": all.
RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after);

// Reads an exec's events up to the report, and resumes a stream that was cut. `exec` may be "" if the answer
// to the request names it.
Status follow(Remote& remote, const std::string& sandbox, RemoteRequest request, std::string exec,
              ExecView& view);

}  // namespace membrane::cli
