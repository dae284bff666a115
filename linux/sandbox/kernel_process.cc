#include "linux/sandbox/kernel_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <thread>

#include "base/json.h"
#include "linux/files/devices.h"
#include "linux/files/outside.h"
#include "linux/files/socket_end.h"
#include "linux/image/image_tree.h"
#include "linux/kernel/kernel.h"
#include "linux/network/outside_network.h"
#include "linux/proc/mounts.h"
#include "linux/sandbox/kernel_walls.h"

namespace membrane::linux {

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

ComputerReport failed(std::string reason) {
  ComputerReport report;
  report.reason = std::move(reason);
  return report;
}

// Threads of the kernel process that wait for the outside: one reads the input, one hears when to stop.
class Outside {
 public:
  Outside(const KernelStreams& streams, Kernel& kernel)
      : input_(std::make_shared<OutsideInput>([&kernel] { kernel.platform().wake(); })) {
    std::thread([input = input_, fd = streams.input] { read_all(*input, fd); }).detach();
    std::thread([&kernel, fd = streams.control] {
      char byte;
      while (read(fd, &byte, 1) > 0 || errno == EINTR) {}
      kernel.stop();
    }).detach();
    count_ = std::make_shared<OutputCount>();
    output_ = std::make_shared<OutsideOutput>(sink_of(streams.output), count_);
    errors_ = std::make_shared<OutsideOutput>(sink_of(streams.errors), count_);
  }

  FileRef input() { return input_->open(); }
  FileRef output() { return output_->open(); }
  FileRef errors() { return errors_->open(); }
  void after_wake() { input_->after_wake(); }

