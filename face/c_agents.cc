// The C face of what an embedder gives its programs beside the policy.

#include <chrono>

#include "face/c_handles.h"

using namespace membrane::face;

struct membrane_reply {
  std::string text{};
  std::vector<float> numbers{};
  uint64_t tokens_in = 0, tokens_out = 0;
  std::optional<membrane::Failure> failure = said("EHOST", "the callback has not replied");

  static membrane::Failure said(std::string code, std::string message) {
    return {.code = std::move(code), .message = std::move(message)};
  }
};

namespace {

std::vector<membrane_flow_read> to_c(const membrane::FlowReads& reads) {
  std::vector<membrane_flow_read> made;
  for (const membrane::FlowRead& read : reads.first)
    made.push_back({read.call, read.function.c_str(), read.target.c_str()});
  return made;
}

uint64_t ms_until(std::chrono::steady_clock::time_point end) {
  const auto now = std::chrono::steady_clock::now();
  if (end <= now) return 0;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(end - now).count());
}

membrane::Approval ask_of(decltype(membrane_agents::approve) approve, void* user_data,
                          const membrane::EgressQuestion& question) {
  const auto of_private = to_c(question.private_reads), of_untrusted = to_c(question.untrusted_reads);
  const membrane_egress_question asked{
      question.function.c_str(), question.target.c_str(), question.bytes,      of_private.data(),
      of_private.size(),         of_untrusted.data(),     of_untrusted.size(), ms_until(question.until)};
  switch (approve(user_data, &asked)) {
    case MEMBRANE_APPROVED: return membrane::Approval::kYes;
    case MEMBRANE_REFUSED: return membrane::Approval::kNo;
    case MEMBRANE_NOBODY_THERE: break;
  }
  return membrane::Approval::kNobody;
}

std::function<membrane::Approval(const membrane::EgressQuestion&)> approve_of(const membrane_agents& agents,
                                                                              void* user_data) {
  if (agents.approve == nullptr) return nullptr;
  return [approve = agents.approve, user_data](const membrane::EgressQuestion& question) {
    return ask_of(approve, user_data, question);
  };
}

membrane::Model model_of(const membrane_agents& agents, void* user_data) {
  membrane::Model model;
  if (agents.complete != nullptr)
    model.complete = [complete = agents.complete, user_data](
                         const membrane::ModelRequest& request) -> membrane::Expected<membrane::ModelAnswer> {
      membrane_reply reply;
      const membrane_model_request asked{request.system.c_str(), request.system.size(),
                                         request.prompt.c_str(), request.prompt.size(),
                                         request.max_tokens,     request.timeout_ms};
      complete(user_data, &asked, &reply);
      if (reply.failure) return std::unexpected(*std::move(reply.failure));
      return membrane::ModelAnswer{std::move(reply.text), reply.tokens_in, reply.tokens_out};
    };
  if (agents.embed != nullptr)
    model.embed = [embed = agents.embed, user_data](
                      std::string_view text, uint64_t timeout_ms) -> membrane::Expected<std::vector<float>> {
      membrane_reply reply;
      embed(user_data, std::string(text).c_str(), text.size(), timeout_ms, &reply);
      if (reply.failure) return std::unexpected(*std::move(reply.failure));
      return std::move(reply.numbers);
    };
  return model;
}

membrane::Ask ask_of(const membrane_agents& agents, void* user_data) {
  if (agents.ask == nullptr) return nullptr;
  return [ask = agents.ask, user_data](std::string_view question,
                                       uint64_t timeout_ms) -> membrane::Expected<std::string> {
    membrane_reply reply;
    ask(user_data, std::string(question).c_str(), question.size(), timeout_ms, &reply);
    if (reply.failure) return std::unexpected(*std::move(reply.failure));
    return std::move(reply.text);
  };
}

}  // namespace

void membrane::face::add_agents(const membrane_agents* given, void* user_data, SessionOptions& options) {
  const auto agents = as_known(given);
  options.approve = approve_of(agents, user_data);
  options.model = model_of(agents, user_data);
  options.ask = ask_of(agents, user_data);
  if (agents.flows != nullptr) options.flows = agents.flows->flows;
  if (agents.receipts != nullptr) options.receipts = agents.receipts->receipts;
}

bool membrane_sandbox_use_agents(membrane_sandbox* sandbox, const membrane_agents* agents, void* user_data,
                                 membrane_error** error) {
  return guarded<bool>(error, [&] {
    const auto known = as_known(agents);
    auto approve = approve_of(known, user_data);
    auto model = model_of(known, user_data);
    auto ask = ask_of(known, user_data);
    if (approve) sandbox->sandbox.approve_by(std::move(approve));
    if (model.complete || model.embed) sandbox->sandbox.use(std::move(model));
    if (ask) sandbox->sandbox.ask_by(std::move(ask));
    if (known.flows != nullptr) sandbox->sandbox.share(known.flows->flows);
    if (known.receipts != nullptr) sandbox->sandbox.seal_into(known.receipts->receipts);
    return true;
  });
}

membrane_flows* membrane_flows_new(void) {
  return guarded<membrane_flows*>(nullptr, [] { return new membrane_flows; });
}
bool membrane_flows_is_closed(const membrane_flows* flows) { return flows->flows.is_closed(); }
void membrane_flows_free(membrane_flows* flows) { delete flows; }

membrane_receipts* membrane_receipts_open(const char* directory, const char* key_file, bool makes_key,
                                          membrane_error** error) {
  return guarded<membrane_receipts*>(error, [&]() -> membrane_receipts* {
    auto opened = membrane::Receipts::open(std::string(view(directory)),
                                           {.key_file = std::string(view(key_file)), .makes_key = makes_key});
    if (opened) return new membrane_receipts{*std::move(opened)};
    give(error, std::move(opened).error());
    return nullptr;
  });
}
void membrane_receipts_free(membrane_receipts* receipts) { delete receipts; }

void membrane_reply_text(membrane_reply* reply, const char* text, size_t size) {
  reply->text = view(text, size);
  reply->failure.reset();
}
void membrane_reply_vector(membrane_reply* reply, const float* numbers, size_t count) {
  reply->numbers.assign(numbers, numbers + count);
  reply->failure.reset();
}
void membrane_reply_error(membrane_reply* reply, const char* code, const char* message) {
  reply->failure = membrane_reply::said(std::string(view(code)), std::string(view(message)));
}
void membrane_reply_tokens(membrane_reply* reply, uint64_t tokens_in, uint64_t tokens_out) {
  reply->tokens_in = tokens_in;
  reply->tokens_out = tokens_out;
}

const char* membrane_report_receipt(const membrane_report* report) {
  return report->report.receipt.empty() ? nullptr : report->report.receipt.c_str();
}
const membrane_error* membrane_report_unsealed(membrane_report* report) {
  if (!report->report.unsealed) return nullptr;
  if (!report->unsealed) report->unsealed.emplace(*report->report.unsealed);
  return &*report->unsealed;
}
