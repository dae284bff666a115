#include "linux/sandbox/connection.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace membrane::linux {

namespace {

// Signals of the caller's process must not be handled in threads of the library.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

constexpr CommandEnd kLost = {.was_signalled = true, .status = SIGKILL};

Error lost_error() { return {ErrorCode::kUnavailable, "the kernel process of the sandbox is lost", ""}; }

}  // namespace

// -- the connection ---------------------------------------------------------------------------------------------------

Connection::Connection(HostFile socket) : socket_(std::move(socket), FrameReader::From::kKernelProcess) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { read_all(); });
}

Connection::~Connection() {
  end();
  thread_.join();
}

void Connection::end() { socket_.shut(); }

uint64_t Connection::take_number() {
  const std::scoped_lock lock(mutex_);
  return ++last_number_;
}

Result<std::string> Connection::ask(FrameKind kind, std::string_view bytes, std::span<const int> files) {
  return ask(take_number(), kind, bytes, files);
}

Result<std::string> Connection::ask(uint64_t number, FrameKind kind, std::string_view bytes,
                                    std::span<const int> files) {
  return ask_until(Clock::now() + kMostPatience, number, kind, bytes, files);
}

Result<std::string> Connection::ask_soon(FrameKind kind) {
  return ask_until(Clock::now() + kPatience, take_number(), kind, {}, {});
}

Result<std::string> Connection::ask_until(Clock::time_point until, uint64_t number, FrameKind kind,
                                          std::string_view bytes, std::span<const int> files) {
  Asked asked;
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return std::unexpected(*lost_);
    asked_[number] = &asked;
  }
  const Status sent = socket_.send(kind, number, bytes, files);
  std::unique_lock lock(mutex_);
  const auto is_answered = [&asked] { return asked.answer.has_value(); };
  if (sent || sent.error().code == ErrorCode::kUnavailable) {  // then the reading thread notices too
    if (!asked.answered.wait_until(lock, until, is_answered)) socket_.shut();
    asked.answered.wait(lock, is_answered);
  }
  asked_.erase(number);
  if (!asked.answer) return std::unexpected(sent.error());
  return std::move(*asked.answer);
}

void Connection::tell(FrameKind kind, uint64_t number, std::string_view bytes) {
  static_cast<void>(socket_.send(kind, number, bytes));
}

bool Connection::add(uint64_t number, std::shared_ptr<CommandEar> ear) {
  const std::scoped_lock lock(mutex_);
  if (!lost_) ears_[number] = std::move(ear);
  return !lost_;
}

void Connection::remove(uint64_t number) {
  const std::scoped_lock lock(mutex_);
  ears_.erase(number);
}

void Connection::read_all() {
  for (;;) {
    auto frame = socket_.receive();
    if (!frame) return lose(frame.error());
    if (take(*frame)) continue;
    socket_.shut();
    return lose(
        {ErrorCode::kUnavailable, "the kernel process of the sandbox broke the protocol and was ended", ""});
  }
}

// All commands end with the kernel process.
void Connection::lose(const Error& why) {
  socket_.shut();
  std::map<uint64_t, std::shared_ptr<CommandEar>> ears;
  {
    const std::scoped_lock lock(mutex_);
    lost_ = why.code == ErrorCode::kUnavailable && why.message.starts_with("the kernel process")
                ? why
                : lost_error();
    for (auto& [number, asked] : asked_) {
      if (!asked->answer) asked->answer = std::unexpected(*lost_);
      asked->answered.notify_all();
    }
    ears.swap(ears_);
  }
  for (auto& [number, ear] : ears) ear->end(kLost);
}

// False: a kernel process never sends that.
bool Connection::take(Frame& frame) {
  if (frame.kind == FrameKind::kAnswer || frame.kind == FrameKind::kPiece) return take_answer(frame);
  std::shared_ptr<CommandEar> ear;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = ears_.find(frame.number);
    if (found == ears_.end()) return frame.number <= last_number_;  // the owner has left it
    ear = found->second;
  }
  switch (frame.kind) {
    case FrameKind::kInputRoom: {
      Unpacker from(frame.bytes);
      const uint64_t bytes = from.number(kInputWindow);
      return from.is_whole() && ear->add_input_room(bytes);
    }
    case FrameKind::kEnd: {
      const auto end = unpack_end(frame.bytes);
      if (end) ear->end(*end);
      return end.has_value();
    }
    default: return ear->add_output(frame.kind, std::move(frame.bytes));
  }
}

