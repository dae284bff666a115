// The memory of a machine (monitor/layout.h): the descriptor tables by which every system call and exception leaves it, and the
// page tables of a space. The tables are filled on page faults, by the protections that the kernel asked for: a
// guest's page is at the address that it has in the monitor's process, whose own mappings the host looks at besides.
//
// Processors may continue using entries that were taken away (kvm keeps shadows of them), but never miss ones that were added. So
// entries only gain rights; what must lose some gets tables that are all new, at addresses that had none before.
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
  // nullptr: there is no memory for it.
  static std::unique_ptr<GuestTables> make();
  // For a fork: the same protections and places, and no page present yet.
  [[nodiscard]] std::unique_ptr<GuestTables> copy() const;
  ~GuestTables();
  GuestTables(const GuestTables&) = delete;

  // The machine's memory, until it is closed.
  [[nodiscard]] int file() const { return file_.number(); }
  void close_file() { file_.close(); }

  // What the kernel says, in whole pages.
  void map(uint64_t address, uint64_t length, int protection);
  void protect(uint64_t address, uint64_t length, int protection) { map(address, length, protection); }
  void unmap(uint64_t address, uint64_t length);
  void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length);

  // Memory that the machine shall have: a slot of it.
  struct Slot {
    uint32_t number = 0;
    uint64_t physical = 0, length = 0, address = 0;
  };
  [[nodiscard]] std::vector<Slot> slots() const;

  enum class Answer : uint8_t {
    kPresent,    // the page is there now; if needs_slot() gave one, once that is made
    kNoMapping,  // nothing is mapped there
    kForbidden,  // what is mapped there does not permit it
    kFull,       // the page tables are full; renew() helps
    kNoRoom,     // the machine's physical addresses are all used
  };
  // What a page fault of a guest means, by the processor's error code.
  [[nodiscard]] Answer judge(uint64_t address, uint64_t error_code) const;
  // The slot that must be there before fill().
  std::optional<Slot> needs_slot(uint64_t address);
  // Makes the page present, and those around it, which most likely come next; or that page only.
  Answer fill(uint64_t address, bool is_alone);

  // The tables' root. All rights that were taken away since the last time have no trace in it.
  uint64_t root();
  // From now on, tables with nothing in them.
  void discard() { is_stale_ = true; }
  // Uses the tables' room anew. No processor may run, and the machine must have forgotten what was there.
  void renew();

  // The frame that an exception left for the slot's processor.
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
  // The table that an entry names, made if there is none; 0: no room.
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
  std::map<uint64_t, uint64_t> windows_;  // physical addresses of each GiB that was used
  std::map<uint64_t, Slot> slots_;        // by physical address
};

}  // namespace membrane::linux
