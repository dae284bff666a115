// Arbitrary bytes as a saved session of a small program that reads its turns as input and is in the middle of its
// call: with a corrected checksum they are refused, or give a session that takes a turn, ends it by its limits, and
// is saved again. No crash, no hang, no leak.
//
// The input: edits of five bytes each, an offset (4 bytes, modulo the size) and the byte to write, in a valid
// session between two turns or, when the first byte of the input is odd, in one that is paused. Remaining bytes that
// make no edit give the number of bytes to cut from the session's end.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "sandbox/session.h"
#include "sandbox/session_state.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace {

using namespace membrane;
using namespace membrane::sandbox;
namespace fs = std::filesystem;

// Adds the bytes that it reads to a sum in a local, a global and memory, calls through a table that it changes,
// opens a file at the end of a line, and prints.
constexpr std::string_view kProgram = R"((module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1 4)
  (data (i32.const 200) "file")
  (table $t 2 8 funcref)
  (global $sum (mut i32) (i32.const 0))
  (elem (i32.const 0) $plain $plain)
  (elem declare func $random)
  (func $plain (param i32) (result i32) (local.get 0))
  (func $random (param i32) (result i32)
    (drop (call $random_get (i32.const 80) (i32.const 1)))
    (i32.load8_u (i32.const 80)))
  (func $read (result i32)
    (i64.store (i32.const 0) (i64.const 0x1_0000_0010))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (select (i32.load8_u (i32.const 16)) (i32.const -1) (i32.load (i32.const 8))))
  (func $write (param $fd i32)
    (i64.store (i32.const 0) (i64.const 0x4_0000_0064))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start") (local $c i32) (local $total i64)
    (loop $next
      (local.set $c (call $read))
      (if (i32.eq (local.get $c) (i32.const -1)) (then (return)))
      (table.set $t (i32.const 1) (select (result funcref) (ref.func $random) (ref.func $plain)
                                          (i32.eq (local.get $c) (i32.const 0x72))))
      (global.set $sum (i32.add (global.get $sum) (call_indirect $t (param i32) (result i32) (local.get $c) (i32.const 1))))
      (local.set $total (i64.add (local.get $total) (i64.extend_i32_u (local.get $c))))
      (i64.store (i32.const 100) (i64.or (i64.and (local.get $total) (i64.const 0x0707070707)) (i64.const 0x3030303030)))
      (i32.store (i32.add (i32.const 1000) (i32.and (global.get $sum) (i32.const 0xffff))) (local.get $c))
      (if (i32.eq (local.get $c) (i32.const 10))
        (then (drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 200) (i32.const 4) (i32.const 1)
                                     (i64.const 66) (i64.const 0) (i32.const 1) (i32.const 16)))
              (call $write (i32.load (i32.const 16)))
              (call $write (i32.const 1))))
      (br $next)))) )";

void need(bool holds) {
  if (!holds) std::abort();
}

RunOptions options() {
  RunOptions options;
  options.policy.limits.fuel = 20'000;
  options.policy.limits.memory_bytes = 1u << 20;
  options.policy.limits.wall_ms = 600'000;
  return options;
}

struct Good {
  std::shared_ptr<const Template> of;
  std::vector<uint8_t> between, paused;

  Good() {
    std::string directory = "/tmp/session-fuzz-XXXXXX";
    need(mkdtemp(directory.data()) != nullptr);
    auto parsed = wasm::parse_text(kProgram);
    need(parsed.has_value());
    lang::Package package;
    package.name = "fuzzed";
    package.driver = lang::Driver::kStdin;
    package.end = "\n";
    package.module.path = directory + "/module.wasm";
    const std::vector<uint8_t> binary = wasm::encode(*parsed);
    std::ofstream(package.module.path, std::ios::binary)
        .write(reinterpret_cast<const char*>(binary.data()), static_cast<std::streamsize>(binary.size()));
    auto opened = Template::open(package, {.cache_directory = directory + "/cache", .on_progress = {}});
    need(opened.has_value());
    of = *opened;
    auto session = Session::create(of, options()).value();
    need(session->exec({.code = "some text"}).outcome == Outcome::kOk);
    between = session->keep().value();
    need(session->exec({.code = "another text", .pause_at_fuel = 500}).outcome == Outcome::kFrozen);
    paused = session->keep().value();
    fs::remove_all(directory);
  }
};

void try_session(const Good& good, std::span<const uint8_t> bytes) {
  auto restored = Session::restore(good.of, bytes, options());
  if (!restored) return;
  if ((*restored)->paused_at_fuel()) static_cast<void>((*restored)->go_on());
  if (auto fork = (*restored)->fork(1)) static_cast<void>((*fork)->exec({.code = "r"}));
  static_cast<void>((*restored)->exec({.code = "more"}));
  if ((*restored)->paused_at_fuel()) return;
  const auto again = (*restored)->keep();
  if (!again) return;
  const auto back = Session::restore(good.of, *again, options());
  if (!back) std::fprintf(stderr, "what was kept again is refused: %s\n", back.error().message.c_str());
  need(back.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Good good;
  constexpr size_t kEditBytes = 5, kMostEdits = 64, kHeaderBytes = 40;
  const bool is_paused = size != 0 && data[0] % 2 != 0;
  std::vector<uint8_t> bytes = is_paused ? good.paused : good.between;
  for (size_t edits = 0; size >= kEditBytes && edits < kMostEdits;
       ++edits, data += kEditBytes, size -= kEditBytes) {
    uint32_t offset = 0;
    std::memcpy(&offset, data, sizeof offset);
    bytes[kHeaderBytes + offset % (bytes.size() - kHeaderBytes)] = data[4];
  }
  if (size != 0) bytes.resize(bytes.size() - std::min<size_t>(data[0], bytes.size() - kHeaderBytes));
  need(repair_session_checksum(bytes));
  try_session(good, bytes);
  return 0;
}
