#include "cli/receipt_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"

namespace membrane::cli {

void KeysOption::add_to(CLI::App& command) {
  command
      .add_option(
          "--keys", file_,
          "The keys of who signed, as membrane keys publish prints them, and GET /v1/keys of a service "
          "(default: your own)")
      ->type_name("FILE");
}

Result<sandbox::KeyRing> KeysOption::keys() const {
  if (file_.empty()) {
    auto own = sandbox::load_own_keys(sandbox::default_key_file());
    if (own || own.error().code != ErrorCode::kNotFound) return own;
    return fail(ErrorCode::kNotFound, "there are no keys to verify by",
                "Give those of who signed with --keys FILE: membrane keys publish prints one's own, and GET "
                "/v1/keys of a "
                "service answers with its own.");
  }
  MEMBRANE_ASSIGN(const std::string text, read_input(file_, sandbox::KeyRing::kMaxBytes));
  return sandbox::KeyRing::parse(text, file_);
}

policy::Limits limits_for(const sandbox::Receipt& receipt) {
  const sandbox::ReceiptItem* const of = receipt.find("template");
  return of != nullptr && of->fact("language") != "wasm" ? policy::language_limits() : policy::Limits();
}

nlohmann::ordered_json json_of(const sandbox::RefusedCall& call) {
  return {{"call", call.number},       {"function", call.function},         {"about", call.about},
          {"decision", call.decision}, {"errno", name_of(call.error.code)}, {"reason", call.error.reason},
          {"grant", call.error.grant}};
}

std::string text_of(const sandbox::RefusedCall& call) {
  if (call.number == 0) return "its end: " + call.error.reason;
  // What the program chose to ask for must not look like lines of ours.
  return printable_line("call " + std::to_string(call.number) + ", " + call.function +
                        (call.about.empty() ? "" : " " + call.about) + ": " + call.error.reason);
}

const sandbox::RefusedCall* find_stop(const std::vector<sandbox::RefusedCall>& refused) {
  const auto found = std::ranges::find_if(
      refused, [](const sandbox::RefusedCall& call) { return call.decision != "denied"; });
  return found == refused.end() ? nullptr : &*found;
}

}  // namespace membrane::cli
