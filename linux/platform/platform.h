// Where guest programs run: address spaces, threads, and traps into the kernel. The kernel (linux/kernel/)
// decides everything; a platform only runs machine code and changes memory on its orders.
//
//   A Space is the memory of one or more guest threads. A Thread is a guest thread: it runs, or it is stopped, and only
//   while it is stopped may its registers and its Space's mappings be changed through it. Every system call and every
//   exception of the guest stops it; nothing that a guest does reaches a system call of the host.
//
// A platform may delay changes of memory (map, unmap, protect, move, discard) until a thread of the Space is
// resumed, or until read() or write() touch it. It makes them in order, and before any guest code that was
// resumed after them. The kernel passes addresses and has checked the limits; if the host refuses a change,
// the Space's threads end with kGone.
//
// A guest may write its own memory while the kernel reads it: read what is needed once, check it, and use the
// copy.
//
// Threads: one thread uses a platform and everything that belongs to it, except Platform::wake().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/abi/answer.h"

namespace membrane::linux {

// The general registers, as seen by user code.
struct Registers {
  uint64_t r15 = 0, r14 = 0, r13 = 0, r12 = 0, rbp = 0, rbx = 0, r11 = 0, r10 = 0, r9 = 0, r8 = 0;
  uint64_t rax = 0, rcx = 0, rdx = 0, rsi = 0, rdi = 0, rip = 0, rflags = 0x202, rsp = 0;
  uint64_t fs_base = 0, gs_base = 0;
};

enum class StopKind : uint8_t {
  kSystemCall,   // rax has the number; rip is after the instruction
  kException,    // a guest fault: signal, code and address are as in Linux's siginfo
  kInterrupted,  // by interrupt(), between two guest instructions
  kGone,         // its process has ended, or the platform's part in it broke the protocol: it is lost
};

struct Stop {
  StopKind kind = StopKind::kSystemCall;
  int signal = 0, code = 0, trap_number = 0;  // of kException
  uint64_t error_code = 0, address = 0;       // for kException; address is cr2 of a page fault
};

// The results of calls that only ask for the caller's identity.
struct Identity {
  uint32_t process = 0, thread = 0, parent = 0, user = 0, effective_user = 0, group = 0, effective_group = 0;
};

// What backs a mapping. The descriptor belongs to the kernel; it is duplicated when needed, and must not be
// closed or changed before the next resume() of a thread of the space.
struct Backing {
  int fd = -1;  // -1: zeros
  uint64_t offset = 0;
  bool is_shared = false;  // otherwise the guest's writes are private
  // How many bytes from `offset` on belong to the file, in whole pages: anything mapped beyond them must not
  // come from `fd`, where another file's bytes may follow (an access there is a SIGBUS).
  uint64_t length = UINT64_MAX;
  // For a shared mapping: whether the guest may later write. A hostile guest may use a descriptor for
  // everything that it is open for, on the whole file. It gets a descriptor that is open for writing only for
  // a shared mapping with this flag.
  bool may_write = true;
  // Kept alive as long as any page of the mapping may be mapped; opaque to the platform.
  std::shared_ptr<const void> held = nullptr;
};

// Whole pages.
struct PageRun {
  uint64_t address = 0, length = 0;
};

// A space's use of the host's memory.
struct SpaceBytes {
  uint64_t resident = 0, tables = 0;
};

class Thread;

class Space {
 public:
  virtual ~Space() = default;

  // `address` and `length` are whole pages, inside [Platform::lowest(), Platform::highest()); `protection` is
  // PROT_*. Replaces existing mappings.
  virtual void map(uint64_t address, uint64_t length, int protection, const Backing& backing) = 0;
  virtual void unmap(uint64_t address, uint64_t length) = 0;
  virtual void protect(uint64_t address, uint64_t length, int protection) = 0;
  // Like mremap() with MREMAP_MAYMOVE and MREMAP_FIXED; mappings at the new address are replaced. If the
  // address stays, the mapping grows into free room. A single call of map() must have mapped what is moved.
  virtual void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) = 0;
  // Like madvise(MADV_DONTNEED): private pages revert to what was mapped.
  virtual void discard(uint64_t address, uint64_t length) = 0;
  // Removes all mappings.
  virtual void clear() = 0;

  // Reads the guest's bytes, subject to its page protections. Returns how many came before the first
  // inaccessible one.
  virtual size_t read(uint64_t address, std::span<std::byte> bytes) = 0;
  virtual size_t write(uint64_t address, std::span<const std::byte> bytes) = 0;
  // Like write(), but ignores write protection: for loading programs.
  virtual size_t poke(uint64_t address, std::span<const std::byte> bytes) = 0;

