// The memory that the host uses on behalf of one sandbox, in addition to the sandbox's own.
//
// What the host keeps (files in memory, listings of open directories, an unread answer, the result of a turn) is
// accounted here by its size; what it needs during one call (a parsed request, a result before it is copied into the
// guest) is limited to left_for_call(). The host lends kKeptBytes and kCallBytes; what it keeps beyond that is taken
// from the sandbox's memory limit, so the linear memory can grow by that much less. Together:
//
//   linear memory + kept + used by one call  <=  memory limit + kKeptBytes + kCallBytes
//
// Sizes depend only on what the guest did, so a run reaches a limit at the same point each time.
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
  // Parsing a call's input takes many times its bytes. After a call with this much input or output, the allocator
  // returns freed memory to the system (base/freed_memory.h), since the linear memory may grow into it.
  static constexpr uint64_t kLargeBytes = 256u << 10;

  // What the host keeps memory for.
  enum class Holder : uint8_t { kFiles, kListings, kAnswer, kResult, kNotes };
  static constexpr size_t kHolders = 5;

  // The unused part of the sandbox's memory limit.
  class Limit {
   public:
    virtual ~Limit() = default;
    [[nodiscard]] virtual uint64_t left_bytes() const = 0;
    // Lowers the limit by this many bytes compared with the policy. False: less is left, and nothing changed.
    // Lowering it by less than before always succeeds.
    [[nodiscard]] virtual bool lower_by(uint64_t bytes) = 0;
  };

  // `limit` is borrowed; null for a sandbox without memory, which has only what the host lends.
  explicit HostMemory(Limit* limit = nullptr) : limit_(limit) {}

  // Sets how much is kept for the holder, replacing its previous amount. False: there is no room, and the amount is
  // unchanged. Keeping less always succeeds.
  [[nodiscard]] bool keep(Holder holder, uint64_t bytes);
  // The same for memory that is already in use, whether there is room or not. False: there is not, and the holder
  // takes all that is left, so that no one else can keep more.
  bool keep_what_is_there(Holder holder, uint64_t bytes);
  [[nodiscard]] uint64_t kept() const;
  // How much more can be kept.
  [[nodiscard]] uint64_t left_to_keep() const;
  // How much a call may use until it returns, in addition to what is in use.
  [[nodiscard]] uint64_t left_for_call() const;

  // Memory that a call uses while this object lives. It is counted, and not refused: check left_for_call() first.
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
