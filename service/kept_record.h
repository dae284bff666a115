// The database's JSON records of paused or parked sandboxes and of snapshots: everything that a later service
// needs besides the images.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/sandboxes.h"

namespace membrane::service {

std::string record_of(const KeptGuest& guest);
// Errors: kInvalidInput.
Result<KeptGuest> read_guest_record(std::string_view text);

// Without the parts that have columns of their own: SandboxInfo and the tenant.
std::string record_of(const KeptSandbox& sandbox);
// Fills in what record_of() wrote. Errors: kInvalidInput.
Status read_sandbox_record(std::string_view text, KeptSandbox& sandbox);

[[nodiscard]] std::vector<std::string> hashes_of(const KeptGuest& guest);

}  // namespace membrane::service
