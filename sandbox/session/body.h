// One instance of a language's module with its surroundings: its files, its door, its host functions.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/execution/execution.h"
#include "engine/freeze/instance_image.h"
#include "engine/freeze/snapshot.h"
#include "host/broker/broker.h"
#include "host/calls/dispatch.h"
#include "host/calls/door.h"
#include "sandbox/interpreters/interpreter.h"
#include "sandbox/report/report.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/host_import.h"
#include "sandbox/run/stops.h"
#include "wasi/system/system.h"

namespace membrane::sandbox {

// The state, between two turns, of a program that reads its turns as input: its frames, for an instance of the same
// image.
struct Waiting {
  std::vector<uint8_t> frames;
  uint64_t heap_next = 0;  // end of the capabilities' allocations in the heap
  std::shared_ptr<engine::KnownPlaces> known;
};

// The state of a turn that is paused: for an instance of an image captured at the same time.
struct Paused {
  std::vector<uint8_t> frames;
  std::vector<uint32_t> notes, progress;  // the interpreter's
  uint64_t heap_next = 0;
  uint64_t fuel_used = 0;
  std::shared_ptr<engine::KnownPlaces> known;
};

class Body final : public Calls {
 public:
  // The surroundings of a body. All are borrowed, and outlive it.
  struct Surroundings {
    Conversation* output = nullptr;
    host::Broker* broker = nullptr;
    host::DoorSession* session = nullptr;
    const Interpreter* interpreter = nullptr;
    std::function<std::optional<Outcome>()> must_stop;  // returns the outcome if the run must end
    // For a program that does not read its turns as input: gives the system more of its input, or closes it. False
    // when the run must end.
    std::function<bool()> give_input;
    std::shared_ptr<engine::KnownPlaces> known;  // the template's; null: the body has its own
  };

  Body(const Surroundings& around, std::unique_ptr<wasi::System> system);

  // Errors: as Store::instantiate(), converted to an Error. `waiting` is the state of its program; null when it has
  // none that waits.
  Status begin(const engine::InstanceImage& image, const engine::InstanceLimits& limits,
               std::shared_ptr<const Waiting> waiting);
  Status begin(std::shared_ptr<engine::CompiledModule> module, const engine::InstanceLimits& limits);

  // Starts a new run, which includes all calls until the next one: what it may use, and when to pause the program.
  void start_run(const engine::ExecutionLimits& limits, uint64_t fuel,
                 std::optional<uint64_t> pause_at_fuel = {});

  // Whether the last call of the program was paused. It has not ended: go_on() resumes it, with this much fuel in
  // place of the rest.
  [[nodiscard]] bool is_paused() const { return is_paused_; }
  // Whether it was paused to wait for the embedder's answer.
  [[nodiscard]] bool awaits_answer() const { return is_paused_ && awaits_answer_; }
  [[nodiscard]] bool go_on(uint64_t fuel, std::optional<uint64_t> pause_at_fuel);
  // Ends a run that could not start; returns false.
  bool refuse(Error error);
  // Whether the last call of the program returned, or exited, by itself.
  [[nodiscard]] bool has_ended() const;
  // Whether the program, since it started, has done anything that could turn out differently in another run of it:
  // anything but read its arguments and its environment.
  [[nodiscard]] bool met_the_world() const { return met_the_world_; }
  // Whether the run has requested anything but its turn, or done anything but print: such requests could turn out
  // differently, or be done twice, if the run were repeated from the same state.
  [[nodiscard]] bool asked_others() const { return asked_others_; }
  // The state of a paused body. Errors: as engine::freeze_frames().
  Result<Paused> pause();
  // Pauses this body there; it must have begun with an image from that time and started a run. Errors: as
  // engine::thaw_frames().
  Status resume_at(const Paused& paused);

  [[nodiscard]] uint64_t fuel_used() const { return fuel_used_; }
  // Why the last run did not return.
  [[nodiscard]] const Stop& stop() const { return stop_; }

  [[nodiscard]] bool call(std::string_view name, std::span<const engine::Value> arguments) override;
  [[nodiscard]] bool call_program(std::string_view name, std::span<const engine::Value> arguments) override;
  [[nodiscard]] uint64_t result() const override { return result_; }
  [[nodiscard]] bool begin_reading(std::string_view name, std::string_view input) override;
  [[nodiscard]] bool go_on_reading(std::string_view input) override;
  [[nodiscard]] bool run_to_end(std::string_view name, std::string_view input) override;
  [[nodiscard]] std::optional<uint64_t> call_back(engine::HostCall& during, std::string_view name,
                                                  std::span<const engine::Value> arguments) override;
  [[nodiscard]] std::span<uint8_t> memory() override { return guest_->memory(); }
  [[nodiscard]] bool set_global(std::string_view name, uint32_t value) override;
  bool trap(engine::TrapKind kind, std::string message) override;
  [[nodiscard]] host::HostMemory& host_memory() override { return guest_->host_memory(); }
  [[nodiscard]] std::optional<std::string> ask(engine::HostCall& during, std::string_view request) override;

