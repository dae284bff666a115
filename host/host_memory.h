// The memory that the host uses on behalf of one sandbox, beside the sandbox's own.
//
// What the host keeps (files in memory, listings of open directories, an answer that nobody has read yet, the result
// of a turn) is announced here by its size; what it needs during one call (a request that is parsed, a result before
// it is copied into the guest) is held to left_for_call(). The host lends kKeptBytes and kCallBytes; whatever it keeps
// beyond that is taken from the sandbox's memory limit, so the linear memory can grow by so much less. Together:
//
//   linear memory + kept + used by one call  <=  memory limit + kKeptBytes + kCallBytes
//
// Sizes depend on nothing but what the guest did, so a run meets a limit at the same place each time.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace membrane::host {

class HostMemory {
 public:
  static constexpr uint64_t kKeptBytes = 6u << 20;
  static constexpr uint64_t kCallBytes = 12u << 20;
  // What a call is given takes many times its bytes while it is parsed. After a call that was given or gave so much,
  // the allocator gives back what it keeps of it (base/freed_memory.h), since the linear memory may grow into that.
  static constexpr uint64_t kLargeBytes = 256u << 10;

  // Who makes the host keep something.
  enum class Holder : uint8_t { kFiles, kListings, kAnswer, kResult, kNotes };
  static constexpr size_t kHolders = 5;

  // The sandbox's memory limit, as far as it is not used.
  class Limit {
   public:
    virtual ~Limit() = default;
    [[nodiscard]] virtual uint64_t left_bytes() const = 0;
    // The limit is so many bytes lower than the policy says. False: less is left, and nothing changed. Lowering it
    // by less than before always succeeds.
    [[nodiscard]] virtual bool lower_by(uint64_t bytes) = 0;
  };

  // `limit` is borrowed; null for a sandbox without memory, which has what the host lends.
  explicit HostMemory(Limit* limit = nullptr) : limit_(limit) {}

  // So much is kept for the holder now, in place of what it had. False: there is no room, and it has what it had.
  // Keeping less always succeeds.
  [[nodiscard]] bool keep(Holder holder, uint64_t bytes);
  // The same for what is there already, whether there is room or not. False: there is not, and the holder has all that
  // is left, so that nobody can keep more beside it.
  bool keep_what_is_there(Holder holder, uint64_t bytes);
  [[nodiscard]] uint64_t kept() const;
  // How much more may be kept.
  [[nodiscard]] uint64_t left_to_keep() const;
  // How much a call may use until it returns, beside what is in use.
  [[nodiscard]] uint64_t left_for_call() const;

  // Memory that a call uses as long as this lives. It is counted, and not refused: ask left_for_call() first.
  class Use {
   public:
    Use(HostMemory& memory, uint64_t bytes) : memory_(memory), bytes_(bytes) { memory_.in_use_ += bytes; }
    ~Use() { memory_.in_use_ -= bytes_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    HostMemory& memory_;
    uint64_t bytes_;
  };

 private:
  Limit* limit_;
  std::array<uint64_t, kHolders> kept_{};
  uint64_t in_use_ = 0;
};

}  // namespace membrane::host
