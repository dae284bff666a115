// The private lines of a receipt: written when a run is sealed, and read to repeat it.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/journal/journal.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "sandbox/session/template.h"

namespace membrane::sandbox {

// How a program was called. Anything else is not kept.
struct Invocation {
  std::string name;   // the program's name, as in its messages
  std::string entry;  // an export; "" for the default
  bool is_script = false;
  bool input_is_ambient = false;
  bool has_input = false;      // that arrived as the program read it
  bool input_is_live = false;  // the same, for the turn alone: given to the program as it arrived
  std::string given_input;     // that was available from the start
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;

  [[nodiscard]] std::string to_json() const;
  // Nothing for text not written by to_json().
  static std::optional<Invocation> read(std::string_view json);
};

// A host call: its line of the journal, and the data that it was decided by.
struct SealedCall {
  std::string line;          // without its newline
  host::JournalEntry entry;  // the entry of the line, without its result; the chain is not checked
  std::vector<std::string> decided_by;
  std::string final_url;  // for http.request; "" when there was no response
};
std::string json_of_call(std::string_view line, const std::vector<std::string>& decided_by);
std::optional<SealedCall> read_sealed_call(std::string_view json);

// Strings in which any byte may occur.
std::string json_of_bytes(std::string_view bytes);
std::optional<std::string> read_bytes(std::string_view json);
std::string json_of_pieces(const std::vector<std::string>& pieces);
std::optional<std::vector<std::string>> read_pieces(std::string_view json);

// An act of a session's owner between two turns, which a replay must repeat to reach the same state: words, of which the
// first names the act.
//   "run" NAME CODE           a turn that the program does not see, as one that sets its environment
//   "put" PATH BYTES          a file
//   "time" NANOSECONDS        since 1970, that what follows was done at: for a program with the real clock
//   "make_directory" PATH, "remove" PATH, "remove_all" PATH, "move" FROM TO
//   "policy" JSON CALLS       another policy, after this many host calls of the session
using OwnerAct = std::vector<std::string>;
std::string json_of_acts(const std::vector<OwnerAct>& acts);
std::optional<std::vector<OwnerAct>> read_acts(std::string_view json);

// A file that the program made.
struct MadeFile {
  std::string path;
  uint64_t size_bytes = 0;
  std::string sha256;
};

// The output of a run as items and their content, in the order of receipts. Two runs with the same output give the
// same.
std::vector<std::pair<std::string, std::string>> output_of(const Report& report,
                                                           const std::vector<MadeFile>& files);

// The policy as in receipts: canonical JSON without the values of headers.
std::string sealed_policy(const policy::Policy& policy);

// What a language's sessions start from, identified by content and not by location: the package with the SHA-256 of
// its files, the modules in the warm image, and the packages over it. Null: the engine alone. Errors: kUnavailable
// for files that cannot be read, if the package does not list their hashes.
Result<std::string> describe_template(const Template* of);

// What a Linux sandbox starts from. Receipts name "linux" as the language of its commands.
inline constexpr std::string_view kLinuxLanguage = "linux";
struct ComputerDescription {
  std::string image_sha256;  // of the image's file
  uint64_t image_bytes = 0;
  std::string platform;   // that it ran on
  std::string directory;  // the command's working directory
  // For a deterministic sandbox, which can be replayed: the virtual clock's start in ms since 1970, and the seed.
  std::optional<std::pair<int64_t, uint64_t>> deterministic = {};
};
std::string describe_computer(const ComputerDescription& computer);
// Nothing for text not written by describe_computer().
std::optional<ComputerDescription> read_computer(std::string_view json);

}  // namespace membrane::sandbox
