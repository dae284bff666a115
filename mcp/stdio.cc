#include "mcp/stdio.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mcp/lines.h"

namespace membrane::mcp {
namespace {

constexpr int kPatienceMs = 100;          // interval for checking whether to end
constexpr size_t kPieceBytes = 4u << 10;  // the most that a writable pipe accepts without blocking (PIPE_BUF)
constexpr size_t kMaxWaiting = 64;        // calls waiting for a thread, before reading stops

// Writes messages, each whole, as fast as the client reads them.
class Output {
 public:
  Output(int file, const std::atomic<bool>* stop) : file_(file), stop_(stop) {}

  // False when nobody reads any more, or it must end.
  bool write(std::string_view message) {
    std::string line(message);
    line += '\n';
    const std::lock_guard lock(mutex_);
    for (std::string_view rest = line; !rest.empty() && !is_over_;) {
      const size_t written = write_some(rest);
      rest.remove_prefix(written);
    }
    return !is_over_;
  }
  // Whether the other end is closed.
  bool is_closed() {
    pollfd poll_for = {.fd = file_, .events = 0, .revents = 0};
    if (poll(&poll_for, 1, 0) > 0 && (poll_for.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
      is_over_ = true;
    return is_over_;
  }
  void end() { is_over_ = true; }

 private:
  size_t write_some(std::string_view bytes) {
    pollfd poll_for = {.fd = file_, .events = POLLOUT, .revents = 0};
    const int ready = poll(&poll_for, 1, kPatienceMs);
    if ((stop_ != nullptr && *stop_) || (ready < 0 && errno != EINTR)) is_over_ = true;
    if (ready <= 0) return 0;
    if ((poll_for.revents & (POLLERR | POLLNVAL)) != 0) is_over_ = true;
    if (is_over_) return 0;
    const ssize_t written = put(bytes.substr(0, kPieceBytes));
    if (written >= 0) return static_cast<size_t>(written);
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) is_over_ = true;
    return 0;
  }
  // A socket accepts what it has room for; a pipe that is ready has room for a piece.
  ssize_t put(std::string_view bytes) {
    if (is_socket_) {
      const ssize_t sent = send(file_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0 || errno != ENOTSOCK) return sent;
      is_socket_ = false;
    }
    return ::write(file_, bytes.data(), bytes.size());
  }

  int file_;
  const std::atomic<bool>* stop_;
  std::mutex mutex_;  // one message at a time
  bool is_socket_ = true;
  std::atomic<bool> is_over_ = false;
};

// Threads that answer calls in order of arrival; as many as are needed, up to a limit.
class Workers {
 public:
  Workers(size_t most, std::function<void(Call&)> answer)
      : most_(std::max<size_t>(most, 1)), answer_(std::move(answer)) {}
  ~Workers() { finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void add(std::unique_ptr<Call> call) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(call));
    if (idle_ < waiting_.size() && threads_.size() < most_) threads_.emplace_back([this] { work(); });
    changed_.notify_all();
  }
  // Waits until there is room, or `patience` is over.
  bool has_room(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return waiting_.size() < kMaxWaiting; });
  }
  bool is_done(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return waiting_.empty() && busy_ == 0; });
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      std::unique_ptr<Call> call = std::move(waiting_.front());
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      answer_(*call);
      call = nullptr;
      lock.lock();
      --busy_;
      changed_.notify_all();
    }
  }

  size_t most_;
  std::function<void(Call&)> answer_;
  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Call>> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0, busy_ = 0;
  bool is_over_ = false;
};

class Connection {
 public:
  Connection(const Server& server, const StdioOptions& options)
      : server_(server),
        options_(options),
        output_(options.out, options.stop),
        workers_(options.threads, [this](Call& call) { answer(call); }) {}

  void serve() {
    LineReader lines(options_.most_line_bytes);
    const auto line = [this](std::string_view text) { receive(text); };
    const auto too_long = [this] { output_.write(Server::too_long(options_.most_line_bytes).json); };
    std::vector<char> bytes(kReadBytes);
    while (!is_to_end() && wait_for_input()) {
      if (!is_ready_) continue;
      const ssize_t got = read(options_.in, bytes.data(), bytes.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) break;
      lines.add({bytes.data(), static_cast<size_t>(got)}, line, too_long);
    }
    if (!is_to_end()) lines.finish(line, too_long);
    constexpr std::chrono::milliseconds kPatience(kPatienceMs);
    while (!is_to_end() && !workers_.is_done(kPatience)) continue;
    if (is_to_end()) peer_->cancel_all();
    workers_.finish();
  }

 private:
  static constexpr size_t kReadBytes = 64u << 10;

  bool is_to_end() {
    if (options_.stop != nullptr && *options_.stop) output_.end();
    return output_.is_closed();
  }
  // False at the end. `is_ready_` says whether there is something.
  bool wait_for_input() {
    pollfd poll_for = {.fd = options_.in, .events = POLLIN, .revents = 0};
    const int ready = poll(&poll_for, 1, kPatienceMs);
    is_ready_ = ready > 0;
    return ready >= 0 || errno == EINTR;
  }
  void receive(std::string_view text) {
    constexpr std::chrono::milliseconds kPatience(kPatienceMs);
    while (!workers_.has_room(kPatience))
      if (is_to_end()) return;
    auto call = server_.receive(
        text, {.peer = peer_, .notify = [this](std::string_view json) { output_.write(json); }});
    if (call->runs_program()) workers_.add(std::move(call));
    else answer(*call);
  }
  void answer(Call& call) {
    const Reply reply = call.answer();
    if (!reply.json.empty()) output_.write(reply.json);
  }

  const Server& server_;
  const StdioOptions& options_;
  std::shared_ptr<Peer> peer_ = std::make_shared<Peer>();
  Output output_;
  bool is_ready_ = false;
  Workers workers_;  // last member: its threads use the rest
};

}  // namespace

void serve_stdio(const Server& server, const StdioOptions& options) { Connection(server, options).serve(); }

}  // namespace membrane::mcp
