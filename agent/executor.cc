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
    if (conversation_ != context.conversation || cancel_ != context.cancel) sessions_.clear();
    conversation_ = context.conversation;
    cancel_ = context.cancel;
    if (program.written_in == kWat) {
      sandbox::RunOptions options = run_options();
      options.on_stdout = context.on_stdout;
      return sandbox::run(program, options);
    }
    auto session = session_in(program.written_in);
    if (!session) {
      const bool is_known = options_.templates.contains(program.written_in);
      return ended(is_known ? sandbox::Outcome::kFailed : sandbox::Outcome::kInvalid, session.error());
    }
    context_ = &context;
    sandbox::Report report = (*session)->exec({.code = program.source,
                                               .name = name_of_turn(program),
                                               .is_script = false,
                                               .arguments = program.arguments,
                                               .input = program.input});
    context_ = nullptr;
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
    return options;
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
    MEMBRANE_ASSIGN(auto made, sandbox::Session::create(from->second, std::move(options)));
    return sessions_.emplace(language, std::move(made)).first->second.get();
  }

  // By its end the name says that there are types to be taken away; else the session numbers its turns itself.
  std::string name_of_turn(const Program& program) {
    if (!program.name.ends_with(".ts")) return {};
    return "cell-" + std::to_string(++typescript_turns_) + ".ts";
  }

  ExecutorOptions options_;
  std::map<std::string, std::unique_ptr<sandbox::Session>> sessions_;
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
