#include "sandbox/receipt_recorder.h"

#include <gtest/gtest.h>

namespace membrane::sandbox {
namespace {

TEST(ReceiptRecorder, HoldsNoMoreThanItMayUntilItSeals) {
  ReceiptRecorder recorder{ReceiptKey()};
  recorder.set_most_bytes(1'000);
  ASSERT_TRUE(recorder.has_room_for(900));
  recorder.note({"put", "/f", std::string(900, 'x')});
  EXPECT_EQ(recorder.held_bytes(), 905u);
  EXPECT_FALSE(recorder.has_room_for(100));
  EXPECT_FALSE(recorder.has_room_for(policy::Policy()));
  EXPECT_TRUE(recorder.usable());  // the refused act was not done
  RunOptions options;
  recorder.attach(options);
  options.on_file(std::string(90, 'p'), "bytes");
  EXPECT_FALSE(recorder.usable());
}

TEST(ReceiptRecorder, HoldsNoMoreInputThanItMay) {
  ReceiptRecorder recorder{ReceiptKey()};
  recorder.set_most_bytes(1'000);
  Turn turn;
  turn.read_input = [](std::chrono::milliseconds) {
    return InputPiece{.bytes = std::string(600, 'x'), .is_end = false};
  };
  recorder.attach(turn);
  EXPECT_EQ(turn.read_input({}).bytes.size(), 600u);
  EXPECT_TRUE(recorder.usable());
  EXPECT_EQ(turn.read_input({}).bytes.size(), 600u);
  EXPECT_FALSE(recorder.usable());
}

TEST(ReceiptRecorder, HoldsNoMoreHostCallsThanItMay) {
  ReceiptRecorder recorder{ReceiptKey()};
  recorder.set_most_bytes(1'000);
  Status last;
  for (int i = 0; i < 100 && last; ++i) {
    host::JournalEntry entry;
    entry.function = "time.now_ms";
    last = recorder.append(entry, [](host::JsonWriter& out) { out.number(uint64_t{1}); });
  }
  ASSERT_FALSE(last);
  const uint64_t held = recorder.held_bytes();
  EXPECT_FALSE(recorder.append({}, [](host::JsonWriter& out) { out.number(uint64_t{1}); }));
  EXPECT_EQ(recorder.held_bytes(), held);  // a caller that continues after an error
  EXPECT_FALSE(recorder.usable());
  EXPECT_EQ(last.error().code, ErrorCode::kExhausted);
  EXPECT_LT(recorder.held_bytes(), 3'000u);
}

}  // namespace
}  // namespace membrane::sandbox
