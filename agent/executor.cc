#include "agent/executor.h"

#include <utility>

#include "sandbox/sandbox.h"

namespace membrane::agent {

Executor sandbox_executor(ExecutorOptions options) {
  return [options = std::move(options)](const sandbox::Program& program, const StepContext& context) {
    sandbox::RunOptions run;
    run.policy = options.policy;
    run.budget = options.budget;
    run.model = options.model;
    run.person = options.person;
    run.cancel = context.cancel;
    run.on_stdout = context.on_stdout;
    return sandbox::run(program, run);
  };
}

}  // namespace membrane::agent
