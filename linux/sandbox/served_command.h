// An owner's command in the kernel process: its process, its streams or terminal, and the room that the owner
// has made for its output. Threads: the kernel's thread, except `wake`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "linux/files/outside.h"
#include "linux/files/outside_terminal.h"
#include "linux/kept/kernel_state.h"
#include "linux/kernel/kernel.h"
#include "linux/sandbox/protocol.h"

namespace membrane::linux {

class ServedCommand {
 public:
  // Any thread may call `wake`, which must make the kernel call look() in its own thread.
  ServedCommand(Kernel& kernel, FrameSocket& socket, uint64_t number, std::function<void()> wake);
  ~ServedCommand();
  ServedCommand(const ServedCommand&) = delete;
  ServedCommand& operator=(const ServedCommand&) = delete;

  // Errors: those of starting a program, with its name.
  Status start(const StartOrder& order);
  // Continues a restored command, whose output is dropped until attach().
  void go_on(KeptCommand from);
  [[nodiscard]] KeptCommand kept() const;
  // Another handle of the owner's controls it from then on.
  void attach(uint64_t number, bool wants_output, bool wants_errors);

  [[nodiscard]] int process_id() const { return process_; }
  [[nodiscard]] const LimitsReached& reached_before() const { return reached_before_; }  // before it began
  [[nodiscard]] size_t input_room() const { return input_room_; }
  [[nodiscard]] bool is_left() const { return is_left_; }
  [[nodiscard]] bool has_ended() const { return end_.has_value(); }
  // Whether its owner may have more input for it.
  [[nodiscard]] bool expects_input() const;

  // -- orders
  // False: more bytes than there was room for.
  bool feed(std::string_view bytes);
  void end_input();
  void add_room(FrameKind stream, uint64_t bytes);
  void resize(TerminalSize size);
  void signal(int number);
  // Nobody receives its output any more. A terminal is hung up.
  void leave();

  // The process has ended.
  void end(const CommandEnd& end) { end_ = end; }
  // Moves what can be moved. Reports the end once all output has left.
  void look();

 private:
  struct Stream {
    FrameSocket& socket;
    uint64_t number;
    FrameKind kind;
    uint64_t room = kOutputWindow;
    bool is_wanted = true;
  };
  static OutsideOutput::Sink sink_of(const std::shared_ptr<Stream>& stream);
  Try<FileRef> open_terminal(const CommandSpec& spec);
  void give_room_back(size_t bytes);

  Kernel& kernel_;
  FrameSocket& socket_;
  uint64_t number_;
  const std::function<void()> wake_;
  const std::shared_ptr<OutputCount> count_ = std::make_shared<OutputCount>();
  const std::shared_ptr<Stream> output_stream_, error_stream_;
  std::shared_ptr<OutsideInput> input_;
  std::shared_ptr<OutsideOutput> output_, errors_;
  std::unique_ptr<OutsideTerminal> terminal_;
  const LimitsReached reached_before_;
  int process_ = 0;
  size_t input_room_ = kInputWindow;  // that the owner may use
  size_t taken_ = 0;                  // input consumed but not yet reported to the owner
  bool is_left_ = false, is_end_reported_ = false;
  bool ends_input_ = false;  // for a terminal: once it has taken the fed input
  std::optional<CommandEnd> end_;
};

}  // namespace membrane::linux
