// What stands in the private lines of a receipt: written when a run is sealed, and read to run it again.
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
#include "host/journal.h"
#include "policy/policy.h"
#include "sandbox/report.h"
#include "sandbox/template.h"

namespace membrane::sandbox {

// How a program was called. What has no place here is not kept.
struct Invocation {
  std::string name;   // of the program, as its messages have it
  std::string entry;  // an export; "" for the usual
  bool is_script = false;
  bool input_is_ambient = false;
  bool has_input = false;      // that came as the program read it
  bool input_is_live = false;  // the same, of the turn alone: given to the program as it came
  std::string given_input;     // that was there from the start
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;

  [[nodiscard]] std::string to_json() const;
  // Nothing for what to_json() did not write.
  static std::optional<Invocation> read(std::string_view json);
};

// A host call: its line of the journal, and what it was decided by.
struct SealedCall {
  std::string line;          // without its end
  host::JournalEntry entry;  // that of the line, without its result; its chain is not checked
  std::vector<std::string> decided_by;
  std::string final_url;  // of http.request; "" when there was no answer
};
std::string json_of_call(std::string_view line, const std::vector<std::string>& decided_by);
std::optional<SealedCall> read_sealed_call(std::string_view json);

// Texts in which any byte may stand.
std::string json_of_bytes(std::string_view bytes);
std::optional<std::string> read_bytes(std::string_view json);
std::string json_of_pieces(const std::vector<std::string>& pieces);
std::optional<std::vector<std::string>> read_pieces(std::string_view json);

// What the owner of a session did to it between two turns, without which a replay would not stand where the session stood:
// words, of which the first says what it was.
//   "run" NAME CODE           a turn that the program does not see, as one that sets its environment
//   "put" PATH BYTES          a file
//   "time" NANOSECONDS        since 1970, that what follows was done at: for a program with the real clock
//   "make_directory" PATH, "remove" PATH, "remove_all" PATH, "move" FROM TO
//   "policy" JSON CALLS       another policy, after so many host calls of the session
using OwnerAct = std::vector<std::string>;
std::string json_of_acts(const std::vector<OwnerAct>& acts);
std::optional<std::vector<OwnerAct>> read_acts(std::string_view json);

// A file that the program made.
struct MadeFile {
  std::string path;
  uint64_t size_bytes = 0;
  std::string sha256;
};

// The output of a run as items and their content, in the order in which receipts have them. Two runs with the same output have
// the same.
std::vector<std::pair<std::string, std::string>> output_of(const Report& report,
                                                           const std::vector<MadeFile>& files);

// The policy as receipts have it: canonical JSON, in which the values of headers are left out.
std::string sealed_policy(const policy::Policy& policy);

// What a language's sessions begin from, by what it is made of and not by where it is: the package with the SHA-256 of its
// files, the modules that the warm image has, and the packages over it. Null: the engine alone. Errors: kUnavailable for files
// that cannot be read, where the package does not name their hashes.
Result<std::string> describe_template(const Template* of);

// What a Linux sandbox begins from. Receipts name "linux" as the language of what runs in one.
inline constexpr std::string_view kLinuxLanguage = "linux";
struct ComputerDescription {
  std::string image_sha256;  // of the image's file
  uint64_t image_bytes = 0;
  std::string platform;   // that it ran on
  std::string directory;  // where the command began
  // Of a deterministic one, which can be replayed: the virtual clock's start in ms since 1970, and the seed.
  std::optional<std::pair<int64_t, uint64_t>> deterministic = {};
};
std::string describe_computer(const ComputerDescription& computer);
// Nothing for what describe_computer() did not write.
std::optional<ComputerDescription> read_computer(std::string_view json);

}  // namespace membrane::sandbox