bool Connection::take_answer(const Frame& frame) {
  const std::scoped_lock lock(mutex_);
  const auto found = asked_.find(frame.number);
  if (found == asked_.end() || found->second->answer) return false;
  Asked& asked = *found->second;
  if (asked.pieces.size() + frame.bytes.size() > kMostAnswerBytes) return false;
  if (frame.kind == FrameKind::kPiece) {
    asked.pieces += frame.bytes;
    return true;
  }
  auto answer = unpack_answer(frame.bytes);
  if (answer && !asked.pieces.empty()) answer = std::move(asked.pieces) + *answer;
  asked.answer = std::move(answer);
  asked.answered.notify_all();
  return true;
}

// -- a command --------------------------------------------------------------------------------------------------------

CommandEar::~CommandEar() { stop(); }

void CommandEar::begin(Connection& connection, uint64_t number, size_t input_room) {
  const std::scoped_lock lock(mutex_);
  input_room_ = std::min(input_room, kInputWindow);
  const SignalsBlocked blocked;
  thread_ = std::thread([this, &connection, number] { call_back(connection, number); });
}

void CommandEar::stop() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    news_.notify_all();
    room_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool CommandEar::add_output(FrameKind kind, std::string bytes) {
  if (bytes.empty()) return true;
  const std::scoped_lock lock(mutex_);
  const bool is_output = kind == FrameKind::kOutput;
  if (end_ || (is_output ? !wants_output() : !wants_errors())) return false;
  size_t& held = held_[is_output ? 0 : 1];
  if (bytes.size() > kOutputWindow - held) return false;
  held += bytes.size();
  // What is waiting grows, so that a slow reader is called less often, with more.
  if (!pieces_.empty() && pieces_.back().kind == kind && pieces_.back().bytes.size() < kPieceBytes)
    pieces_.back().bytes += bytes;
  else pieces_.push_back({kind, std::move(bytes)});
  news_.notify_one();
  return true;
}

bool CommandEar::add_input_room(uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > kInputWindow - input_room_) return false;
  input_room_ += bytes;
  room_.notify_all();
  return true;
}

void CommandEar::end(const CommandEnd& end) {
  const std::scoped_lock lock(mutex_);
  if (end_) return;
  end_ = end;
  news_.notify_all();
  room_.notify_all();
}

void CommandEar::call_back(Connection& connection, uint64_t number) {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [this] { return is_stopped_ || end_ || !pieces_.empty(); });
    if (is_stopped_) return;
    if (pieces_.empty()) break;
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    const bool is_output = piece.kind == FrameKind::kOutput;
    lock.unlock();
    (is_output ? events_.on_output : events_.on_error)(piece.bytes);
    lock.lock();
    held_[is_output ? 0 : 1] -= piece.bytes.size();
    if (end_) continue;
    lock.unlock();
    connection.tell(is_output ? FrameKind::kOutputRoom : FrameKind::kErrorRoom, number,
                    Packer().number(piece.bytes.size()).bytes());
    lock.lock();
  }
  const CommandEnd end = *end_;
  lock.unlock();
  if (events_.on_end) events_.on_end(end);
  lock.lock();
  is_over_ = true;
  over_.notify_all();
}

size_t CommandEar::take_input_room(size_t most) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return is_stopped_ || end_ || input_room_ > 0; });
  if (is_stopped_ || end_) return 0;
  const size_t room = std::min(most, input_room_);
  input_room_ -= room;
  return room;
}

std::optional<CommandEnd> CommandEar::wait(std::optional<std::chrono::steady_clock::time_point> until) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_over_; };
  if (!until) over_.wait(lock, is_over);
  else if (!over_.wait_until(lock, *until, is_over)) return std::nullopt;
  return end_;
}

}  // namespace membrane::linux
