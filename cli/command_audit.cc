// membrane audit: checks that an audit log of the service is intact.

#include <fstream>

#include "base/audit_chain.h"
#include "base/sha256.h"
#include "cli/cli.h"

namespace membrane::cli {
namespace {

// The chain at the file's end. Errors: kNotFound; kInvalidInput for the first line that breaks it, and if it
// never had the head `known`, unless that is "".
Result<AuditChain> read_chain(const std::string& path, const std::string& known) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorCode::kNotFound, "cannot read " + path, "Name an audit log: DIRECTORY/audit.log.");
  AuditChain chain;
  bool had_known = known.empty();
  std::string line(kMostAuditLineBytes + 1, '\0');
  while (file.getline(line.data(), static_cast<std::streamsize>(line.size())) || file.gcount() > 0) {
    if (file.fail()) return fail(ErrorCode::kInvalidInput, "a line is longer than an audit log's can be");
    if (file.eof())
      return fail(ErrorCode::kInvalidInput, "the last line is incomplete",
                  "The service cuts it off when it starts again, and records that.");
    MEMBRANE_TRY(chain.follow(std::string_view(line.data(), static_cast<size_t>(file.gcount()) - 1)));
    had_known = had_known || chain.head() == known;
  }
  if (!had_known)
    return fail(ErrorCode::kInvalidInput,
                "it never had that head: records at its end are missing or have changed");
  return chain;
}

}  // namespace

void add_audit(CLI::App& app, int& exit_code) {
  CLI::App* const group = app.add_subcommand("audit", "Check audit logs of the service");
  group->require_subcommand(1);
  group->footer("Example:\n  membrane audit verify audit.log");
  CLI::App* const command =
      group->add_subcommand("verify", "Check that each line of an audit log follows from the one before it");
  struct Options {
    std::string file, head;
  };
  auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "The audit log")->type_name("FILE")->required();
  command
      ->add_option("--head", options->head,
                   "A head from an earlier check: also check that those records are still there")
      ->type_name("SHA256");
  command->footer(
      "Prints how many records there are, and the head: the SHA-256 of the last. Keep it elsewhere.\n"
      "Exit code 1: the log was changed.\n\n"
      "Example:\n  membrane audit verify ~/.local/state/membrane/service/audit.log");
  command->callback([options, &exit_code] {
    if (!options->head.empty() && !is_sha256_hex(options->head)) {
      exit_code =
          complain({ErrorCode::kInvalidArgument, "--head " + options->head + " is no head of a log",
                    "A head is a SHA-256 in 64 hexadecimal digits: membrane audit verify prints it."});
      return;
    }
    const auto chain = read_chain(options->file, options->head);
    if (!chain) {
      exit_code = complain(chain.error());
      if (chain.error().code == ErrorCode::kInvalidInput) exit_code = kExitGuest;
      return;
    }
    print("records " + std::to_string(chain->count()) + "\nhead " + chain->head() + "\n");
  });
}

}  // namespace membrane::cli
