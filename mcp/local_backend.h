// The command's backend: programs and sessions in this process, under one policy, for one client.
//
// Reports of the latest runs are kept, up to a number and a size; sessions until they are closed.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/broker.h"
#include "mcp/backend.h"
#include "policy/policy.h"
#include "sandbox/receipt_keys.h"
#include "sandbox/session.h"
#include "sandbox/template.h"
#include "worker/guests.h"

namespace membrane::mcp {

inline constexpr std::string_view kComputer =
    "linux";  // as a package: the code is a shell script for a Linux sandbox

struct LocalLanguage {
  OfferedLanguage offered;
  std::string package;      // that runs it; "" for WAT, which the engine runs
  std::string file_ending;  // distinguishes programs of a package: ".ts"; else ""
};

struct LocalOptions {
  policy::Policy policy;           // for programs in a language
  policy::Limits limits_of_wat{};  // for programs in WAT
  engine::Tier tier = engine::Tier::kAuto;
  std::vector<LocalLanguage> languages;  // not empty
  // The language of a package, for a program with this text or, if that is "", for a session. Called on the
  // thread of a call; may take seconds the first time. `on_step` may be null.
  std::function<Result<std::shared_ptr<const sandbox::Template>>(const std::string& package,
                                                                 std::string_view program)>
      open;
  // A session in a Linux sandbox, for a language whose package is kComputer; null if there are none.
  std::function<Result<std::unique_ptr<sandbox::Session>>()> open_computer = {};
  host::Model* model = nullptr;  // for ai.*; borrowed, may be null
  worker::Guests guests = worker::Guests();
  // The key that signs receipts, when one is requested; null: there are no receipts. Errors: those of
  // load_own_keys().
  std::function<Result<sandbox::ReceiptKey>()> signing_key = {};
  size_t most_sessions = 16;
  size_t most_reports = 64;
  size_t most_report_bytes = 64u << 20;  // for all kept reports
};

// WAT, and the installed languages; TypeScript together with JavaScript.
std::vector<LocalLanguage> installed_languages();

std::unique_ptr<Backend> local_backend(LocalOptions options);

}  // namespace membrane::mcp
