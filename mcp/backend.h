// The operations of MCP's tools, without MCP: programs, sessions, their files, the policy, the reports. The
// command uses LocalBackend, in this process; the service has one over its sandboxes.
//
// Names of sessions and reports are handles: a client passes them back, and they are valid only for the
// caller's tenant. An unknown handle is kNotFound, with a hint that lists the existing ones.
//
// Errors are for a model: cause and fix. A program's failure is not an error but part of its report. If
// callers have scopes, each member can fail with kDenied, which names the missing scope.
//
// Threads: many threads may call every member at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/gate/flows.h"
#include "sandbox/report/report.h"

namespace membrane::mcp {

// The caller, and its callbacks during a call.
struct Caller {
  std::string tenant = {};  // "" if there is only one
  std::string client = {};  // one of the tenant's, as the transport identified it; "" if there is only one
  // The caller's permissions, in the backend's terms; a backend without scopes ignores it.
  std::vector<std::string> scopes = {};
  // What was read in the client's conversation (host/gate/flows.h), which carries text from one program to the
  // next; null if the backend has one client.
  std::shared_ptr<host::Flows> flows = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // set: the call must end soon; borrowed, may be null
  // Receive the program's output as it comes, in UTF-8, and steps of the preparation ("compiling python"). On
  // the thread of the call; may be null.
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {}, on_step = {};
};

struct OfferedLanguage {
  std::string name;   // as used in tools: "python"
  std::string title;  // in sentences: "Python"
  bool has_sessions = false;
};

// The parts of tools' descriptions that concern the place where programs run.
struct Offer {
  std::vector<OfferedLanguage> languages;  // never empty
  std::string policy;                      // brief sentences about what is granted
  size_t most_sessions = 0;
};

struct Program {
  std::string language = {};  // from the offer; ignored in a session
  std::string code = {};
  std::string input = {};  // its standard input
  std::vector<std::string> arguments = {};
  std::optional<uint64_t> wall_ms = {};  // less time than the policy allows
  bool seal = false;                     // make a receipt; ignored in a session, which seals all or nothing
};

struct Ran {
  std::string report_id;
  sandbox::Report report;
};

struct SessionInfo {
  std::string id;
  std::string language;
  std::string parent;  // the parent of a fork; "" for none
  uint64_t turns = 0;  // run in it, including its parent's
  bool is_busy = false;
};

struct PolicyText {
  std::string explanation;  // in sentences
  std::string json;         // canonical
};

struct ReportInfo {
  std::string id;
  std::string session;  // "" for a single program
  std::string language;
  std::string outcome;
  host::FlowState reads = {};  // what its program has read
};

// Both files of a receipt (docs/receipts.md).
struct ReceiptTexts {
  std::string text, private_text;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual Offer offer(const Caller& caller) = 0;

  // Runs a single program, in a sandbox that ends with it. Errors: kNotFound for a missing language; anything
  // that makes a language unavailable.
  virtual Result<Ran> run(const Caller& caller, const Program& program) = 0;

  // Errors: kExhausted at the maximum number of sessions; kUnsupported for a language without sessions. With
  // `seal`, a receipt is made of each of its programs.
  virtual Result<SessionInfo> create_session(const Caller& caller, const std::string& language,
                                             bool seal) = 0;
  // Errors of these: kNotFound. A session that another call is using is kUnavailable, or waited for.
  virtual Result<Ran> exec(const Caller& caller, const std::string& session, const Program& program) = 0;
  // All or none. Errors: also kExhausted.
  virtual Result<std::vector<SessionInfo>> fork_session(const Caller& caller, const std::string& session,
                                                        size_t count) = 0;
  virtual Status close_session(const Caller& caller, const std::string& session) = 0;
  virtual Result<std::vector<SessionInfo>> sessions(const Caller& caller) = 0;

  // Files that programs of the session created or were given; paths are absolute.
  virtual Result<std::vector<sandbox::ReportFile>> list_files(const Caller& caller,
                                                              const std::string& session) = 0;
  virtual Result<std::string> read_file(const Caller& caller, const std::string& session,
                                        const std::string& path) = 0;
  virtual Status write_file(const Caller& caller, const std::string& session, const std::string& path,
                            std::string_view bytes) = 0;

  // A session's policy; for "", the policy of single programs and new sessions. Errors: kNotFound.
  virtual Result<PolicyText> policy(const Caller& caller, const std::string& session) = 0;

  // The latest runs and turns, latest first.
  virtual Result<std::vector<ReportInfo>> reports(const Caller& caller) = 0;
  // JSON (docs/report.schema.json). Errors: kNotFound, also for one that is no longer kept.
  virtual Result<std::string> report(const Caller& caller, const std::string& id) = 0;
  // The receipt of a report's program, by the report's id. Errors: kNotFound, also if it was not sealed.
  virtual Result<ReceiptTexts> receipt(const Caller& caller, const std::string& id) = 0;
};

}  // namespace membrane::mcp
