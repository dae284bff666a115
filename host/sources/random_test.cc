#include "host/sources/random.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "host/sources/clock.h"

namespace membrane::host {
namespace {

// RFC 8439, appendix A.1, test vectors 1 and 2: key, nonce and first counter zero.
TEST(RandomStream, IsChaCha20) {
  RandomStream stream(RandomStream::Key{});
  std::array<uint8_t, 128> bytes{};
  stream.fill(bytes);
  EXPECT_EQ(hex_of(std::span(bytes).first(64)),
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
  EXPECT_EQ(hex_of(std::span(bytes).last(64)),
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
}

TEST(RandomStream, GivesTheSameBytesInWhateverPieces) {
  RandomStream whole(RandomStream::Key{1, 2, 3}), pieces(RandomStream::Key{1, 2, 3});
  std::array<uint8_t, 300> expected{}, actual{};
  whole.fill(expected);
  size_t at = 0;
  for (const size_t count : {1, 62, 1, 1, 63, 64, 65, 43}) {
    pieces.fill(std::span(actual).subspan(at, count));
    at += count;
  }
  ASSERT_EQ(at, 300u);
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(pieces.position(), 300u);
}

TEST(RandomSource, TheSeedDecides) {
  policy::RandomGrant one, two;
  two.seed = 2;
  EXPECT_EQ(RandomSource(one).bytes(32).value(), RandomSource(one).bytes(32).value());
  EXPECT_NE(RandomSource(one).bytes(32).value(), RandomSource(two).bytes(32).value());
  EXPECT_EQ(RandomSource(one).bytes(0).value(), "");
  EXPECT_EQ(RandomSource(one).bytes(RandomSource::kMaxBytes + 1).error().code, Errno::kTooBig);
}

TEST(RandomSource, RealEntropyDiffers) {
  policy::RandomGrant grant;
  grant.real = true;
  EXPECT_NE(RandomSource(grant).bytes(32).value(), RandomSource(grant).bytes(32).value());
}

TEST(Clock, TheVirtualOneMovesByAMillisecondAReading) {
  Clock clock({});
  EXPECT_EQ(clock.now_ms(), 946'684'800'000);
  EXPECT_EQ(clock.now_ms(), 946'684'800'001);
  policy::TimeGrant late;
  late.start_ms = INT64_MAX;
  Clock last(late);
  EXPECT_EQ(last.now_ms(), INT64_MAX);
  EXPECT_EQ(last.now_ms(), INT64_MAX);
}

TEST(Clock, TheRealOneIsAfterTheVirtualStart) {
  policy::TimeGrant grant;
  grant.real = true;
  EXPECT_GT(Clock(grant).now_ms(), 1'600'000'000'000);
}

}  // namespace
}  // namespace membrane::host
