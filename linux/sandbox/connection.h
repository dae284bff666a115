// The owner's side of the socket to a kernel process: a thread that reads it, orders that wait for their
// answers, and commands that receive output. Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "linux/sandbox/protocol.h"

namespace membrane::linux {

class CommandEar;

class Connection {
 public:
  explicit Connection(HostFile socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] uint64_t take_number();
  // Waits for the answer. Errors: those that the kernel process reports; kUnavailable when it is lost, or has
  // not answered within kMostPatience, by when it has given up itself.
  Result<std::string> ask(FrameKind kind, std::string_view bytes = {}, std::span<const int> files = {});
  Result<std::string> ask(uint64_t number, FrameKind kind, std::string_view bytes = {},
                          std::span<const int> files = {});
  // The same for orders that are answered at once. After kPatience the kernel process counts as lost.
  Result<std::string> ask_soon(FrameKind kind);
  // Sends an order that is not answered. One that cannot be sent is lost with the kernel process.
  void tell(FrameKind kind, uint64_t number, std::string_view bytes = {});

  // Delivers messages about a command there, until it is removed. add(): false when the kernel process is
  // lost.
  bool add(uint64_t number, std::shared_ptr<CommandEar> ear);
  void remove(uint64_t number);

  void end();  // ends the kernel process; pending calls fail

 private:
  static constexpr auto kPatience = std::chrono::seconds(10), kMostPatience = std::chrono::seconds(300);
  using Clock = std::chrono::steady_clock;
  Result<std::string> ask_until(Clock::time_point until, uint64_t number, FrameKind kind,
                                std::string_view bytes, std::span<const int> files);
  struct Asked {
    std::string pieces;
    std::optional<Result<std::string>> answer;
    std::condition_variable answered;
  };
  void read_all();
  bool take(Frame& frame);
  bool take_answer(const Frame& frame);
  void lose(const Error& why);

  FrameSocket socket_;
  std::mutex mutex_;  // of what follows
  uint64_t last_number_ = 0;
  std::map<uint64_t, Asked*> asked_;
  std::map<uint64_t, std::shared_ptr<CommandEar>> ears_;
  std::optional<Error> lost_;
  std::thread thread_;
};

// Receives the messages about one command. The connection's thread adds them; a thread of the ear's own calls
// back, so that a slow callback stops no other command.
class CommandEar {
 public:
  explicit CommandEar(CommandEvents events) : events_(std::move(events)) {}
  ~CommandEar();
  CommandEar(const CommandEar&) = delete;
  CommandEar& operator=(const CommandEar&) = delete;

  [[nodiscard]] bool wants_output() const { return events_.on_output != nullptr; }
  [[nodiscard]] bool wants_errors() const { return events_.on_error != nullptr; }
  // The command was started: callbacks start now. `connection` must outlive the thread.
  void begin(Connection& connection, uint64_t number, size_t input_room);
  void stop();  // no callback follows

  // -- by the connection's thread. False: more than there was room for, or after the end.
  bool add_output(FrameKind kind, std::string bytes);
  bool add_input_room(uint64_t bytes);
  void end(const CommandEnd& end);

  // Waits for room; returns how much there is, at most `most`. 0: the command has ended.
  size_t take_input_room(size_t most);
  std::optional<CommandEnd> wait(std::optional<std::chrono::steady_clock::time_point> until);

 private:
  struct Piece {
    FrameKind kind;
    std::string bytes;
  };
  void call_back(Connection& connection, uint64_t number);

  const CommandEvents events_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_, room_, over_;
  std::deque<Piece> pieces_;
  size_t held_[2] = {0, 0};  // bytes of output and errors not yet returned as room
  size_t input_room_ = 0;
  std::optional<CommandEnd> end_;
  bool is_over_ = false;  // on_end was called
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace membrane::linux
