#include "computers/replay.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "computers/description.h"
#include "computers/network/gateway.h"
#include "computers/outcome.h"
#include "computers/settings.h"
#include "computers/users.h"
#include "linux/image/layer.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/computer.h"
#include "sandbox/receipt_content.h"

namespace membrane::computers {

namespace {

constexpr uint64_t kMostWallMs = 3'600'000;  // a machine may be slower than the one that sealed

std::unexpected<Error> not_there(std::string_view what) {
  return fail(
      ErrorCode::kInvalidArgument,
      "the private part of the receipt has no " + std::string(what) + ": the command cannot be run again",
      "It was removed, or was never there. The rest still verifies.");
}

Result<std::string_view> content_of(const sandbox::SealedRun& run, std::string_view name) {
  const auto content = run.content.content(run.receipt, name);
  if (!content) return not_there(name);
  return *content;
}

// The reason for which it cannot be repeated.
Status check(const sandbox::SealedRun& run, const sandbox::ComputerDescription& computer) {
  if (run.receipt.head.kind != sandbox::ReceiptKind::kRun)
    return fail(ErrorCode::kUnsupported,
                "this was a step in a long-lived Linux sandbox, whose earlier state is not in the receipt",
                "A replay needs a whole run: membrane run --kind linux --deterministic --seal FILE.");
  if (!computer.deterministic)
    return fail(ErrorCode::kUnsupported,
                "the command saw the real clock and real random numbers, so it cannot be repeated exactly",
                "Run it with --deterministic to replay it. The receipt verifies all the same.");
  return {};
}

Status check(const policy::Policy& policy) {
  constexpr const char* kHint =
      "Only a command without network and directories is replayed. The receipt verifies all the same, and "
      "membrane policy test judges its host calls.";
  if (!policy.http.empty())
    return fail(ErrorCode::kUnsupported,
                "the command could reach the network, and the answers are not in the receipt", kHint);
  if (!policy.fs.empty())
    return fail(
        ErrorCode::kUnsupported,
        "the command was granted directories of this machine, and their contents are not in the receipt",
        kHint);
  return {};
}

Result<linux::StoredImage> image_of(const sandbox::ComputerDescription& computer) {
  MEMBRANE_ASSIGN(const auto images, linux::list_images());
  for (const linux::StoredImage& image : images) {
    if (image.size_bytes != computer.image_bytes) continue;
    const auto sha256 = sha256_of(image, mark_of(image));
    if (sha256 && *sha256 == computer.image_sha256) return image;
  }
  return fail(ErrorCode::kNotFound, "no image of this machine has the SHA-256 " + computer.image_sha256,
              "membrane image import brings in the one that the command ran in.");
}

struct Recorded {
  sandbox::ComputerDescription computer;
  sandbox::Invocation invocation;
  policy::Policy policy;
};

Result<Recorded> recorded_of(const sandbox::SealedRun& run) {
  const auto malformed = [](const char* what) {
    return fail(ErrorCode::kInvalidInput, std::string("the receipt's ") + what + " is malformed");
  };
  Recorded recorded;
  MEMBRANE_ASSIGN(const std::string_view computer, content_of(run, "template"));
  auto read = sandbox::read_computer(computer);
  if (!read) return malformed("template");
  recorded.computer = *std::move(read);
  MEMBRANE_TRY(check(run, recorded.computer));
  MEMBRANE_ASSIGN(const std::string_view invocation, content_of(run, "invocation"));
  auto invoked = sandbox::Invocation::read(invocation);
  if (!invoked || invoked->arguments.empty()) return malformed("invocation");
  recorded.invocation = *std::move(invoked);
  MEMBRANE_ASSIGN(const std::string_view policy, content_of(run, "policy"));
  MEMBRANE_ASSIGN(recorded.policy, policy::parse_policy(policy, "the receipt's policy.json", usual_limits()));
  MEMBRANE_TRY(check(recorded.policy));
  return recorded;
}

// A memory file from which the command reads its input.
Result<linux::HostFile> input_of(const std::string& bytes) {
  linux::HostFile file(memfd_create("membrane-input", MFD_CLOEXEC));
  for (size_t at = 0; file && at < bytes.size();) {
    const ssize_t done = pwrite(file.number(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (done <= 0) file.close();
    else at += static_cast<size_t>(done);
  }
  if (!file) return fail(ErrorCode::kExhausted, "there is not enough memory for the command's input");
  return file;
}

Result<sandbox::Report> run_again(const Recorded& recorded, const linux::StoredImage& image,
                                  const std::function<bool()>& is_cancelled) {
  linux::Computer computer;
  computer.image = image.path;
  computer.arguments = recorded.invocation.arguments;
  for (const auto& [name, value] : recorded.invocation.environment)
    computer.environment.push_back(name + "=" + value);
  computer.directory = recorded.computer.directory;
  MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image.path));
  MEMBRANE_ASSIGN(const User user, find_user(image.config.user, *layer));
  computer.user = user.user;
  computer.group = user.group;
  computer.limits = limits_of(recorded.policy.limits);
  computer.limits.output_bytes = recorded.policy.limits.output_bytes;
  computer.limits.wall = std::chrono::milliseconds(std::max(recorded.policy.limits.wall_ms, kMostWallMs));
  computer.deterministic = linux::Determinism{.start_ms = recorded.computer.deterministic->first,
                                              .seed = recorded.computer.deterministic->second};
  MEMBRANE_ASSIGN(const auto gateway, Gateway::create({.grants = {}, .limits = recorded.policy.limits}));
  computer.network = gateway->socket();
  MEMBRANE_ASSIGN(const linux::HostFile input, input_of(recorded.invocation.given_input));
  sandbox::Report report;
  const linux::ComputerStreams streams = {
      .input = input.number(),
      .on_output = [&](std::string_view bytes) { report.stdout_text += bytes; },
      .on_error = [&](std::string_view bytes) { report.stderr_text += bytes; },
      .accompany =
          [&gateway](linux::Command&) {
            gateway->begin();
            return nullptr;
          }};
  MEMBRANE_ASSIGN(const linux::ComputerReport ended, linux::run_computer(computer, streams, is_cancelled));
  set_outcome(ended.end, ended.status, ended.reason, recorded.policy.limits, report);
  report.platform = ended.platform;
  return report;
}

void compare(const sandbox::SealedRun& run, sandbox::Replayed& replayed) {
  const sandbox::Report& report = replayed.report;
  const auto differs = [&](const std::string& how) { replayed.differences.push_back(how); };
  const std::string outcome(name_of(report.outcome));
  if (outcome != run.receipt.end.outcome)
    differs("the outcome was " + run.receipt.end.outcome + ", and is " + outcome);
  if (report.exit_code != run.receipt.end.exit_code)
    differs("the exit code was " +
            (run.receipt.end.exit_code ? std::to_string(*run.receipt.end.exit_code) : "none") + ", and is " +
            (report.exit_code ? std::to_string(*report.exit_code) : "none"));
  for (const auto& [name, content] : sandbox::output_of(report, {})) {
    const auto was = run.content.content(run.receipt, name);
    if (!was || *was == content) continue;
    const auto [there, here] = std::ranges::mismatch(*was, content);
    differs(name + " differs from byte " + std::to_string(there - was->begin()) + " of its JSON on");
  }
}

}  // namespace

bool is_of_computer(const sandbox::Receipt& receipt) {
  const sandbox::ReceiptItem* const item = receipt.find("template");
  return item != nullptr && item->fact("language") == sandbox::kLinuxLanguage;
}

Result<sandbox::Replayed> replay(std::span<const sandbox::SealedRun> runs,
                                 const std::function<bool()>& is_cancelled) {
  const sandbox::SealedRun& run = runs.back();
  MEMBRANE_ASSIGN(const Recorded recorded, recorded_of(run));
  MEMBRANE_ASSIGN(const linux::StoredImage image, image_of(recorded.computer));
  sandbox::Replayed replayed;
  MEMBRANE_ASSIGN(replayed.report, run_again(recorded, image, is_cancelled));
  compare(run, replayed);
  return replayed;
}

}  // namespace membrane::computers