 private:
  static void read_all(OutsideInput& input, int fd) {
    std::array<std::byte, 65536> piece;
    for (;;) {
      const ssize_t got = fd < 0 ? 0 : read(fd, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      std::span<const std::byte> rest(piece.data(), static_cast<size_t>(got));
      while (!rest.empty()) {
        rest = rest.subspan(input.feed(rest));
        if (!rest.empty() && !input.wait_for_room()) return;
      }
    }
    input.end();
  }

  // The caller always reads, so writing here does not wait for long.
  static OutsideOutput::Sink sink_of(int fd) {
    return [fd](std::span<const std::byte> bytes) -> Try<size_t> {
      for (;;) {
        const ssize_t done = write(fd, bytes.data(), bytes.size());
        if (done >= 0) return static_cast<size_t>(done);
        if (errno != EINTR) return err(EPIPE);
      }
    };
  }

  std::shared_ptr<OutsideInput> input_;
  std::shared_ptr<OutsideOutput> output_, errors_;
  std::shared_ptr<OutputCount> count_;
};

void set_end(ComputerReport& report, int status, bool was_out_of_memory) {
  report.end = was_out_of_memory && WIFSIGNALED(status) ? ComputerEnd::kOutOfMemory
               : WIFSIGNALED(status)                    ? ComputerEnd::kSignalled
                                                        : ComputerEnd::kExited;
  report.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

ComputerReport run(const Computer& computer, const KernelStreams& streams) {
  const Clock::time_point begun = Clock::now();
  const auto devices = std::make_shared<Devices>();
  auto root = open_image_tree(computer.image, {.most_bytes = computer.limits.disk_bytes, .devices = devices});
  if (!root) return failed(root.error().to_string());
  std::vector<MissingWall> missing = leave_host();
  auto platform = start_trap_platform({});
  if (!platform) return failed(platform.error().to_string());
  std::ranges::copy(missing_walls_of(**platform), std::back_inserter(missing));
  KernelOptions options = {
      .platform = std::move(*platform), .root = *root, .limits = {}, .host_name = computer.host_name};
  options.limits.most_tasks = computer.limits.most_tasks;
  options.limits.memory_bytes = computer.limits.memory_bytes;
  Platform& guests = *options.platform;
  std::unique_ptr<OutsideNetwork> network;
  if (computer.network >= 0) {
    auto made = OutsideNetwork::create([&guests] { guests.wake(); });
    if (!made) return failed(made.error().to_string());
    network = std::move(*made);
    if (const Status attached = network->attach(HostFile(computer.network)); !attached)
      return failed(attached.error().to_string());
  }
  Kernel kernel(std::move(options));
  kernel.sockets = std::make_shared<SocketSpace>();
  kernel.sockets->network = network.get();
  ComputerReport report;
  report.platform = kernel.platform().name();
  if (const Done mounted = mount_system_directories(kernel); !mounted)
    return failed(std::string("/proc, /sys and /dev cannot be made: ") + std::strerror(mounted.error()));
  Outside outside(streams, kernel);
  kernel.on_outside = [&outside, &network] {
    outside.after_wake();
    if (network != nullptr) network->after_wake();
  };
  Kernel::Start start = {.arguments = computer.arguments,
                         .environment = computer.environment,
                         .directory = computer.directory,
                         .credentials = {},
                         .input = outside.input(),
                         .output = outside.output(),
                         .errors = outside.errors()};
  Credentials& who = start.credentials;
  who.uid = who.euid = who.suid = who.fsuid = computer.user;
  who.gid = who.egid = who.sgid = who.fsgid = computer.group;
  std::ranges::move(allow_only_kernel_calls(), std::back_inserter(missing));
  for (const MissingWall& each : missing) report.missing_walls.push_back(each.name + ": " + each.why);
  const auto started = kernel.start(start);
  if (!started)
    return failed(computer.arguments[0] + " cannot be started: " + std::strerror(started.error()));
  report.start_us = us_since(begun);
  const Clock::time_point runs = Clock::now();
  const int status = kernel.run(*started);
  report.run_us = us_since(runs);
  report.memory_peak_bytes = kernel.memory_peak_bytes();
  report.absent_calls = kernel.absent_calls;
  set_end(report, status, kernel.was_out_of_memory());
  return report;
}

constexpr std::string_view kEnds[] = {"exited",        "signalled", "timed_out", "out_of_output",
                                      "out_of_memory", "cancelled", "failed"};

}  // namespace

int run_kernel_process(const Computer& computer, const KernelStreams& streams) {
  signal(SIGPIPE, SIG_IGN);
  const std::string json = report_to_json(run(computer, streams));
  for (size_t done = 0; done < json.size();) {
    const ssize_t sent = send(streams.control, json.data() + done, json.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return 1;
    done += static_cast<size_t>(sent);
  }
  return 0;
}

std::string report_to_json(const ComputerReport& report) {
  const nlohmann::json json = {{"end", kEnds[static_cast<size_t>(report.end)]},
                               {"status", report.status},
                               {"reason", report.reason},
                               {"platform", report.platform},
                               {"memory_peak_bytes", report.memory_peak_bytes},
                               {"start_us", report.start_us},
                               {"run_us", report.run_us},
                               {"absent_calls", report.absent_calls},
                               {"missing_walls", report.missing_walls}};
  return json_text(json);
}

Result<ComputerReport> report_from_json(std::string_view json) {
  MEMBRANE_ASSIGN(const nlohmann::json told,
                  read_json(json, "the report of the kernel process", {.bytes = 1u << 20}));
  ComputerReport report;
  if (!told.is_object()) return fail(ErrorCode::kInvalidInput, "its report is no object");
  const auto number = [&told](const char* name) -> uint64_t {
    const auto found = told.find(name);
    return found != told.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  };
  const auto time = [&told](const char* name) {
    const auto found = told.find(name);
    return found != told.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto text = [&told](const char* name) {
    const auto found = told.find(name);
    return found != told.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto end = std::ranges::find(kEnds, text("end"));
  if (end == std::end(kEnds)) return fail(ErrorCode::kInvalidInput, "its report has no end that is known");
  report.end = static_cast<ComputerEnd>(end - std::begin(kEnds));
  report.status = static_cast<int>(number("status") & 0xff);
  report.reason = text("reason");
  report.platform = text("platform");
  report.memory_peak_bytes = number("memory_peak_bytes");
  report.start_us = time("start_us");
  report.run_us = time("run_us");
  const auto calls = told.find("absent_calls");
  if (calls != told.end() && calls->is_object())
    for (const auto& [name, count] : calls->items())
      if (count.is_number_unsigned()) report.absent_calls[name] = count.get<uint64_t>();
  const auto walls = told.find("missing_walls");
  if (walls != told.end() && walls->is_array())
    for (const auto& each : *walls)
      if (each.is_string()) report.missing_walls.push_back(each.get<std::string>());
  return report;
}

}  // namespace membrane::linux
