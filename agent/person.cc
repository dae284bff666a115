#include "agent/person.h"

#include "base/terminal.h"

namespace membrane::agent {

host::HostResult<std::string> ConsolePerson::ask(std::string_view question, uint64_t) {
  out_ << "\nThe program asks: " << printable(question) << '\n' << std::flush;
  std::string line;
  switch (in_.read("answer> ", line)) {
    case LineEvent::kLine: return line;
    case LineEvent::kInterrupted:
      return host::refuse(host::Errno::kCancelled, "The person did not want to answer.");
    case LineEvent::kEnd: break;
  }
  return host::refuse(host::Errno::kUnsupported, "Nobody is there to answer.");
}

}  // namespace membrane::agent
