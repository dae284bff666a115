#include "linux/files/outside.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(OutsideInput, GivesWhatWasFedThenEnds) {
  FakeCaller caller;
  int wakes = 0;
  auto input = std::make_shared<OutsideInput>([&] { ++wakes; }, 4);
  auto file = input->open();
  CountingWaiter waiter;
  file->join(waiter);
  EXPECT_EQ(read_text(*file, caller), "error 11");
  EXPECT_EQ(input->feed(bytes_of("abcdef")), 4u);
  EXPECT_EQ(wakes, 1);
  input->after_wake();
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(read_text(*file, caller, 3), "abc");
  EXPECT_EQ(input->feed(bytes_of("ef")), 2u);
  input->end();
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM | POLLHUP);
  auto again = file->node()->open(caller, O_RDONLY).value();
  EXPECT_EQ(read_text(*again, caller), "def");
  EXPECT_EQ(read_text(*file, caller), "");
  EXPECT_EQ(input->feed(bytes_of("x")), 0u);
}

TEST(OutsideInput, TakesFromAThreadNoMoreThanItsCapacity) {
  FakeCaller caller;
  std::atomic<int> wakes = 0;
  auto input = std::make_shared<OutsideInput>([&] { ++wakes; }, 100);
  auto file = input->open();
  const std::string text(10000, 'x');
  std::thread feeder([&] {
    auto left = bytes_of(text);
    while (!left.empty() && input->wait_for_room()) left = left.subspan(input->feed(left));
    input->end();
  });
  std::string got;
  while (true) {
    const std::string piece = read_text(*file, caller);
    if (piece == "error 11") {
      std::this_thread::yield();
      continue;
    }
    if (piece.empty()) break;
    EXPECT_LE(piece.size(), 100u);
    got += piece;
  }
  feeder.join();
  EXPECT_EQ(got, text);
}

TEST(OutsideInput, EndsThreadsThatWaitForRoom) {
  auto input = std::make_shared<OutsideInput>([] {}, 1);
  EXPECT_EQ(input->feed(bytes_of("x")), 1u);
  std::thread feeder([&] { EXPECT_FALSE(input->wait_for_room()); });
  input->stop();
  feeder.join();
}

TEST(OutsideOutput, HandsOverWhatTheSinkTakes) {
  FakeCaller caller;
  std::string got;
  size_t room = 5;
  auto count = std::make_shared<OutputCount>();
  auto output = std::make_shared<OutsideOutput>(
      [&](std::span<const std::byte> bytes) -> Try<size_t> {
        const size_t taken = std::min(room, bytes.size());
        got.append(reinterpret_cast<const char*>(bytes.data()), taken);
        room -= taken;
        return taken;
      },
      count);
  auto file = output->open();
  EXPECT_EQ(write_text(*file, caller, "hello world").value(), 5u);
  EXPECT_EQ(file->ready(), 0);
  EXPECT_EQ(write_text(*file, caller, " world").error(), EAGAIN);
  room = 100;
  CountingWaiter waiter;
  file->join(waiter);
  output->after_wake();
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(file->ready(), POLLOUT | POLLWRNORM);
  EXPECT_EQ(write_text(*file, caller, " world").value(), 6u);
  EXPECT_EQ(got, "hello world");
  EXPECT_EQ(count->bytes, 11u);
}

TEST(OutsideOutput, EndsAtTheLimit) {
  FakeCaller caller;
  std::string got;
  int calls = 0;
  auto count = std::make_shared<OutputCount>();
  count->limit_bytes = 7;
  count->on_reached = [&] { ++calls; };
  const auto sink = [&](std::span<const std::byte> bytes) -> Try<size_t> {
    got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return bytes.size();
  };
  auto output = std::make_shared<OutsideOutput>(sink, count)->open();
  auto errors = std::make_shared<OutsideOutput>(sink, count)->open();
  EXPECT_EQ(write_text(*output, caller, "abcd").value(), 4u);
  EXPECT_EQ(write_text(*errors, caller, "efg").value(), 3u);
  EXPECT_FALSE(count->was_reached);
  EXPECT_EQ(write_text(*output, caller, "h").error(), ENOSPC);
  EXPECT_TRUE(count->was_reached);
  EXPECT_EQ(write_text(*output, caller, "h").error(), ENOSPC);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(got, "abcdefg");
}

TEST(OutsideOutput, ReportsThatTheSinkIsGone) {
  FakeCaller caller;
  auto output = std::make_shared<OutsideOutput>(
      [](std::span<const std::byte>) -> Try<size_t> { return err(EPIPE); }, std::make_shared<OutputCount>());
  EXPECT_EQ(write_text(*output->open(), caller, "x").error(), EPIPE);
  EXPECT_EQ(caller.own_signals, std::vector<int>{SIGPIPE});
}

}  // namespace
}  // namespace membrane::linux
