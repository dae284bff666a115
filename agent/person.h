// The person at the terminal, for agent.ask: a program's question is printed, the
// next line is the answer.
//
// A person cannot be hurried: the time-out is not kept here; Ctrl-C ends the wait.
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

// Asks on the terminal of the process whether a request may leave, as the trifecta rule wants it, and shows what was read.
// Null without a terminal: then nobody is there, and nothing leaves.
host::Approve approve_on_terminal();

// The question, as a person reads it. Each line is one of a terminal.
std::string egress_question_text(const host::EgressQuestion& question);

}  // namespace membrane::agent
