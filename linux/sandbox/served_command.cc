#include "linux/sandbox/served_command.h"

#include <signal.h>
#include <termios.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "linux/proc/mounts.h"
#include "linux/sandbox/outside_files.h"

namespace membrane::linux {

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Credentials credentials_of(const CommandSpec& spec) {
  Credentials who;
  who.uid = who.euid = who.suid = who.fsuid = spec.user;
  who.gid = who.egid = who.sgid = who.fsgid = spec.group;
  return who;
}

winsize window_of(TerminalSize size) {
  return {.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
}

}  // namespace

ServedCommand::ServedCommand(Kernel& kernel, FrameSocket& socket, uint64_t number, std::function<void()> wake)
    : kernel_(kernel),
      socket_(socket),
      number_(number),
      wake_(std::move(wake)),
      output_stream_(std::make_shared<Stream>(socket, number, FrameKind::kOutput)),
      error_stream_(std::make_shared<Stream>(socket, number, FrameKind::kError)),
      reached_before_(kernel.limits_reached()) {}

// Its files may live on in other processes, whose output is then dropped.
ServedCommand::~ServedCommand() {
  output_stream_->is_wanted = error_stream_->is_wanted = false;
  if (input_ != nullptr) input_->on_taken = {};
}

OutsideOutput::Sink ServedCommand::sink_of(const std::shared_ptr<Stream>& stream) {
  return [stream](std::span<const std::byte> bytes) -> Try<size_t> {
    if (!stream->is_wanted) return bytes.size();
    const size_t count = std::min<uint64_t>(bytes.size(), stream->room);
    if (count == 0) return 0;
    // If sending fails, the owner is gone, and everything ends.
    static_cast<void>(stream->socket.send(stream->kind, stream->number,
                                          {reinterpret_cast<const char*>(bytes.data()), count}));
    stream->room -= count;
    return count;
  };
}

Try<FileRef> ServedCommand::open_terminal(const CommandSpec& spec) {
  MEMBRANE_ASSIGN(auto master, kernel_.system->terminals->make_master(credentials_of(spec)));
  terminal_ = std::make_unique<OutsideTerminal>(std::move(master), sink_of(output_stream_), count_, wake_);
  terminal_->resize(window_of(*spec.terminal));
  terminal_->after_wake();
  return terminal_->open();
}

Status ServedCommand::start(const StartOrder& order) {
  const CommandSpec& spec = order.spec;
  output_stream_->is_wanted = order.wants_output;
  error_stream_->is_wanted = order.wants_errors;
  Kernel::Start start = {.arguments = spec.arguments,
                         .environment = spec.environment,
                         .directory = spec.directory,
                         .credentials = credentials_of(spec),
                         .input = nullptr,
                         .output = nullptr,
                         .errors = nullptr};
  if (spec.terminal) {
    auto opened = open_terminal(spec);
    if (!opened) return refused("a terminal", opened.error());
    start.input = start.output = start.errors = *opened;
  } else {
    input_ = std::make_shared<OutsideInput>(wake_, kInputWindow);
    input_->on_taken = [this](size_t bytes) { give_room_back(bytes); };
    output_ = std::make_shared<OutsideOutput>(sink_of(output_stream_), count_);
    errors_ = std::make_shared<OutsideOutput>(sink_of(error_stream_), count_);
    start.input = input_->open();
    start.output = output_->open();
    start.errors = errors_->open();
  }
  const Place place = {.root = kernel_.root, .directory = kernel_.root};
  auto directory =
      walk(kernel_.mounts, place, kernel_.root, spec.directory, start.credentials, {.wants_directory = true});
  // The default, which is missing in an image made from nothing.
  if (!directory && directory.error() == ENOENT && spec.directory == "/root") {
    start.directory = "/";
    directory = kernel_.root;
  }
  if (!directory)
    return fail(ErrorCode::kInvalidArgument,
                "a command cannot start in " + spec.directory + ": " + std::strerror(directory.error()),
                "Name a directory of the image, or a granted one.");
  const auto started = kernel_.start(start);
  if (!started) {
    auto error = refused(spec.arguments[0], started.error());
    error.error().message = spec.arguments[0] + " cannot be started: " + std::strerror(started.error());
    return error;
  }
  process_ = *started;
  Task* const task = kernel_.task_of(process_);
  if (terminal_ != nullptr && task != nullptr) static_cast<void>(terminal_->terminal()->take(*task, false));
  return {};
}

void ServedCommand::go_on(KeptCommand from) {
  process_ = from.process;
  is_left_ = true;
  output_stream_->is_wanted = error_stream_->is_wanted = false;
  if (from.terminal != nullptr) {
    terminal_ =
        std::make_unique<OutsideTerminal>(std::move(from.terminal), sink_of(output_stream_), count_, wake_);
    return;
  }
  input_ = std::move(from.input);
  input_->attach(wake_);
  input_->on_taken = [this](size_t bytes) { give_room_back(bytes); };
  input_room_ = kInputWindow - std::min(kInputWindow, input_->held());
  output_ = std::move(from.output);
  output_->attach(sink_of(output_stream_), count_);
  errors_ = std::move(from.errors);
  errors_->attach(sink_of(error_stream_), count_);
}

KeptCommand ServedCommand::kept() const {
  return {.process = process_,
          .input = input_,
          .output = output_,
          .errors = errors_,
          .terminal = terminal_ == nullptr ? nullptr : terminal_->master()};
}

void ServedCommand::attach(uint64_t number, bool wants_output, bool wants_errors) {
  number_ = output_stream_->number = error_stream_->number = number;
  output_stream_->room = error_stream_->room = kOutputWindow;
  output_stream_->is_wanted = wants_output;
  error_stream_->is_wanted = wants_errors;
  input_room_ += std::exchange(taken_, 0);
  is_left_ = false;
}

// -- input ------------------------------------------------------------------------------------------------------------

bool ServedCommand::feed(std::string_view bytes) {
  if (bytes.size() > input_room_) return false;
  input_room_ -= bytes.size();
  if (end_) return true;
  if (terminal_ != nullptr) {
    terminal_->feed(bytes_of(bytes));
  } else {
    input_->feed(bytes_of(bytes));
    input_->after_wake();
  }
  return true;
}

// At a terminal it types the character that ends the input.
void ServedCommand::end_input() {
  if (input_ != nullptr) {
    input_->end();
    input_->after_wake();
  } else {
    ends_input_ = true;
    look();
  }
}

bool ServedCommand::expects_input() const {
  return !end_ && !is_left_ && (input_ == nullptr || !input_->has_ended());
}

// Not for each byte: when a quarter of the window was consumed, or everything.
void ServedCommand::give_room_back(size_t bytes) {
  taken_ += bytes;
  if (taken_ < kInputWindow / 4 && input_room_ + taken_ < kInputWindow) return;
  static_cast<void>(socket_.send(FrameKind::kInputRoom, number_, Packer().number(taken_).bytes()));
  input_room_ += taken_;
  taken_ = 0;
}

// -- output, and the end -------------------------------------------------------------------------------------------------

void ServedCommand::add_room(FrameKind which, uint64_t bytes) {
  Stream& stream = which == FrameKind::kOutputRoom ? *output_stream_ : *error_stream_;
  stream.room = std::min<uint64_t>(kOutputWindow, stream.room + std::min<uint64_t>(bytes, kOutputWindow));
  if (terminal_ != nullptr) terminal_->has_room();
  else (which == FrameKind::kOutputRoom ? output_ : errors_)->after_wake();
}

void ServedCommand::resize(TerminalSize size) {
  if (terminal_ != nullptr) terminal_->resize(window_of(size));
}

void ServedCommand::signal(int number) {
  if (number == SIGKILL) kernel_.kill_session(process_);
  else kernel_.signal_group(process_, number);
}

void ServedCommand::leave() {
  output_stream_->is_wanted = error_stream_->is_wanted = false;
  is_left_ = true;
  if (terminal_ != nullptr) {
    terminal_->end();
    return;
  }
  end_input();
  output_->after_wake();
  errors_->after_wake();
}

void ServedCommand::look() {
  if (terminal_ != nullptr) {
    terminal_->after_wake();
    const size_t held = terminal_->held(), had = kInputWindow - input_room_ - taken_;
    if (had > held) give_room_back(had - held);
    if (held == 0 && std::exchange(ends_input_, false)) {
      const std::byte ends{terminal_->terminal()->line.modes().characters[VEOF]};
      terminal_->feed(std::span(&ends, 1));
    }
  }
  if (!end_ || is_end_reported_ || is_left_) return;
  if (terminal_ != nullptr && !terminal_->terminal()->line.output.is_empty()) return;
  is_end_reported_ = true;
  output_stream_->is_wanted = error_stream_->is_wanted = false;
  static_cast<void>(socket_.send(FrameKind::kEnd, number_, pack(*end_)));
}

}  // namespace membrane::linux