  [[nodiscard]] bool print(engine::HostCall& during, bool is_error, std::string_view text) override;
  [[nodiscard]] bool sleep(engine::HostCall& during, double ns) override;
  [[nodiscard]] bool note(std::initializer_list<uint32_t> numbers) override;
  [[nodiscard]] std::vector<uint32_t> take_notes() override;
  [[nodiscard]] std::vector<uint32_t>& progress() override { return progress_; }
  [[nodiscard]] std::optional<uint64_t> call_beside(std::string_view name,
                                                    std::span<const engine::Value> arguments) override;
  [[nodiscard]] bool run_on() override;
  [[nodiscard]] std::vector<std::string>* stacks() override { return runs_on_ ? &stacks_ : nullptr; }

  [[nodiscard]] engine::Instance& instance() { return *instance_; }
  [[nodiscard]] wasi::System& system() { return *system_; }
  [[nodiscard]] host::Dispatcher& dispatcher() { return *dispatcher_; }
  [[nodiscard]] GuestInstance& guest() { return *guest_; }
  // The answer of its System's device /dev/membrane.
  std::string answer(std::string_view request);
  // Passes the System's call records to the dispatcher, which bounds them. Calls do so by themselves.
  void list_calls_of_system();
  // Whether the program can be in the state `waiting`, whose frames have not been verified. Errors: as
  // engine::thaw_frames().
  Status check(const Waiting& waiting, const engine::ExecutionLimits& limits);
  // Null when no waiting program is in it.
  [[nodiscard]] const std::shared_ptr<const Waiting>& waiting() const { return waiting_; }

 private:
  void begin_running_on();
  engine::Resolver resolver();
  std::optional<HostImport> find_import(const wasm::Import& import);
  using InterpreterFunction = std::function<engine::HostAction(Calls&, engine::HostCall&)>;
  engine::HostAction call_interpreter(const InterpreterFunction& function, engine::HostCall& call);
  engine::HostAction call_wasi(const wasi::Function& function, engine::HostCall& call);
  engine::HostAction call_capability(const host::FunctionSpec& function, engine::HostCall& call);
  engine::HostAction end_with(host::CallEnd end);
  Status finish_begin(std::expected<engine::Instance*, engine::LinkError> made);
  bool start(std::string_view name, std::span<const engine::Value> arguments);
  bool run();
  bool take_result(bool returned);
  bool run_until_it_waits();
  const std::shared_ptr<engine::KnownPlaces>& known();

  Surroundings around_;
  std::unique_ptr<wasi::System> system_;
  engine::Store store_;
  engine::Instance* instance_ = nullptr;
  std::optional<GuestInstance> guest_;
  std::optional<host::Dispatcher> dispatcher_;
  std::optional<host::Door> door_;
  std::unique_ptr<engine::Execution> execution_;
  engine::ExecutionLimits limits_;
  uint64_t fuel_left_ = 0, fuel_used_ = 0;
  std::optional<uint64_t> pause_at_fuel_;
  uint64_t counted_ = 0;        // part of execution_'s fuel that fuel_used_ already includes
  bool is_of_program_ = false;  // the current call belongs to the program: it may be paused
  bool is_paused_ = false;
  bool runs_on_ = false;  // it was stopped, and the host is asking for its place
  std::chrono::steady_clock::time_point runs_on_until_;
  std::vector<std::string> stacks_;
  uint64_t result_ = 0;
  std::vector<uint32_t> notes_, progress_;
  std::shared_ptr<engine::KnownPlaces> known_;
  bool waits_ = false;  // it reads, and no input is available
  std::shared_ptr<const Waiting> waiting_;
  bool door_lacks_fuel_ = false;  // for its last request
  bool door_waits_ = false;       // for the embedder's answer to its last request
  bool awaits_answer_ = false;    // the run ended while it waited
  bool exits_ = false;            // the door ended the program
  bool met_the_world_ = false;
  bool asked_others_ = false;  // since start_run()
  // How the last callback ended, when it did not return.
  engine::RunState called_back_ = engine::RunState::kFinished;
  uint32_t calls_back_ = 0;  // nested callbacks in progress
  Stop stop_;
};

}  // namespace membrane::sandbox
