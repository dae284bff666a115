// Shared by the commands that read receipts.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "sandbox/receipt_files.h"

namespace membrane::cli {

// --keys FILE, which may be repeated.
class KeysOption {
 public:
  void add_to(CLI::App& command);
  // The user's own keys and the published keys of the files. Errors: those of KeyRing::parse() and
  // load_own_keys(), except kNotFound if there are files.
  [[nodiscard]] Result<sandbox::KeyRing> keys() const;

 private:
  std::vector<std::string> files_;
};

// The limits that a policy gets, for a run of the receipt, where it names none.
policy::Limits limits_for(const sandbox::Receipt& receipt);

// Errors: kUnsupported for a policy under which the receipt's program could not run, whatever it called.
Status check_holds(const policy::Policy& policy, const sandbox::Receipt& receipt);

nlohmann::ordered_json json_of(const sandbox::RefusedCall& call);
// In one line: "call 3, http.request GET https://example.org/: No grant allows …".
std::string text_of(const sandbox::RefusedCall& call);
// The first call that was not already denied; null when there is none.
const sandbox::RefusedCall* find_stop(const std::vector<sandbox::RefusedCall>& refused);

}  // namespace membrane::cli
