#include "worker/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace membrane::worker {
namespace {

using Clock = Channel::Clock;

struct Ends {
  Ends() {
    auto made = Channel::make_pair();
    raw = std::move(made->first);
    channel.emplace(std::move(made->second), 1u << 20);
  }
  void write(std::string_view bytes) const {
    ASSERT_EQ(::send(raw.number(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  Descriptor raw;
  std::optional<Channel> channel;
};

std::string header(uint32_t bytes, uint16_t kind, uint16_t descriptors, uint32_t subject) {
  std::string out;
  out.append(reinterpret_cast<const char*>(&bytes), 4).append(reinterpret_cast<const char*>(&kind), 2);
  out.append(reinterpret_cast<const char*>(&descriptors), 2)
      .append(reinterpret_cast<const char*>(&subject), 4);
  return out;
}

TEST(Channel, FramesComeAsTheyWent) {
  auto ends = Channel::make_pair();
  ASSERT_TRUE(ends);
  Channel one(std::move(ends->first), 64u << 20), other(std::move(ends->second), 64u << 20);
  const std::string long_one(5'000'000, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(one.send(1, 7, "abc"));
    EXPECT_TRUE(one.send(2, 8, ""));
    EXPECT_TRUE(one.send(3, 9, long_one));
    EXPECT_TRUE(one.send(4, 10, "end"));
  });
  for (const auto& [kind, text] : {std::pair(1, std::string("abc")), {2, ""}, {3, long_one}, {4, "end"}}) {
    const auto frame = other.receive();
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ((*frame)->kind, kind);
    EXPECT_EQ((*frame)->subject, kind + 6u);
    EXPECT_TRUE((*frame)->payload == text);
  }
  sender.join();
}

TEST(Channel, ADescriptorIsPassedAlong) {
  auto ends = Channel::make_pair();
  Channel one(std::move(ends->first), 1000), other(std::move(ends->second), 1000);
  auto more = Channel::make_pair();
  const int along[] = {more->first.number()};
  ASSERT_TRUE(one.send(1, 0, "x", along));
  auto frame = other.receive();
  ASSERT_TRUE(frame && *frame);
  ASSERT_EQ((*frame)->descriptors.size(), 1u);
  Channel third(std::move((*frame)->descriptors[0]), 1000), fourth(std::move(more->second), 1000);
  ASSERT_TRUE(third.send(5, 0, "through"));
  EXPECT_EQ((*fourth.receive())->payload, "through");
}

TEST(Channel, AFrameThatIsLongerThanAllowedIsRefusedBeforeItComes) {
  Ends ends;
  ends.write(header((1u << 20) + 1, 1, 0, 0));
  const auto frame = ends.channel->receive();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kInvalidInput);
}

TEST(Channel, ADescriptorThatDidNotComeIsRefused) {
  Ends ends;
  ends.write(header(0, 1, 1, 0));
  EXPECT_FALSE(ends.channel->receive());
}

TEST(Channel, HalfAFrameIsKeptAndItsRestAwaited) {
  Ends ends;
  const std::string whole = header(3, 1, 0, 0) + "abc";
  for (const char byte : whole.substr(0, whole.size() - 1)) {
    ends.write(std::string(1, byte));
    const auto nothing = ends.channel->receive(Clock::now());
    ASSERT_TRUE(nothing);
    EXPECT_FALSE(*nothing);
  }
  ends.write("c");
  EXPECT_EQ((*ends.channel->receive())->payload, "abc");
}

TEST(Channel, TheOthersEndIsAnError) {
  Ends ends;
  ends.write(header(3, 1, 0, 0) + "a");
  { const Descriptor gone = std::move(ends.raw); }
  const auto frame = ends.channel->receive();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(ends.channel->send(1, 0, "x"));
}

TEST(Channel, AWriteThatNobodyTakesEndsAtTheDeadline) {
  Ends ends;
  const std::string much(8u << 20, 'x');
  const auto sent = ends.channel->send(1, 0, much, {}, Clock::now());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kTimedOut);
}

}  // namespace
}  // namespace membrane::worker
