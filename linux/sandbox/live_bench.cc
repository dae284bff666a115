// The cost of a sandbox from a warm source: started from nothing, and as a fork of one in which a python
// waits. Uses the image `debian` (make images), without which these are skipped.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "linux/image/store.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {
namespace {

class Output {
 public:
  CommandEvents events() {
    return {.on_output = [this](std::string_view bytes) { add(bytes); }, .on_error = {}, .on_end = {}};
  }
  void wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return text_.contains(text); });
  }

 private:
  void add(std::string_view bytes) {
    const std::scoped_lock lock(mutex_);
    text_ += bytes;
    news_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable news_;
  std::string text_;
};

// The source is forked while this process has one thread.
struct World {
  std::string image;
  std::unique_ptr<ComputerSource> source;
  std::unique_ptr<LiveComputer> warm;
  std::unique_ptr<Command> python;
  Output output;
};

World* world() {
  static World* const made = []() -> World* {
    const auto image = find_image("debian");
    auto source = ComputerSource::create(8);
    if (source) (*source)->make_ready();
    if (!image || !source) return nullptr;
    auto* const all =
        new World{.image = image->path, .source = std::move(*source), .warm = {}, .python = {}, .output = {}};
    LiveSpec spec;
    spec.image = all->image;
    auto computer = all->source->create(spec);
    if (!computer) return nullptr;
    all->warm = std::move(*computer);
    CommandSpec python;
    python.arguments = {"/usr/bin/python3", "-c",
                        "import json, re, sys\nprint('ready', flush=True)\n"
                        "for line in sys.stdin: print(eval(line), flush=True)"};
    auto command = all->warm->start(python, all->output.events());
    if (!command) return nullptr;
    all->python = std::move(*command);
    all->output.wait_for("ready");
    return all;
  }();
  return made;
}

// The minimum and the median of single rounds: other load on the machine makes the mean meaningless.
class Rounds {
 public:
  void begin() { began_ = std::chrono::steady_clock::now(); }
  void end() {
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began_;
    all_us_.push_back(took.count());
  }
  void tell(benchmark::State& state) {
    if (all_us_.empty()) return;
    std::ranges::sort(all_us_);
    state.counters["min_us"] = all_us_.front();
    state.counters["median_us"] = all_us_[all_us_.size() / 2];
  }

 private:
  std::chrono::steady_clock::time_point began_;
  std::vector<double> all_us_;
};

void create_to_echo(benchmark::State& state) {
  World* const all = world();
  if (all == nullptr) return state.SkipWithError("there is no image debian");
  Rounds rounds;
  for (auto _ : state) {
    rounds.begin();
    LiveSpec spec;
    spec.image = all->image;
    auto computer = all->source->create(spec);
    Output output;
    CommandSpec echo;
    echo.arguments = {"/bin/echo", "4"};
    auto command = (*computer)->start(echo, output.events());
    output.wait_for("4");
    rounds.end();
    state.PauseTiming();
    command->reset();
    computer->reset();
    state.ResumeTiming();
  }
  rounds.tell(state);
}
BENCHMARK(create_to_echo)->Unit(benchmark::kMicrosecond)->MinTime(1);

void keep(benchmark::State& state) {
  World* const all = world();
  if (all == nullptr) return state.SkipWithError("there is no image debian");
  Rounds rounds;
  for (auto _ : state) {
    rounds.begin();
    const HostFile file(memfd_create("kept", MFD_CLOEXEC));
    if (!all->warm->keep(file.number(), LiveComputer::Keep::kAll)) return state.SkipWithError("not kept");
    rounds.end();
  }
  rounds.tell(state);
}
BENCHMARK(keep)->Unit(benchmark::kMicrosecond)->MinTime(1);

// `keeps`: forks the running sandbox; otherwise one that was kept before.
void fork_to_answer(benchmark::State& state) {
  World* const all = world();
  if (all == nullptr) return state.SkipWithError("there is no image debian");
  const bool keeps = state.range(0) != 0;
  HostFile file(memfd_create("kept", MFD_CLOEXEC));
  if (!all->warm->keep(file.number(), LiveComputer::Keep::kAll)) return state.SkipWithError("not kept");
  Rounds rounds;
  for (auto _ : state) {
    rounds.begin();
    if (keeps) {
      file = HostFile(memfd_create("kept", MFD_CLOEXEC));
      if (!all->warm->keep(file.number(), LiveComputer::Keep::kAll)) return state.SkipWithError("not kept");
    }
    LiveSpec spec;
    spec.kept = file.number();
    auto computer = all->source->create(spec);
    if (!computer) return state.SkipWithError(computer.error().message.c_str());
    Output output;
    auto command = (*computer)->attach(all->python->process_id(), output.events());
    if (!command || !(*command)->write_input("2+2\n")) return state.SkipWithError("no answer");
    output.wait_for("4");
    rounds.end();
    state.PauseTiming();
    command->reset();
    computer->reset();
    state.ResumeTiming();
  }
  rounds.tell(state);
}
BENCHMARK(fork_to_answer)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->MinTime(1);

}  // namespace
}  // namespace membrane::linux
