#include "agent/executor.h"

#include <utility>

#include "sandbox/sandbox.h"
#include "sandbox/session.h"

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
  explicit Programs(ExecutorOptions options) : options_(std::move(options)) {}

  sandbox::Report run(const Program& program, const StepContext& context) {
    if (conversation_ != context.conversation || cancel_ != context.cancel) {
      sessions_.clear();
      recorders_.clear();
      flows_ = std::make_shared<host::Flows>();
    }
    conversation_ = context.conversation;
    cancel_ = context.cancel;
    if (program.written_in == kWat) {
      sandbox::RunOptions options = run_options();
      options.on_stdout = context.on_stdout;
      const auto recorder = recorder_for(options);
      const sandbox::Report report = options_.guests.run(program, options);
      if (recorder != nullptr)
        (void)options_.receipts->keep_run(*recorder, made_of(program, program.name), report);
      return report;
    }
    auto session = session_in(program.written_in);
    if (!session) {
      const bool is_known = options_.templates.contains(program.written_in);
      return ended(is_known ? sandbox::Outcome::kFailed : sandbox::Outcome::kInvalid, session.error());
    }
    context_ = &context;
    const std::string name = name_of_turn(program);
    sandbox::Report report = (*session)->exec({.code = program.source,
                                               .name = name,
                                               .is_script = false,
                                               .arguments = program.arguments,
                                               .input = program.input});
    context_ = nullptr;
    if (options_.receipts != nullptr)  // which tells of what it could not keep
      (void)options_.receipts->keep_turn(*recorders_[program.written_in], made_of(program, name), report);
    return report;
  }

 private:
  sandbox::RunOptions run_options() const {
    sandbox::RunOptions options;
    options.policy = options_.policy;
    options.budget = options_.budget;
    options.model = options_.model;
    options.person = options_.person;
    options.cancel = cancel_;
    options.flows = flows_;
    options.approve = options_.approve;
    return options;
  }

  // Null when nothing is sealed.
  std::unique_ptr<sandbox::ReceiptRecorder> recorder_for(sandbox::RunOptions& options) const {
    if (options_.receipts == nullptr) return nullptr;
    auto recorder = options_.receipts->new_recorder();
    recorder->attach(options);
    return recorder;
  }

  [[nodiscard]] sandbox::MadeOf made_of(const Program& program, std::string name) const {
    sandbox::MadeOf made_of;
    made_of.source = program.source;
    made_of.invocation.name = std::move(name);
    made_of.invocation.entry = program.entry;
    made_of.invocation.arguments = program.arguments;
    made_of.invocation.given_input = program.input;
    const auto from = options_.templates.find(program.written_in);
    if (from != options_.templates.end()) made_of.language = from->second.get();
    made_of.policy = &options_.policy;
    return made_of;
  }

  Result<sandbox::Session*> session_in(const std::string& language) {
    if (const auto found = sessions_.find(language); found != sessions_.end()) return found->second.get();
    const auto from = options_.templates.find(language);
    if (from == options_.templates.end())
      return fail(ErrorCode::kNotFound, "Programs in " + language + " cannot be run here.",
                  "Write in a language that the task was begun with.");
    sandbox::RunOptions options = run_options();
    options.on_stdout = [this](std::string_view text) {
      if (context_ != nullptr && context_->on_stdout) context_->on_stdout(text);
    };
    auto recorder = recorder_for(options);
    MEMBRANE_ASSIGN(auto made, options_.guests.create(from->second, std::move(options)));
    recorders_[language] = std::move(recorder);
    return sessions_.emplace(language, std::move(made)).first->second.get();
  }

  // By its end the name says that there are types to be taken away; else the session numbers its turns itself.
  std::string name_of_turn(const Program& program) {
    if (!program.name.ends_with(".ts")) return {};
    return "cell-" + std::to_string(++typescript_turns_) + ".ts";
  }

  ExecutorOptions options_;
  std::map<std::string, std::unique_ptr<sandbox::ReceiptRecorder>>
      recorders_;  // of the sessions, which refer to them
  std::map<std::string, std::unique_ptr<sandbox::Session>> sessions_;
  // What any program of the conversation has read counts for all: the model carries it from one to the other.
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
  uint64_t conversation_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;
  const StepContext* context_ = nullptr;  // of the step that is under way
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
