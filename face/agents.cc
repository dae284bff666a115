#include "face/agents.h"

#include <utility>

namespace membrane {

Flows::Flows() : state_(std::make_shared<State>()) {}

namespace {

FlowReads reads_of(const host::FlowReads& reads) {
  FlowReads made{.first = {}, .more = reads.more};
  for (const host::FlowRead& read : reads.first)
    made.first.push_back({read.call, read.function, read.target});
  return made;
}

}  // namespace

FlowReads Flows::private_reads() const { return reads_of(state_->flows->state().private_reads); }
FlowReads Flows::untrusted_reads() const { return reads_of(state_->flows->state().untrusted_reads); }
bool Flows::is_closed() const { return state_->flows->state().is_closed(); }

}  // namespace membrane

namespace membrane::face {
namespace {

static_assert(static_cast<int>(Approval::kYes) == static_cast<int>(host::Approval::kYes) &&
              static_cast<int>(Approval::kNobody) == static_cast<int>(host::Approval::kNobody));

std::unexpected<host::HostError> refused(const Failure& failure) {
  return host::refuse(host::errno_named(failure.code).value_or(host::Errno::kHost), failure.message,
                      failure.hint);
}

// What the embedder's function answers. What it throws is a failure of the capability's service.
template <typename Call>
auto asked(Call call) -> host::HostResult<typename decltype(call())::value_type> {
  try {
    auto answer = call();
    if (!answer) return refused(answer.error());
    return *std::move(answer);
  } catch (const std::exception& error) {
    return host::refuse(host::Errno::kHost, error.what());
  }
}

class EmbeddersModel final : public host::Model {
 public:
  explicit EmbeddersModel(membrane::Model model) : model_(std::move(model)) {}

  host::HostResult<host::ChatAnswer> complete(const host::ChatRequest& request,
                                              uint64_t timeout_ms) override {
    if (!model_.complete) return host::refuse(host::Errno::kUnsupported, "The model completes no text.");
    auto answer = asked(
        [&] { return model_.complete({request.system, request.prompt, request.max_tokens, timeout_ms}); });
    if (!answer) return std::unexpected(std::move(answer).error());
    return host::ChatAnswer{std::move(answer->text), answer->tokens_in, answer->tokens_out};
  }
  host::HostResult<std::vector<float>> embed(std::string_view text, uint64_t timeout_ms) override {
    if (!model_.embed) return host::refuse(host::Errno::kUnsupported, "The model embeds no text.");
    return asked([&] { return model_.embed(text, timeout_ms); });
  }

 private:
  const membrane::Model model_;
};

class EmbeddersPerson final : public host::Person {
 public:
  explicit EmbeddersPerson(Ask ask) : ask_(std::move(ask)) {}
  host::HostResult<std::string> ask(std::string_view question, uint64_t timeout_ms) override {
    return asked([&] { return ask_(question, timeout_ms); });
  }

 private:
  const Ask ask_;
};

EgressQuestion question_of(const host::EgressQuestion& question) {
  return {.function = question.function,
          .target = question.target,
          .bytes = question.bytes,
          .private_reads = reads_of(question.reads.private_reads),
          .untrusted_reads = reads_of(question.reads.untrusted_reads),
          .until = question.until,
          .cancel = question.cancel};
}

}  // namespace

host::Approve approve_of(Approve approve) {
  if (!approve) return nullptr;
  return [approve = std::move(approve)](const host::EgressQuestion& question) {
    try {
      return static_cast<host::Approval>(approve(question_of(question)));
    } catch (const std::exception&) {
      return host::Approval::kNobody;
    }
  };
}

std::shared_ptr<host::Model> model_of(Model model) {
  if (!model.complete && !model.embed) return nullptr;
  return std::make_shared<EmbeddersModel>(std::move(model));
}

std::shared_ptr<host::Person> person_of(Ask ask) {
  if (!ask) return nullptr;
  return std::make_shared<EmbeddersPerson>(std::move(ask));
}

}  // namespace membrane::face