  // Bytes of private pages that it or a space that it was forked from has written, as the host counts them: a
  // page that is still shared counts in proportion to the number of its users. 0 when unknown.
  virtual uint64_t resident_bytes() = 0;
  // The same, but each page counts as a whole, even if it is shared, plus the host's page tables. Cheaper to
  // compute.
  virtual SpaceBytes most_bytes() { return {.resident = resident_bytes()}; }

  // -- for keeping it (linux/kept/), while all its threads are stopped: memory as the guest made it
  // The pages of a range of private mappings that differ from what backs them, in ascending runs. Where that
  // is unknown, all pages of the range.
  virtual std::vector<PageRun> own_pages(uint64_t address, uint64_t length) { return {{address, length}}; }
  // Like read(), but ignores read protection.
  virtual size_t peek(uint64_t address, std::span<std::byte> bytes) { return read(address, bytes); }
};

class Thread {
 public:
  // Ends it, running or not. The Space ends with its last thread.
  virtual ~Thread() = default;

  Registers registers;    // while stopped: current values, which can be changed
  Stop stop;              // the reason of the last stop
  void* owner = nullptr;  // the kernel's

  [[nodiscard]] virtual const std::shared_ptr<Space>& space() const = 0;
  virtual void resume() = 0;
  // Makes a running thread stop soon, with its next stop or with kInterrupted; Platform::wait() returns it as
  // usual.
  virtual void interrupt() = 0;

  // The CPU time that it has used on the host.
  virtual std::chrono::nanoseconds cpu_time() { return {}; }

  // While running or stopped: the guest's calls that ask for these (getpid, gettid, getppid, getuid, geteuid,
  // getgid, getegid) may be answered with them, without a stop, until the next change.
  virtual void set_identity(const Identity&) {}

  // The state of the vector and floating-point unit, in the XSAVE format of signal frames (standard form,
  // with the software's bytes at 464). An empty one is that of a new program.
  virtual std::vector<std::byte> vector_state() = 0;
  virtual Done set_vector_state(std::span<const std::byte> state) = 0;

  // Creates a stopped thread with the registers and vector state of this one (which is stopped): in the same
  // space, or in a copy-on-write copy of it, in which shared mappings are shared. Errors: EAGAIN, ENOMEM.
  virtual Try<std::unique_ptr<Thread>> clone_thread() = 0;
  virtual Try<std::unique_ptr<Thread>> fork() = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // "trap", "kvm", "test"
  // The range of addresses that guests may use.
  [[nodiscard]] virtual uint64_t lowest() const = 0;
  [[nodiscard]] virtual uint64_t highest() const = 0;

  // The address of code outside this range that all spaces have: a clock_gettime() for the machine's clocks
  // that needs no stop. 0: none.
  [[nodiscard]] virtual uint64_t clock_function() const { return 0; }

  // Creates a stopped thread with an empty space of its own.
  virtual Try<std::unique_ptr<Thread>> start() = 0;

  // Returns the next thread that has stopped; nullptr after `deadline`, or when wake() was called.
  virtual Thread* wait(std::optional<std::chrono::steady_clock::time_point> deadline) = 0;
  // From any thread or signal handler.
  virtual void wake() = 0;
};

struct TrapOptions {
  uint32_t spins = 0;  // rounds that each side spins before it sleeps; needs more than one core
  int most_threads = 4096;
  // The calling thread and all guests run on the caller's current core, until the platform ends: waking
  // another core takes longer than the rest of a system call. When more than one guest thread computes, these
  // run on any core.
  bool shares_core = true;
  // A guest's `rdtsc` raises an exception, for a kernel that answers it from another clock.
  bool traps_time_stamps = false;
};
// See linux/platform/trap/trap.h. Errors: kUnsupported on a machine whose kernel lacks seccomp filters or
// fsgsbase.
Result<std::unique_ptr<Platform>> start_trap_platform(const TrapOptions& options);

struct KvmOptions {
  int device = -1;  // /dev/kvm, open for reading and writing, borrowed; -1: opened here
  int most_threads = 4096;
  bool shares_core = true;         // as for trap
  bool traps_time_stamps = false;  // as for trap
};
// See linux/platform/kvm/kvm.h. Errors: kUnsupported, with the reason, where /dev/kvm is missing or lacks
// features.
Result<std::unique_ptr<Platform>> start_kvm_platform(const KvmOptions& options);

}  // namespace membrane::linux
