// The owner's end of a connection that a program of a Linux sandbox made.
//
// Threads: one at a time uses a stream; any may set a Stop.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::computers {

// Ends all waiting for streams, now and later.
class Stop {
 public:
  static Result<std::unique_ptr<Stop>> create();
  void set();
  [[nodiscard]] const std::atomic<bool>& is_set() const { return is_set_; }
  [[nodiscard]] int descriptor() const { return event_.number(); }  // readable once it is set

 private:
  explicit Stop(linux::HostFile event) : event_(std::move(event)) {}
  const linux::HostFile event_;
  std::atomic<bool> is_set_ = false;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Reads at least one byte, and as many as fit. 0 at the end, and when nothing more will come: the program
  // is gone or silent for too long, or everything has to stop.
  virtual size_t read(std::span<char> to) = 0;
  // Writes all of it; false when the program does not accept it.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;  // nothing more is written
};

class SocketStream final : public Stream {
 public:
  // `socket` comes from a kernel process, which may be hostile. Errors: kInvalidInput for anything but a stream.
  static Result<std::unique_ptr<SocketStream>> create(linux::HostFile socket, const Stop& stop);
  size_t read(std::span<char> to) override;
  bool write(std::string_view bytes) override;
  void end() override;
  // The first byte that read() will return; -1 if there will be none.
  int peek();
  // The time until which it waits; nothing: ten minutes without a byte.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> until) { until_ = until; }
  [[nodiscard]] int descriptor() const { return socket_.number(); }

 private:
  SocketStream(linux::HostFile socket, const Stop& stop) : socket_(std::move(socket)), stop_(stop) {}
  bool wait(short events);
  size_t receive(std::span<char> to, int flags);
  const linux::HostFile socket_;
  const Stop& stop_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace membrane::computers
