#include "agent/loop/for_face.h"

#include <utility>

namespace membrane::agent {
namespace {

std::unexpected<Failure> failed(const host::HostError& error) {
  return std::unexpected(Failure{.code = std::string(host::name_of(error.code)),
                                 .message = error.reason,
                                 .hint = error.grant,
                                 .place = {},
                                 .backtrace = {}});
}

host::FlowReads reads_of(const FlowReads& reads) {
  host::FlowReads made;
  for (const FlowRead& read : reads.first) made.first.push_back({read.call, read.function, read.target});
  made.more = reads.more;
  return made;
}

}  // namespace

membrane::Model model_for_face(host::Model* model) {
  if (model == nullptr) return {};
  return {.complete = [model](const ModelRequest& request) -> Expected<ModelAnswer> {
            auto answer =
                model->complete({request.system, request.prompt, request.max_tokens}, request.timeout_ms);
            if (!answer) return failed(answer.error());
            return ModelAnswer{std::move(answer->text), answer->tokens_in, answer->tokens_out};
          },
          .embed = [model](std::string_view text, uint64_t timeout_ms) -> Expected<std::vector<float>> {
            auto vector = model->embed(text, timeout_ms);
            if (!vector) return failed(vector.error());
            return *std::move(vector);
          }};
}

membrane::Ask ask_for_face(host::Person* person) {
  if (person == nullptr) return nullptr;
  return [person](std::string_view question, uint64_t timeout_ms) -> Expected<std::string> {
    auto answer = person->ask(question, timeout_ms);
    if (!answer) return failed(answer.error());
    return *std::move(answer);
  };
}

membrane::Approve approve_for_face(host::Approve approve) {
  if (!approve) return nullptr;
  return [approve = std::move(approve)](const EgressQuestion& question) {
    host::EgressQuestion asked;
    asked.function = question.function;
    asked.target = question.target;
    asked.bytes = question.bytes;
    asked.reads.private_reads = reads_of(question.private_reads);
    asked.reads.untrusted_reads = reads_of(question.untrusted_reads);
    asked.until = question.until;
    asked.cancel = question.cancel;
    return static_cast<Approval>(approve(asked));
  };
}

}  // namespace membrane::agent
