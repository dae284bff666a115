// Where guest programs run: address spaces, threads, and the traps by which they come to the kernel. The kernel
// (linux/kernel/) decides everything; a platform only runs machine code and changes memory as it is told.
//
//   A Space is the memory of one or more guest threads. A Thread is a guest thread: it runs, or it is stopped, and only
//   while it is stopped may its registers and its Space's mappings be changed through it. Every system call and every
//   exception of the guest stops it; nothing that a guest does reaches a system call of the host.
//
// Changes of memory (map, unmap, protect, move, discard) may be kept by the platform until a thread of the Space is
// resumed, or until read() or write() touch it: they are done in order, and before any guest code that was resumed after
// them. The kernel gives addresses and has checked the limits; a change that the host refuses ends the Space's threads
// with kGone.
//
// A guest may write its own memory while the kernel reads it: read what is needed once, check it, use the copy.
//
// Threads: one thread uses a platform and all that is of it, but for Platform::wake().
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

// The general registers, as user code sees them.
struct Registers {
  uint64_t r15 = 0, r14 = 0, r13 = 0, r12 = 0, rbp = 0, rbx = 0, r11 = 0, r10 = 0, r9 = 0, r8 = 0;
  uint64_t rax = 0, rcx = 0, rdx = 0, rsi = 0, rdi = 0, rip = 0, rflags = 0x202, rsp = 0;
  uint64_t fs_base = 0, gs_base = 0;
};

enum class StopKind : uint8_t {
  kSystemCall,   // rax has the number; rip is after the instruction
  kException,    // a fault of the guest's: signal, code and address are what Linux would put into siginfo
  kInterrupted,  // as interrupt() asked, between two instructions of the guest
  kGone,  // its process has ended, or what it said was not what the platform's part in it says: it is lost
};

struct Stop {
  StopKind kind = StopKind::kSystemCall;
  int signal = 0, code = 0, trap_number = 0;  // of kException
  uint64_t error_code = 0, address = 0;       // of kException; address is cr2 of a page fault
};

// What calls answer that only ask who the caller is.
struct Identity {
  uint32_t process = 0, thread = 0, parent = 0, user = 0, effective_user = 0, group = 0, effective_group = 0;
};

// What backs a mapping. A descriptor is the kernel's; it is duplicated when needed, and must not be closed or
// changed before the next resume() of a thread of the space.
struct Backing {
  int fd = -1;  // -1: zeros
  uint64_t offset = 0;
  bool is_shared = false;  // else the guest's writes are its own
  // How many bytes from `offset` on are the file's, in whole pages: what is mapped beyond them must not be mapped from `fd`, where
  // another file's bytes may follow (an access there is a SIGBUS).
  uint64_t length = UINT64_MAX;
  // Of a shared mapping: whether the guest may come to write. A hostile guest may use a descriptor that it is given for all
  // that it is open for, on the whole file. It never gets one that is open for writing but for a shared mapping with this.
  bool may_write = true;
  // Held as long as any page of the mapping may be mapped; the platform has nothing to do with it.
  std::shared_ptr<const void> held = nullptr;
};

// Whole pages.
struct PageRun {
  uint64_t address = 0, length = 0;
};

// What a space takes of the host's memory.
struct SpaceBytes {
  uint64_t resident = 0, tables = 0;
};

class Thread;

class Space {
 public:
  virtual ~Space() = default;

  // `address` and `length` are whole pages, inside [Platform::lowest(), Platform::highest()); `protection` is PROT_*. Replaces what is there.
  virtual void map(uint64_t address, uint64_t length, int protection, const Backing& backing) = 0;
  virtual void unmap(uint64_t address, uint64_t length) = 0;
  virtual void protect(uint64_t address, uint64_t length, int protection) = 0;
  // As mremap() with MREMAP_MAYMOVE and MREMAP_FIXED; what is at the new address is replaced. To its own address it grows,
  // into room that is free. What is moved was mapped by one call of map().
  virtual void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) = 0;
  // As madvise(MADV_DONTNEED): private pages are as they were mapped.
  virtual void discard(uint64_t address, uint64_t length) = 0;
  // Everything that is mapped goes.
  virtual void clear() = 0;

  // The guest's bytes, by its page protections. Returns how many there were before the first that cannot be had.
  virtual size_t read(uint64_t address, std::span<std::byte> bytes) = 0;
  virtual size_t write(uint64_t address, std::span<const std::byte> bytes) = 0;
  // As write(), also where the guest may not write: for loading programs.
  virtual size_t poke(uint64_t address, std::span<const std::byte> bytes) = 0;

  // Bytes of its private pages that it or a space that it was forked from has written, as the host counts them: what is shared with
  // others yet is divided by how many share it. 0 when it is not known.
  virtual uint64_t resident_bytes() = 0;
  // The same, but each page counts as a whole, whoever shares it; and what the host needs to map its pages. Cheaper to know.
  virtual SpaceBytes most_bytes() { return {.resident = resident_bytes()}; }

  // -- for keeping it (linux/kept/), while all its threads are stopped: memory as the guest made it
  // The pages of a range of private mappings that are not as what backs them has them, in ascending runs. Where that is not known, all
  // pages of the range.
  virtual std::vector<PageRun> own_pages(uint64_t address, uint64_t length) { return {{address, length}}; }
  // As read(), also where the guest may not read.
  virtual size_t peek(uint64_t address, std::span<std::byte> bytes) { return read(address, bytes); }
};

