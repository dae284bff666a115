#include "cli/receipt_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "computers/replay.h"
#include "computers/settings.h"

namespace membrane::cli {

void KeysOption::add_to(CLI::App& command) {
  add_repeatable(
      command, "--keys", files_,
      "The signers' public keys, besides your own, from membrane keys publish or GET /v1/keys of a "
      "service; may be repeated")
      ->type_name("FILE");
}

Result<sandbox::KeyRing> KeysOption::keys() const {
  sandbox::KeyRing keys;
  auto own = sandbox::load_own_keys(sandbox::default_key_file());
  if (own) keys = *std::move(own);
  else if (own.error().code != ErrorCode::kNotFound) return own;
  else if (files_.empty())
    return fail(ErrorCode::kNotFound, "there are no keys to verify with",
                "Pass the signers' keys with --keys FILE: membrane keys publish prints one's own, and GET "
                "/v1/keys of a "
                "service answers with its own.");
  for (const std::string& file : files_) {
    MEMBRANE_ASSIGN(const std::string text, read_input(file, sandbox::KeyRing::kMaxBytes));
    MEMBRANE_ASSIGN(const sandbox::KeyRing others, sandbox::KeyRing::parse(text, file));
    keys.add(others);
  }
  return keys;
}

policy::Limits limits_for(const sandbox::Receipt& receipt) {
  if (computers::is_of_computer(receipt)) return computers::usual_limits();
  const sandbox::ReceiptItem* const of = receipt.find("template");
  return of != nullptr && of->fact("language") != "wasm" ? policy::language_limits() : policy::Limits();
}

Status check_holds(const policy::Policy& policy, const sandbox::Receipt& receipt) {
  return computers::is_of_computer(receipt) ? computers::check_grants(policy) : Status();
}

nlohmann::ordered_json json_of(const sandbox::RefusedCall& call) {
  return {{"call", call.number},       {"function", call.function},         {"about", call.about},
          {"decision", call.decision}, {"errno", name_of(call.error.code)}, {"reason", call.error.reason},
          {"grant", call.error.grant}};
}

std::string text_of(const sandbox::RefusedCall& call) {
  if (call.number == 0) return "its end: " + call.error.reason;
  const std::string about = call.about.substr(0, call.about.find_last_not_of(' ') + 1);
  // The program's own text must not look like lines of ours.
  return printable_line("call " + std::to_string(call.number) + ", " + call.function +
                        (about.empty() ? "" : " " + about) + ": " + call.error.reason);
}

const sandbox::RefusedCall* find_stop(const std::vector<sandbox::RefusedCall>& refused) {
  const auto found = std::ranges::find_if(
      refused, [](const sandbox::RefusedCall& call) { return call.decision != "denied"; });
  return found == refused.end() ? nullptr : &*found;
}

}  // namespace membrane::cli
