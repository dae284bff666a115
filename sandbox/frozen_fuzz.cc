// Arbitrary bytes as a run that waits for the answer to a call, or that is frozen: with a corrected checksum they
// are refused, or give a run that is answered, ends by its limits, and whose bytes, when it waits or is frozen
// again, are valid. The embedder's part is also read as that of a call of an instance. No crash, no hang, no leak.
//
// The input: its first byte selects the valid run to change and how it is answered; then edits of five bytes each,
// an offset (4 bytes, modulo the size) and the byte to write. Remaining bytes that make no edit give the number of
// bytes to cut from the end.

#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/freeze/snapshot.h"
#include "engine/testing/snapshot_testing.h"
#include "sandbox/frozen_state.h"
#include "sandbox/kept_call.h"
#include "sandbox/sandbox.h"

namespace {

using namespace membrane;
using namespace membrane::sandbox;

constexpr size_t kHeaderBytes = 40, kEditBytes = 5, kMostEdits = 64;

// Waits in a call, in a call through a table, in a call at the end of a function and, if it has an argument,
// immediately at the end of the entry.
constexpr const char* kProgram = R"((import "own" "f" (func $f (param i32 i64) (result i32)))
  (type $t (func (param i32 i64) (result i32)))
  (type $pair (struct (field $a (mut i32)) (field $b i64)))
  (memory 1 4) (table funcref (elem $f)) (global $p (mut (ref null $pair)) (ref.null $pair))
  (func $tail (param i32) (result i32) (return_call $f (local.get 0) (i64.const 9)))
  (func (export "tail") (param i32) (result i32) (return_call $f (local.get 0) (i64.const 2)))
  (func (export "run") (result i32) (local $i i32)
    (global.set $p (struct.new $pair (i32.const 40) (i64.const 2)))
    (i32.store (i32.const 5000) (call $f (i32.const 1) (i64.const -1)))
    (call $io.print (string "once "))
    (struct.set $pair $a (global.get $p) (call_indirect (type $t) (i32.const 3) (i64.const 4) (i32.const 0)))
    (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100))))
    (i32.add (call $tail (i32.load (i32.const 5000))) (struct.get $pair $a (global.get $p)))))";

void need(bool holds) {
  if (!holds) std::abort();
}

RunOptions options() {
  RunOptions options;
  options.policy.limits.fuel = 20'000;
  options.policy.limits.memory_bytes = 1u << 20;
  options.policy.limits.call_depth = 1'000;
  options.policy.limits.wall_ms = 600'000;
  options.functions.push_back({"own",
                               "f",
                               {{wasm::ValType::kI32, wasm::ValType::kI64}, {wasm::ValType::kI32}},
                               [](host::Guest&, engine::HostCall&) { return OwnEnd{.waits = "a note"}; }});
  return options;
}

std::vector<std::vector<uint8_t>> good_runs() {
  std::vector<std::vector<uint8_t>> good;
  const OwnAnswer answer{.values = {engine::Value::i32(3)}};
  Program program;
  program.source = kProgram;
  RunOptions with = options();
  for (Report report = run(program, with); report.outcome == Outcome::kWaiting;) {
    good.push_back(report.snapshot);
    with.answer = &answer;
    report = thaw(good.back(), with);
  }
  with.answer = nullptr;
  program.entry = "tail";
  program.arguments = {"5"};
  good.push_back(run(program, with).snapshot);
  program.entry = "run";
  program.arguments.clear();
  with.freeze_after_fuel = 20;
  good.push_back(run(program, with).snapshot);
  need(good.size() == 5);
  for (const auto& each : good) need(!each.empty());
  return good;
}

void try_run(std::vector<uint8_t> bytes, uint8_t how) {
  const OwnAnswer value{.values = {engine::Value::i32(3)}}, error{.error = "no"}, wrong;
  const OwnAnswer worked_out{
      .call = [](const OwnFunction&, host::Guest& guest, engine::HostCall& call) -> OwnEnd {
        if (!guest.charge(50)) return {engine::HostAction::kOutOfFuel};
        static_cast<void>(guest.write_string("some text"));
        call.results[0] = 1;
        return {};
      }};
  const OwnAnswer* const answers[] = {&value, &error, &wrong, &worked_out, nullptr};
  RunOptions with = options();
  with.answer = answers[how % std::size(answers)];
  for (int lives = 0; lives < 3; ++lives) {
    Report report = thaw(bytes, with);
    if (report.outcome != Outcome::kWaiting) return;
    need(report.waits_for.size() == 1);
    const auto snapshot = engine::Snapshot::read(report.snapshot);
    need(snapshot.has_value() && snapshot->awaited());
    need(read_state(snapshot->embedder_state()).has_value());
    bytes = std::move(report.snapshot);
  }
}

void try_call(std::span<const uint8_t> part) {
  if (const auto call = read_kept_call(part)) need(std::ranges::equal(write_kept_call(*call), part));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::vector<uint8_t>> good = good_runs();
  if (size == 0) return 0;
  try_call({data, size});
  const uint8_t how = data[0];
  std::vector<uint8_t> bytes = good[how % good.size()];
  ++data;
  --size;
  for (size_t edits = 0; size >= kEditBytes && edits < kMostEdits;
       ++edits, data += kEditBytes, size -= kEditBytes) {
    uint32_t offset = 0;
    std::memcpy(&offset, data, sizeof offset);
    bytes[kHeaderBytes + offset % (bytes.size() - kHeaderBytes)] = data[4];
  }
  if (size != 0) bytes.resize(bytes.size() - std::min<size_t>(data[0], bytes.size() - kHeaderBytes));
  engine::seal(bytes);
  try_run(bytes, how / good.size());
  return 0;
}
