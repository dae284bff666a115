// The table of system calls.
#include "linux/kernel/call.h"

namespace membrane::linux {

// Declares the handlers of the rows that have one.
#define HANDLER_kWhole(name) int64_t sys_##name(Call& call);
#define HANDLER_kPartly(name) int64_t sys_##name(Call& call);
#define HANDLER_kAbsent(name)
#define X(number, name, state) HANDLER_##state(name)
#include "linux/kernel/syscalls.def"
#undef X
#undef HANDLER_kWhole
#undef HANDLER_kPartly
#undef HANDLER_kAbsent

namespace {

constexpr size_t kNumbers = 512;

struct Table {
  std::array<CallRow, kNumbers> rows = {};
};

const Table& table() {
  static const Table made = [] {
    Table t;
#define HANDLER_kWhole(name) &sys_##name
#define HANDLER_kPartly(name) &sys_##name
#define HANDLER_kAbsent(name) nullptr
#define X(number, name, state) t.rows[number] = {#name, HANDLER_##state(name), CallState::state};
#include "linux/kernel/syscalls.def"
#undef X
    return t;
  }();
  return made;
}

}  // namespace

const CallRow* row_of(uint64_t number) {
  if (number >= kNumbers || table().rows[number].name == nullptr) return nullptr;
  return &table().rows[number];
}

}  // namespace membrane::linux
