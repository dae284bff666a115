// membrane keys: the keys that sign receipts.

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "sandbox/receipts/receipt.h"
#include "sandbox/receipts/receipt_keys.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string file;
  std::string id;
  bool json = false;
};

std::string file_of(const Options& options) {
  return options.file.empty() ? sandbox::default_key_file() : options.file;
}

// An empty ring where there is no file.
Result<sandbox::KeyRing> ring_of(const Options& options) {
  auto keys = sandbox::load_own_keys(file_of(options));
  if (!keys && keys.error().code == ErrorCode::kNotFound) return sandbox::KeyRing();
  return keys;
}

Status make_key(const Options& options, bool is_rotation) {
  MEMBRANE_ASSIGN(sandbox::KeyRing keys, ring_of(options));
  if (is_rotation && keys.keys().empty())
    return fail(ErrorCode::kNotFound, "there is no key to rotate", "membrane keys generate");
  if (!is_rotation && !keys.keys().empty())
    return fail(ErrorCode::kInvalidArgument, "there are keys already, in " + file_of(options),
                "membrane keys rotate adds one that signs from now on.");
  MEMBRANE_TRY(keys.rotate(sandbox::receipt_time_now()));
  MEMBRANE_TRY(sandbox::save_own_keys(keys, file_of(options)));
  print(keys.signing()->id + "\n");
  return {};
}

Status revoke(const Options& options) {
  MEMBRANE_ASSIGN(sandbox::KeyRing keys, sandbox::load_own_keys(file_of(options)));
  MEMBRANE_TRY(keys.revoke(options.id, sandbox::receipt_time_now()));
  MEMBRANE_TRY(sandbox::save_own_keys(keys, file_of(options)));
  if (keys.signing() == nullptr)
    print(stderr, "membrane: no key signs receipts now; membrane keys rotate creates one\n");
  return {};
}

Status list(const Options& options) {
  MEMBRANE_ASSIGN(const sandbox::KeyRing keys, ring_of(options));
  if (keys.keys().empty() && !options.json)
    print(stderr, "there are no keys; `membrane keys generate` creates one\n");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const sandbox::ReceiptKey& key : keys.keys()) {
    if (!options.json)
      print(key.id + "  " + std::string(key.state()) + "  from " + key.created +
            (key.retired.empty() ? "" : " until " + key.retired) +
            (key.revoked.empty() ? "" : ", revoked " + key.revoked) + "\n");
    all.push_back({{"id", key.id}, {"state", key.state()}, {"created", key.created}});
    if (!key.retired.empty()) all.back()["retired"] = key.retired;
    if (!key.revoked.empty()) all.back()["revoked"] = key.revoked;
  }
  if (options.json) print_json(all);
  return {};
}

Status publish(const Options& options) {
  MEMBRANE_ASSIGN(const sandbox::KeyRing keys, sandbox::load_own_keys(file_of(options)));
  print(keys.to_json(false));
  return {};
}

using Act = Status (*)(const Options&);

CLI::App* add(CLI::App& group, const std::string& name, const std::string& help,
              const std::shared_ptr<Options>& options, int& exit_code, Act act) {
  CLI::App* const command = group.add_subcommand(name, help);
  command
      ->add_option("--file", options->file,
                   "The file with the keys (default: receipt-keys.json in ~/.config/membrane)")
      ->type_name("FILE");
  command->callback([options, &exit_code, act] {
    const Status done = act(*options);
    if (!done) exit_code = complain(done.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
  return command;
}

}  // namespace

void add_keys(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const group = app.add_subcommand("keys", "Create and publish the keys that sign receipts");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  membrane keys generate\n"
      "  membrane keys publish > keys.json\n"
      "Rotate the signing key from time to time: what it signed still verifies. A key that somebody else may "
      "have is\n"
      "revoked, and then rotated: nothing that it signed verifies any more.");
  add(*group, "generate", "Create the first key", options, exit_code, [](const Options& o) {
    return make_key(o, false);
  })->footer("Example:\n  membrane keys generate\nPrints the key's id.");
  add(*group, "rotate", "Retire the signing key, and create another", options, exit_code,
      [](const Options& o) { return make_key(o, true); })
      ->footer(
          "Example:\n  membrane keys rotate\nPrints the new key's id. The old one's private half is "
          "forgotten.");
  CLI::App* const revoking =
      add(*group, "revoke", "Declare that nothing that a key signed is valid", options, exit_code, revoke);
  revoking->add_option("id", options->id, "The key's id")->type_name("ID")->required();
  revoking->footer(
      "Example:\n"
      "  membrane keys revoke 0123456789abcdef0123456789abcdef\n"
      "Publish the keys again, so that others learn of it.");
  CLI::App* const listing = add(*group, "list", "List the keys", options, exit_code, list);
  listing->add_flag("--json", options->json, "As a JSON array");
  listing->footer("Example:\n  membrane keys list");
  add(*group, "publish", "Print the public keys as a JSON document, with which others verify receipts",
      options, exit_code, publish)
      ->footer("Example:\n  membrane keys publish > keys.json");
}

}  // namespace membrane::cli
