// One run of a program that is not Linux's: a module, a program in a language, or a snapshot.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/model/model_client.h"
#include "base/private_file.h"
#include "base/result.h"
#include "cli/command_run.h"
#include "cli/input_source.h"
#include "cli/out_directory.h"
#include "cli/seal.h"
#include "engine/native/code_cache.h"
#include "host/journal/journal_file.h"

namespace membrane::cli {

// Everything that the run needs is opened first: a path that cannot be read or written ends the command before
// the program begins.
class ProgramRun {
 public:
  // `options` must outlive it.
  explicit ProgramRun(const RunCommandOptions& options) : options_(options) {}
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  // Runs the program, and prints and writes what it did. Call it once. Returns the exit code. Errors: those of
  // the files that the options name, and of a program that cannot run.
  Result<int> run();

 private:
  // What to run: a program and its language, or a snapshot, which is the engine's.
  struct Source {
    sandbox::Program program;
    std::string language = "wasm";
    std::string snapshot;
  };

  Status read_program();
  Status read_policy();
  Status open_engine();
  Status open_receipt_and_model();
  Status open_journals();
  void connect_person();
  Status open_input();
  Status open_out();
  Result<sandbox::Report> report();
  void add_hints(sandbox::Report& report) const;
  Result<int> finish(sandbox::Report report);

  [[nodiscard]] bool is_of_engine() const;

  const RunCommandOptions& options_;
  Source source_;
  sandbox::RunOptions run_options_;
  std::shared_ptr<worker::Worker> worker_;  // null: the program runs in this process
  std::optional<engine::native::CodeCache> code_cache_;
  std::optional<NewFile> snapshot_;
  std::unique_ptr<RunSeal> seal_;
  std::unique_ptr<agent::ModelClient> client_;
  std::optional<agent::HostModel> model_;
  std::unique_ptr<host::JournalFileWriter> recorded_;
  std::unique_ptr<host::JournalSource> replayed_;
  ProgramOutput output_;
  std::optional<InputSource> input_;
  std::optional<OutDirectory> out_;
};

}  // namespace membrane::cli
