// The person at the terminal, for agent.ask: prints a program's question and reads the next line as the
// answer.
//
// A person cannot be hurried: the timeout is not enforced here; Ctrl-C ends the wait.
// Threads: one at a time, the REPL's.
// Threads: one at a time, that of the REPL.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "agent/line_reader.h"
#include "host/broker.h"
#include "host/flows.h"

namespace membrane::agent {

class ConsolePerson final : public host::Person {
 public:
  // Borrowed.
  ConsolePerson(LineReader& in, std::ostream& out) : in_(in), out_(out) {}
  // kUnsupported when the input has ended, kCancelled on Ctrl-C.
  host::HostResult<std::string> ask(std::string_view question, uint64_t timeout_ms) override;

 private:
  LineReader& in_;
  std::ostream& out_;
};

// Asks on the terminal of the process whether a request may leave, as the trifecta rule demands, and shows
// what was read. Null without a terminal: then nobody can approve, and nothing leaves.
host::Approve approve_on_terminal();

// The question for a person. Each line fits a terminal.
std::string egress_question_text(const host::EgressQuestion& question);

}  // namespace membrane::agent
