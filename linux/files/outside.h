// Standard streams that connect the sandbox with the outside. To the guest they are pipes.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "linux/files/byte_queue.h"
#include "linux/files/file.h"

namespace membrane::linux {

// Input for the guest: any thread feeds it, the kernel's thread reads it. It holds no more than its capacity.
class OutsideInput : public std::enable_shared_from_this<OutsideInput> {
 public:
  // The feeding thread calls `wake`, which must make the kernel call after_wake() in its own thread.
  explicit OutsideInput(std::function<void()> wake, size_t capacity = 65536);

  // The input that a file belongs to; nullptr for other files.
  static std::shared_ptr<OutsideInput> of(const File& file);

  // -- from any thread
  // Returns the number of bytes that fit.
  size_t feed(std::span<const std::byte> bytes);
  // Waits until there is room; false when no guest will read again.
  bool wait_for_room();
  void end();  // ends the input after what was fed

  // -- in the kernel's thread
  FileRef open();                  // a new description, for reading
  void after_wake();               // wakes readers that wait for input
  [[nodiscard]] bool has_ended();  // nothing more will be fed
  [[nodiscard]] size_t held();     // bytes that were fed but not read
  void stop();                     // no guest will read again: wait_for_room() returns
  // Lets another owner feed it from now on, with its `wake`.
  void attach(std::function<void()> wake);
  // Called with the number of bytes that a guest has just read.
  std::function<void(size_t)> on_taken;

 private:
  friend class FileState;  // linux/kept/file_state.h
  class InputFile;
  std::function<void()> wake_;
  const size_t capacity_;
  std::mutex mutex_;  // of what follows
  std::condition_variable room_;
  ByteQueue bytes_;
  bool has_ended_ = false, is_stopped_ = false;
  WaitQueue changed_;  // the kernel's thread alone
  NodeRef node_;
};

// How much may leave by all outputs that share it.
struct OutputCount {
  uint64_t limit_bytes = UINT64_MAX, bytes = 0;
  bool was_reached = false;          // the limit was exceeded
  std::function<void()> on_reached;  // called then, once
};

// Output of the guest. Threads: the kernel's thread, but for has_room().
class OutsideOutput : public std::enable_shared_from_this<OutsideOutput> {
 public:
  // Takes bytes and gives how many it took: 0 when it is full. Errors: EPIPE when it is gone.
  using Sink = std::function<Try<size_t>(std::span<const std::byte>)>;
  OutsideOutput(Sink sink, std::shared_ptr<OutputCount> count, std::function<void()> wake = {});

  static std::shared_ptr<OutsideOutput> of(const File& file);
  // What is written goes there from now on.
  void attach(Sink sink, std::shared_ptr<OutputCount> count, std::function<void()> wake = {});

  // From any thread: the sink that was full is no longer. Calls `wake`, which has the kernel call after_wake().
  void has_room();
  void after_wake();
  FileRef open();  // a new description, for writing

 private:
  class OutputFile;
  Try<size_t> write(Caller& caller, Buffer& from);
  Sink sink_;
  std::shared_ptr<OutputCount> count_;
  std::function<void()> wake_;
  bool is_full_ = false;
  WaitQueue changed_;
  NodeRef node_;
};

}  // namespace membrane::linux