class Thread {
 public:
  // Ends it, running or not. The Space goes with the last thread that has it.
  virtual ~Thread() = default;

  Registers registers;    // while it is stopped: what it has, and what it will have
  Stop stop;              // why it stopped last
  void* owner = nullptr;  // the kernel's

  [[nodiscard]] virtual const std::shared_ptr<Space>& space() const = 0;
  virtual void resume() = 0;
  // A running thread stops soon, with what it does next or with kInterrupted; Platform::wait() gives it as any other.
  virtual void interrupt() = 0;

  // How long it has run on the host's processors.
  virtual std::chrono::nanoseconds cpu_time() { return {}; }

  // Running or not: the guest's calls that ask for these (getpid, gettid, getppid, getuid, geteuid, getgid, getegid) may be answered so,
  // and stop it no more, until it is told otherwise.
  virtual void set_identity(const Identity&) {}

  // The state of the vector and floating-point unit, in the format of XSAVE as signal frames have it (standard form, with the
  // software's bytes at 464). An empty one is that of a new program.
  virtual std::vector<std::byte> vector_state() = 0;
  virtual Done set_vector_state(std::span<const std::byte> state) = 0;

  // A new thread, stopped, with the registers and vector state of this one (which is stopped): in the same space; in a copy of
  // it, by copy-on-write, in which shared mappings are shared. Errors: EAGAIN, ENOMEM.
  virtual Try<std::unique_ptr<Thread>> clone_thread() = 0;
  virtual Try<std::unique_ptr<Thread>> fork() = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // "trap", "kvm", "test"
  // The addresses that guests may use.
  [[nodiscard]] virtual uint64_t lowest() const = 0;
  [[nodiscard]] virtual uint64_t highest() const = 0;

  // The address of code that all spaces have, outside of these addresses: as clock_gettime() for the clocks of the machine,
  // without a stop. 0: there is none.
  [[nodiscard]] virtual uint64_t clock_function() const { return 0; }

  // A stopped thread with an empty space of its own.
  virtual Try<std::unique_ptr<Thread>> start() = 0;

  // The next thread that has stopped; nullptr after `deadline`, or when wake() was called.
  virtual Thread* wait(std::optional<std::chrono::steady_clock::time_point> deadline) = 0;
  // From any thread or signal handler.
  virtual void wake() = 0;
};

struct TrapOptions {
  uint32_t spins = 0;  // rounds that each side looks before it sleeps; more than one core wanted
  int most_threads = 4096;
  // The calling thread and all guests run on the core that the caller is on, until the platform's end: waking another core
  // takes longer than the rest of a system call. Guest threads that compute, when there is more than one, run on any core.
  bool shares_core = true;
  // `rdtsc` of a guest is an exception, for a kernel that answers it by another clock.
  bool traps_time_stamps = false;
};
// linux/platform/trap/trap.h has more. Errors: kUnsupported on a machine whose kernel has no seccomp filters or no fsgsbase.
Result<std::unique_ptr<Platform>> start_trap_platform(const TrapOptions& options);

struct KvmOptions {
  int device = -1;  // /dev/kvm, open for reading and writing, which stays the caller's; -1: it is opened
  int most_threads = 4096;
  bool shares_core = true;         // as for trap
  bool traps_time_stamps = false;  // as for trap
};
// linux/platform/kvm/kvm.h has more. Errors: kUnsupported, with the reason, where /dev/kvm is missing or too weak.
Result<std::unique_ptr<Platform>> start_kvm_platform(const KvmOptions& options);

}  // namespace membrane::linux
