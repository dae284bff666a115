// The programs of an agent: they may ask a model and a person, a person approves what leaves, and each turn
// has a receipt.
#include <membrane/session.hpp>

#include <iostream>
#include <string>

// The store is private and may hold what strangers wrote; a question to the model leaves.
constexpr const char* kPolicy = R"(
ask = true

[kv]
private = true
untrusted = true

[ai]

[trifecta]
egress = "ask"

[limits]
fuel = "2e9"
memory = "256 MiB"
)";

membrane::Approval approve(const membrane::EgressQuestion& question) {
  std::cout << question.function << " would send " << question.bytes << " bytes, after "
            << question.private_reads.first.front().function << '\n';
  return membrane::Approval::kYes;  // ask a person here, until question.until
}

membrane::Model model() {
  return {.complete = [](const membrane::ModelRequest& request) -> membrane::Expected<membrane::ModelAnswer> {
    if (request.prompt.empty())
      return std::unexpected(membrane::Failure{.code = "EINVAL", .message = "There is no question."});
    // Ask yours here, for at most request.max_tokens and request.timeout_ms.
    return membrane::ModelAnswer{.text = "Paris", .tokens_in = 12, .tokens_out = 1};
  }};
}

membrane::Expected<std::string> ask(std::string_view question, uint64_t /*timeout_ms*/) {
  std::cout << "The program asks: " << question << '\n';
  return "of France";
}

membrane::Expected<membrane::Session> sealed_session(const membrane::Language& language,
                                                     membrane::SessionOptions options,
                                                     const std::string& directory) {
  auto receipts = membrane::Receipts::open(directory + "/receipts",
                                           {.key_file = directory + "/keys.json", .makes_key = true});
  if (!receipts) return std::unexpected(receipts.error());
  options.receipts = *receipts;
  return membrane::Session::create(language, std::move(options));
}

int run(const std::string& directory) {
  const auto policy = membrane::Policy::parse(kPolicy);
  if (!policy) return std::cerr << policy.error().message << '\n', 1;
  const auto js = membrane::Language::open("js");
  if (!js) return std::cerr << js.error().message << '\n', 1;
  auto session =
      sealed_session(*js, {.policy = *policy, .approve = approve, .model = model(), .ask = ask}, directory);
  if (!session) return std::cerr << session.error().message << '\n', 1;
  session->run({.code = "membrane.kv.set('which', membrane.agent.ask('Which capital?'))"});
  const membrane::Report report =
      session->run({.code = "membrane.ai.complete('The capital ' + membrane.kv.get('which'))"});
  if (report.outcome != membrane::Outcome::kOk) return std::cerr << report.to_text(), 1;
  if (report.unsealed) return std::cerr << report.unsealed->message << '\n', 1;
  std::cout << report.result << ", sealed as …" << report.receipt.substr(report.receipt.rfind('-')) << '\n';
  return 0;
}

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: embed_agent DIRECTORY\n", 2;
  return run(arguments[1]);
}
