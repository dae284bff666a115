// The memory of a machine (monitor/layout.h): the descriptor tables through which every system call and
// exception leaves it, and the page tables of a space. Page faults fill the tables, by the protections that
// the kernel requested: a guest's page is at its address in the monitor's process, whose own mappings the
// host checks in addition.
//
// Processors may keep using removed entries (kvm keeps shadows of them), but never miss added ones. So
// entries only gain rights; to remove rights, the tables are rebuilt at addresses that held none before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "linux/platform/kvm/monitor/layout.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

class GuestTables {
 public:
  // nullptr when memory runs out.
  static std::unique_ptr<GuestTables> make();
  // For a fork: the same protections and places, with no page present yet.
  [[nodiscard]] std::unique_ptr<GuestTables> copy() const;
  ~GuestTables();
  GuestTables(const GuestTables&) = delete;

  // The machine's memory, until this is destroyed.
  [[nodiscard]] int file() const { return file_.number(); }
  void close_file() { file_.close(); }

  // The kernel's changes, in whole pages.
  void map(uint64_t address, uint64_t length, int protection);
  void protect(uint64_t address, uint64_t length, int protection) { map(address, length, protection); }
  void unmap(uint64_t address, uint64_t length);
  void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length);

  // A memory slot that the machine needs.
  struct Slot {
    uint32_t number = 0;
    uint64_t physical = 0, length = 0, address = 0;
  };
  [[nodiscard]] std::vector<Slot> slots() const;

  enum class Answer : uint8_t {
    kPresent,    // the page is present; if needs_slot() returned one, once that exists
    kNoMapping,  // nothing is mapped there
    kForbidden,  // the mapping does not permit it
    kFull,       // the page tables are full; renew() helps
    kNoRoom,     // the machine's physical addresses are exhausted
  };
  // The meaning of a guest's page fault, by the processor's error code.
  [[nodiscard]] Answer judge(uint64_t address, uint64_t error_code) const;
  // The slot that must exist before fill().
  std::optional<Slot> needs_slot(uint64_t address);
  // Makes the page present, and its neighbours, which most likely come next; or that page only.
  Answer fill(uint64_t address, bool is_alone);

  // The tables' root. No right that was removed since the last time remains in it.
  uint64_t root();
  // Starts new, empty tables.
  void discard() { is_stale_ = true; }
  // Reuses the tables' room. No processor may run, and the machine must have forgotten the old tables.
  void renew();

  // The frame of an exception on the slot's processor.
  struct Frame {
    uint64_t error_code = 0, rip = 0, code_segment = 0, flags = 0, rsp = 0;
  };
  [[nodiscard]] Frame frame(uint32_t slot, bool has_error_code) const;

 private:
  struct Area {
    uint64_t end = 0;
    int protection = 0;
  };
  using Areas = std::map<uint64_t, Area>;

  GuestTables() = default;
  bool prepare();
  uint64_t* words(uint64_t physical) const;
  uint64_t new_page();
  // The table of an entry, created if missing; 0: no room.
  uint64_t descend(uint64_t& entry);
  void cut(uint64_t address);
  [[nodiscard]] Areas::const_iterator area_at(uint64_t address) const;
  bool make_root();
  Answer fill_large(uint64_t* directory, uint64_t address, uint64_t window, Areas::const_iterator area);
  void fill_small(uint64_t* table, uint64_t from, uint64_t to, uint64_t window);

  HostFile file_;
  std::byte* memory_ = nullptr;
  uint64_t next_ = KVM_TABLES, root_ = 0;
  bool is_stale_ = true;
  Areas areas_;
  std::map<uint64_t, uint64_t> windows_;  // physical addresses of each used GiB
  std::map<uint64_t, Slot> slots_;        // by physical address
};

}  // namespace membrane::linux
