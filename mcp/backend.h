// What MCP's tools do, without MCP: programs, sessions, their files, the policy, the reports. In the command it is
// LocalBackend, in this process; the service gives one over its sandboxes.
//
// Names of sessions and reports are handles: a client passes them back, and they mean something to the caller's tenant
// alone. A handle that means nothing is kNotFound, of which the hint says what there is.
//
// Errors are for a model: cause and fix. What a program did is no error but a report. Where callers have scopes, each member
// has the error kDenied, which names the scope that is missing.
//
// Threads: every member may be called from many threads at once.
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
#include "host/flows.h"
#include "sandbox/report.h"

namespace membrane::mcp {

// Who asks, and what is to happen meanwhile.
struct Caller {
  std::string tenant = {};  // "" where there is one
  // What it may do, in words of the backend; a backend without such words does not read it.
  std::vector<std::string> scopes = {};
  // What was read in the client's conversation (host/flows.h), which carries text from one program to the next; null where the
  // backend has one client.
  std::shared_ptr<host::Flows> flows = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // set: the call is to end soon; borrowed, may be null
  // What the program writes, as it comes, in UTF-8, and steps of what is done before it runs ("compiling python"). On
  // the thread of the call; may be null.
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {}, on_step = {};
};

struct OfferedLanguage {
  std::string name;   // as tools take it: "python"
  std::string title;  // in sentences: "Python"
  bool has_sessions = false;
};

// What descriptions of tools say of the place where programs run.
struct Offer {
  std::vector<OfferedLanguage> languages;  // never empty
  std::string policy;                      // what is granted, in sentences, brief
  size_t most_sessions = 0;
};

struct Program {
  std::string language = {};  // of the offer; in a session the session's, and not read
  std::string code = {};
  std::string input = {};  // its standard input
  std::vector<std::string> arguments = {};
  std::optional<uint64_t> wall_ms = {};  // less time than the policy gives
  bool seal = false;  // make a receipt; a session seals all or nothing, and does not read it
};

struct Ran {
  std::string report_id;
  sandbox::Report report;
};

struct SessionInfo {
  std::string id;
  std::string language;
  std::string parent;  // the session that it was forked from; "" for none
  uint64_t turns = 0;  // that have run in it, its parent's among them
  bool is_busy = false;
};

struct PolicyText {
  std::string explanation;  // in sentences
  std::string json;         // canonical
};

struct ReportInfo {
  std::string id;
  std::string session;  // "" for a program of its own
  std::string language;
  std::string outcome;
  host::FlowState reads = {};  // what its program had read
};

// Both files of a receipt (docs/receipts.md).
struct ReceiptTexts {
  std::string text, private_text;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual Offer offer(const Caller& caller) = 0;

  // A program of its own, in a sandbox that is gone when it ends. Errors: kNotFound for a language that is not there;
  // what makes a language unavailable.
  virtual Result<Ran> run(const Caller& caller, const Program& program) = 0;

  // Errors: kExhausted at most sessions; kUnsupported for a language without.
  // With `seal` a receipt is made of each of its programs.
  virtual Result<SessionInfo> create_session(const Caller& caller, const std::string& language,
                                             bool seal) = 0;
  // Errors of these: kNotFound. A session that another call is using is kUnavailable, or waited for.
  virtual Result<Ran> exec(const Caller& caller, const std::string& session, const Program& program) = 0;
  // All of them, or none. Errors: kExhausted, too.
  virtual Result<std::vector<SessionInfo>> fork_session(const Caller& caller, const std::string& session,
                                                        size_t count) = 0;
  virtual Status close_session(const Caller& caller, const std::string& session) = 0;
  virtual Result<std::vector<SessionInfo>> sessions(const Caller& caller) = 0;

  // Files that programs of the session made or were given; paths are absolute.
  virtual Result<std::vector<sandbox::ReportFile>> list_files(const Caller& caller,
                                                              const std::string& session) = 0;
  virtual Result<std::string> read_file(const Caller& caller, const std::string& session,
                                        const std::string& path) = 0;
  virtual Status write_file(const Caller& caller, const std::string& session, const std::string& path,
                            std::string_view bytes) = 0;

  // Of a session; of "": what programs of their own and new sessions may do. Errors: kNotFound.
  virtual Result<PolicyText> policy(const Caller& caller, const std::string& session) = 0;

  // Of the latest runs and turns, the latest first.
  virtual Result<std::vector<ReportInfo>> reports(const Caller& caller) = 0;
  // As JSON (docs/report.schema.json). Errors: kNotFound, also of one that is too old to be kept.
  virtual Result<std::string> report(const Caller& caller, const std::string& id) = 0;
  // The receipt of the program that a report is of, by the report's id. Errors: kNotFound, also of one that was not sealed.
  virtual Result<ReceiptTexts> receipt(const Caller& caller, const std::string& id) = 0;
};

}  // namespace membrane::mcp
