#include "linux/files/outside.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {

class OutsideInput::InputFile final : public File {
 public:
  [[nodiscard]] const std::shared_ptr<OutsideInput>& input() const { return input_; }
  explicit InputFile(std::shared_ptr<OutsideInput> input) : input_(std::move(input)) { flags = O_RDONLY; }
  [[nodiscard]] const NodeRef& node() const override { return input_->node_; }
  [[nodiscard]] std::string description() const override { return anonymous_name("pipe", *input_->node_); }
  bool can_poll() override { return true; }
  void join(Waiter& waiter) override { waiter.join(input_->changed_); }

  Try<size_t> read(Caller&, Buffer& to) override {
    auto count = take(to);
    if (count && *count > 0 && input_->on_taken) input_->on_taken(*count);
    return count;
  }

  Try<size_t> write(Caller&, Buffer&) override { return err(EBADF); }

  short ready() override {
    const std::scoped_lock lock(input_->mutex_);
    int events = 0;
    if (!input_->bytes_.is_empty()) events |= POLLIN | POLLRDNORM;
    if (input_->has_ended_) events |= POLLHUP;
    return static_cast<short>(events);
  }

  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override {
    if (request != FIONREAD) return err(ENOTTY);
    const std::scoped_lock lock(input_->mutex_);
    MEMBRANE_TRY(caller.put(argument, static_cast<int>(input_->bytes_.size())));
    return 0;
  }

 private:
  Try<size_t> take(Buffer& to) {
    const std::scoped_lock lock(input_->mutex_);
    if (to.size() == 0) return 0;
    if (input_->bytes_.is_empty()) {
      if (input_->has_ended_) return 0;
      return err(EAGAIN);
    }
    auto count = input_->bytes_.give_to(to, to.size());
    input_->room_.notify_all();
    return count;
  }

  const std::shared_ptr<OutsideInput> input_;
};

std::shared_ptr<OutsideInput> OutsideInput::of(const File& file) {
  const auto* const its = dynamic_cast<const InputFile*>(&file);
  return its == nullptr ? nullptr : its->input();
}

void OutsideInput::attach(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

OutsideInput::OutsideInput(std::function<void()> wake, size_t capacity)
    : wake_(std::move(wake)), capacity_(capacity) {}

size_t OutsideInput::feed(std::span<const std::byte> bytes) {
  size_t count = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (has_ended_) return 0;
    count = std::min(bytes.size(), capacity_ - bytes_.size());
    bytes_.append(bytes.first(count));
  }
  if (count > 0 && wake_) wake_();
  return count;
}

bool OutsideInput::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return is_stopped_ || has_ended_ || bytes_.size() < capacity_; });
  return !is_stopped_ && !has_ended_;
}

size_t OutsideInput::held() {
  const std::scoped_lock lock(mutex_);
  return bytes_.size();
}

bool OutsideInput::has_ended() {
  const std::scoped_lock lock(mutex_);
  return has_ended_;
}

void OutsideInput::end() {
  {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
    room_.notify_all();
  }
  if (wake_) wake_();
}

FileRef OutsideInput::open() {
  if (node_ == nullptr) {
    auto node = make_anonymous_node(AnonymousDevice::kPipes, S_IFIFO | 0600);
    node->set_opener([input = weak_from_this()](const NodeRef&, int flags) -> Try<FileRef> {
      auto opened = input.lock();
      if (opened == nullptr || (flags & O_ACCMODE) != O_RDONLY) return err(EACCES);
      return opened->open();
    });
    node_ = node;
  }
  return std::make_shared<InputFile>(shared_from_this());
}

void OutsideInput::after_wake() { changed_.wake(); }

void OutsideInput::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  room_.notify_all();
}

class OutsideOutput::OutputFile final : public File {
 public:
  [[nodiscard]] const std::shared_ptr<OutsideOutput>& output() const { return output_; }
  explicit OutputFile(std::shared_ptr<OutsideOutput> output) : output_(std::move(output)) {
    flags = O_WRONLY;
  }
  [[nodiscard]] const NodeRef& node() const override { return output_->node_; }
  [[nodiscard]] std::string description() const override { return anonymous_name("pipe", *output_->node_); }
  bool can_poll() override { return true; }
  void join(Waiter& waiter) override { waiter.join(output_->changed_); }
  Try<size_t> read(Caller&, Buffer&) override { return err(EBADF); }
  Try<size_t> write(Caller& caller, Buffer& from) override { return output_->write(caller, from); }
  short ready() override { return output_->is_full_ ? 0 : POLLOUT | POLLWRNORM; }

 private:
  const std::shared_ptr<OutsideOutput> output_;
};

std::shared_ptr<OutsideOutput> OutsideOutput::of(const File& file) {
  const auto* const its = dynamic_cast<const OutputFile*>(&file);
  return its == nullptr ? nullptr : its->output();
}

void OutsideOutput::attach(Sink sink, std::shared_ptr<OutputCount> count, std::function<void()> wake) {
  sink_ = std::move(sink);
  count_ = std::move(count);
  wake_ = std::move(wake);
}

OutsideOutput::OutsideOutput(Sink sink, std::shared_ptr<OutputCount> count, std::function<void()> wake)
    : sink_(std::move(sink)), count_(std::move(count)), wake_(std::move(wake)) {}

// Bytes that were taken from the guest but not by the sink would be sent again, so no more is taken than is
// reported.
Try<size_t> OutsideOutput::write(Caller& caller, Buffer& from) {
  std::array<std::byte, 16384> piece;
  size_t done = 0;
  while (from.size() > 0) {
    const size_t allowed = std::min<uint64_t>(piece.size(), count_->limit_bytes - count_->bytes);
    if (allowed == 0) {
      if (!std::exchange(count_->was_reached, true) && count_->on_reached) count_->on_reached();
      if (done == 0) return err(ENOSPC);
      break;
    }
    const size_t wanted = std::min(allowed, from.size());
    auto taken = from.take(std::span(piece).first(wanted));
    if (!taken && done == 0) return taken;
    if (!taken || *taken == 0) break;
    auto sunk = sink_(std::span(piece).first(*taken));
    if (!sunk && done == 0) {
      if (sunk.error() == EPIPE) caller.signal_self(SIGPIPE);
      return sunk;
    }
    if (!sunk) break;
    done += *sunk;
    count_->bytes += *sunk;
    is_full_ = *sunk < *taken;
    if (is_full_ && done == 0) return err(EAGAIN);
    if (is_full_ || *taken < wanted) break;
  }
  return done;
}

void OutsideOutput::has_room() {
  if (wake_) wake_();
}

void OutsideOutput::after_wake() {
  is_full_ = false;
  changed_.wake();
}

FileRef OutsideOutput::open() {
  if (node_ == nullptr) {
    auto node = make_anonymous_node(AnonymousDevice::kPipes, S_IFIFO | 0600);
    node->set_opener([output = weak_from_this()](const NodeRef&, int flags) -> Try<FileRef> {
      auto opened = output.lock();
      if (opened == nullptr || (flags & O_ACCMODE) != O_WRONLY) return err(EACCES);
      return opened->open();
    });
    node_ = node;
  }
  return std::make_shared<OutputFile>(shared_from_this());
}

}  // namespace membrane::linux
