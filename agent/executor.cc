#include "agent/executor.h"

#include <utility>

#include "agent/for_face.h"
#include "face/inner.h"

namespace membrane::agent {

namespace {

sandbox::Report ended(sandbox::Outcome outcome, const Error& error) {
  sandbox::Report report;
  report.outcome = outcome;
  report.errors.push_back(sandbox::report_error(error));
  return report;
}

class Programs {
 public:
  explicit Programs(ExecutorOptions options)
      : options_(std::move(options)),
        policy_(face::policy_of(options_.policy)),
        model_(model_for_face(options_.model)),
        ask_(ask_for_face(options_.person)),
        approve_(approve_for_face(options_.approve)) {
    if (options_.budget) budget_ = face::budget_of(options_.budget);
    if (options_.receipts != nullptr) receipts_ = face::receipts_of(*options_.receipts);
  }

  sandbox::Report run(const Program& program, const StepContext& context) {
    if (conversation_ != context.conversation || place_.cancel != context.cancel) {
      sessions_.clear();
      flows_ = Flows();
    }
    conversation_ = context.conversation;
    place_ = {.guests = options_.guests, .cancel = context.cancel};
    if (program.written_in == kWat) return run_alone(program, context);
    const auto session = session_in(program.written_in);
    if (!session) {
      const bool is_known = options_.templates.contains(program.written_in);
      return ended(is_known ? sandbox::Outcome::kFailed : sandbox::Outcome::kInvalid, session.error());
    }
    context_ = &context;
    const Report report = (*session)->run({.code = program.source,
                                           .name = name_of_turn(program),
                                           .arguments = program.arguments,
                                           .input = program.input});
    context_ = nullptr;
    return *report.rendered;
  }

 private:
  // The book reports what could not be sealed.
  sandbox::Report run_alone(const Program& program, const StepContext& context) {
    Sandbox sandbox(policy_);
    if (budget_) sandbox.share(*budget_);
    sandbox.share(flows_);
    sandbox.use(model_);
    sandbox.ask_by(ask_);
    sandbox.approve_by(approve_);
    if (receipts_) sandbox.seal_into(*receipts_);
    sandbox.on_stdout(context.on_stdout);
    const Report report = face::run_program(sandbox,
                                            {.source = program.source,
                                             .name = program.name,
                                             .entry = program.entry,
                                             .arguments = program.arguments,
                                             .input = program.input,
                                             .environment = program.environment},
                                            place_);
    return *report.rendered;
  }

  Result<Session*> session_in(const std::string& language) {
    if (const auto found = sessions_.find(language); found != sessions_.end()) return &found->second;
    const auto from = options_.templates.find(language);
    if (from == options_.templates.end())
      return fail(ErrorCode::kNotFound, "Programs in " + language + " cannot be run here.",
                  "Write in a language that the task was begun with.");
    SessionOptions options{.policy = policy_,
                           .budget = budget_,
                           .approve = approve_,
                           .flows = flows_,
                           .model = model_,
                           .ask = ask_,
                           .receipts = receipts_};
    options.on_stdout = [this](std::string_view text) {
      if (context_ != nullptr && context_->on_stdout) context_->on_stdout(text);
    };
    auto made = face::create_session(face::language_of(from->second), std::move(options), place_);
    if (!made) return std::unexpected(face::error_of(made.error()));
    return &sessions_.emplace(language, *std::move(made)).first->second;
  }

  // The extension of the name says that types must be removed; otherwise the session numbers its turns
  // itself.
  std::string name_of_turn(const Program& program) {
    if (!program.name.ends_with(".ts")) return {};
    return "cell-" + std::to_string(++typescript_turns_) + ".ts";
  }

  const ExecutorOptions options_;
  // The same, as the public face has them.
  const Policy policy_;
  const membrane::Model model_;
  const membrane::Ask ask_;
  const membrane::Approve approve_;
  std::optional<Budget> budget_;
  std::optional<Receipts> receipts_;

  std::map<std::string, Session> sessions_;
  // What any program of the conversation has read counts for all: the model carries it from one to another.
  Flows flows_;
  face::Place place_;
  uint64_t conversation_ = 0;
  const StepContext* context_ = nullptr;  // of the current step
  uint64_t typescript_turns_ = 0;
};

}  // namespace

Executor sandbox_executor(ExecutorOptions options) {
  auto programs = std::make_shared<Programs>(std::move(options));
  return [programs](const Program& program, const StepContext& context) {
    return programs->run(program, context);
  };
}

}  // namespace membrane::agent
