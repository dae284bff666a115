// membrane verify: checks that receipts are what their keys signed.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/receipt_options.h"
#include "computers/replay.h"

namespace membrane::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files;
  KeysOption keys;
  bool json = false;
};

struct Verified {
  sandbox::Receipt receipt;
  std::optional<sandbox::PrivatePart> content;
};

Result<Verified> verified(const std::string& file, const sandbox::KeyRing& keys) {
  Verified made;
  MEMBRANE_ASSIGN(made.receipt, sandbox::read_receipt(file));
  MEMBRANE_TRY(sandbox::verify(made.receipt, keys));
  MEMBRANE_ASSIGN(made.content, sandbox::read_private_part(file, made.receipt));
  return made;
}

std::string private_part_of(const Verified& made) {
  if (!made.content) return "not here";
  const size_t missing = made.content->missing();
  return missing == 0 ? "whole" : count_of(missing, "line") + " removed";
}

uint64_t count_calls(const sandbox::Receipt& receipt, std::string_view decision) {
  return static_cast<uint64_t>(std::ranges::count_if(receipt.items, [&](const sandbox::ReceiptItem& item) {
    return item.name == "call" && (decision.empty() || item.fact("decision") == decision);
  }));
}

Json json_of_item(const sandbox::ReceiptItem& item) {
  Json object = {{"item", item.name}, {"sealed", item.sealed}};
  for (const auto& [name, value] : item.facts) object[name] = value;
  return object;
}

Json json_of(const Verified& made, const sandbox::ReceiptKey& key) {
  const sandbox::Receipt& receipt = made.receipt;
  Json out = {{"verified", true},
              {"kind", name_of(receipt.head.kind)},
              {"digest", receipt.digest},
              {"key", receipt.key},
              {"key_state", key.state()},
              {"made_at", receipt.head.made_at},
              {"membrane", receipt.head.membrane},
              {"session", receipt.head.session},
              {"turn", receipt.head.turn},
              {"previous", receipt.head.previous},
              {"outcome", receipt.end.outcome},
              {"exit_code", receipt.end.exit_code ? Json(*receipt.end.exit_code) : Json()},
              {"fuel", receipt.end.fuel},
              {"cost_version", receipt.end.cost_version},
              {"private_part", private_part_of(made)},
              {"items", Json::array()}};
  for (const sandbox::ReceiptItem& item : receipt.items) out["items"].push_back(json_of_item(item));
  return out;
}

std::string text_of(const std::string& file, const Verified& made, const sandbox::ReceiptKey& key) {
  const sandbox::Receipt& receipt = made.receipt;
  const sandbox::ReceiptHead& head = receipt.head;
  std::string out = file + ": verified\n  " + std::string(name_of(head.kind));
  if (head.kind == sandbox::ReceiptKind::kTurn)
    out += " " + std::to_string(head.turn) + " of session " + head.session;
  if (const sandbox::ReceiptItem* const of = receipt.find("template"))
    out += ", " + std::string(of->fact("language"));
  out += ", made at " + head.made_at + " by Membrane " + head.membrane + "\n  signed by " + key.id;
  if (!key.retired.empty()) out += ", which was retired at " + key.retired;
  out += "\n  outcome: " + receipt.end.outcome;
  if (!computers::is_of_computer(receipt)) out += ", fuel: " + std::to_string(receipt.end.fuel);
  if (head.kind == sandbox::ReceiptKind::kTask) {
    const auto turns = std::ranges::count(receipt.items, "turn", &sandbox::ReceiptItem::name);
    out += ", programs: " + std::to_string(turns);
  } else {
    out += ", host calls: " + std::to_string(count_calls(receipt, "")) + " (" +
           std::to_string(count_calls(receipt, "denied")) + " denied)";
  }
  return out + "\n  private part: " + private_part_of(made) + "\n";
}

// Why a file is no receipt at all, rather than one that has changed.
std::optional<Error> why_no_receipt(const std::string& file) {
  constexpr std::string_view kReceipt = "{\"membrane_receipt\"", kPrivate = "{\"membrane_receipt_private\"",
                             kEnding = ".private";
  const std::string head = head_of(file, kPrivate.size());
  if (head.starts_with(kReceipt)) return std::nullopt;
  if (head != kPrivate)
    return Error{ErrorCode::kInvalidInput, "its first line is not that of a receipt",
                 "membrane run --seal FILE makes one."};
  const std::string of = file.ends_with(kEnding) ? file.substr(0, file.size() - kEnding.size()) : "RECEIPT";
  return Error{ErrorCode::kInvalidInput, "it is the private part of one",
               "Verify the receipt, which checks this part, too: membrane verify " + of};
}

// An invalid receipt, or one signed by an unknown key: its contents are not to be trusted.
int show_refused(const std::string& file, Error error, bool json) {
  if (error.code == ErrorCode::kUnavailable) return complain(error, json ? Reader::kJson : Reader::kPerson);
  const std::optional<Error> no_receipt = why_no_receipt(file);
  if (no_receipt) error = *no_receipt;
  if (json)
    print_json(
        Json{{"verified", false},
             {"file", file},
             {"error", {{"code", name_of(error.code)}, {"message", error.message}, {"hint", error.hint}}}});
  else
    print(file + (no_receipt ? ": not a receipt\n  " : ": NOT verified\n  ") + error.message + "\n" +
          (error.hint.empty() ? "" : "  hint: " + error.hint + "\n"));
  return kExitGuest;
}

// The receipts in a directory.
Result<std::vector<std::string>> files_of(const Options& options) {
  std::vector<std::string> files;
  for (const std::string& file : options.files) {
    std::error_code error;
    if (!std::filesystem::is_directory(file, error)) {
      files.push_back(file);
      continue;
    }
    MEMBRANE_ASSIGN(const std::vector<std::string> in_it, sandbox::receipts_in(file));
    if (in_it.empty())
      return fail(ErrorCode::kNotFound, "the directory " + file + " has no receipts in it",
                  "Their names end in .receipt; name a directory that has some, or a receipt.");
    files.insert(files.end(), in_it.begin(), in_it.end());
  }
  return files;
}

Result<int> run(const Options& options) {
  MEMBRANE_ASSIGN(const sandbox::KeyRing keys, options.keys.keys());
  MEMBRANE_ASSIGN(const std::vector<std::string> files, files_of(options));
  int code = kExitOk;
  for (const std::string& file : files) {
    if (access(file.c_str(), R_OK) != 0)
      return fail(ErrorCode::kNotFound, "cannot read " + file, "Check the path.");
    const auto made = verified(file, keys);
    if (!made) code = std::max(code, show_refused(file, made.error(), options.json));
    else if (options.json) print_json(json_of(*made, *keys.find(made->receipt.key)));
    else print(text_of(file, *made, *keys.find(made->receipt.key)));
  }
  return code;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("verify", "Check receipts: their signatures, and their private parts if present");
  command->add_option("files", options->files, "The receipts, or directories of them")
      ->type_name("FILE")
      ->required();
  options->keys.add_to(*command);
  command->add_flag("--json", options->json,
                    "One JSON object for each receipt, on a line (docs/receipts.md)");
  command->footer(
      "Examples:\n"
      "  membrane verify run.receipt\n"
      "  membrane verify run.receipt --keys keys.json --json\n"
      "Nothing but the files is needed. The private part is FILE.private; without it, all that is signed "
      "still verifies.\n"
      "Exit codes: 0 verified; 1 changed, cut off, or signed by a key that is not known or was revoked; 2 "
      "wrong usage,\n"
      "or a file that is not there; 3 Membrane failed.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
