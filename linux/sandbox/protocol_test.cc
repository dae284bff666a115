#include "linux/sandbox/protocol.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <thread>

namespace membrane::linux {

namespace {

struct Sockets {
  std::unique_ptr<FrameSocket> owner, kernel;
  int raw_owner = -1, raw_kernel = -1;
};

Sockets make_sockets() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {.owner = std::make_unique<FrameSocket>(HostFile(ends[0]), FrameReader::From::kKernelProcess),
          .kernel = std::make_unique<FrameSocket>(HostFile(ends[1]), FrameReader::From::kOwner),
          .raw_owner = ends[0],
          .raw_kernel = ends[1]};
}

std::string header(uint32_t bytes, uint16_t kind, uint16_t files, uint64_t number) {
  std::string text(16, '\0');
  std::memcpy(text.data(), &bytes, 4);
  std::memcpy(text.data() + 4, &kind, 2);
  std::memcpy(text.data() + 6, &files, 2);
  std::memcpy(text.data() + 8, &number, 8);
  return text;
}

Result<std::optional<Frame>> read(FrameReader::From from, const std::string& bytes) {
  FrameReader reader(from);
  reader.add(std::as_bytes(std::span(bytes)));
  return reader.next();
}

TEST(ProtocolTest, AFrameArrivesByteByByte) {
  FrameReader reader(FrameReader::From::kOwner);
  const std::string bytes = header(3, 4, 0, 9) + "abc" + header(0, 5, 0, 10);
  std::vector<Frame> frames;
  for (const char& byte : bytes) {
    reader.add(std::as_bytes(std::span(&byte, 1)));
    auto next = reader.next();
    ASSERT_TRUE(next);
    if (*next) frames.push_back(std::move(**next));
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].bytes, "abc");
  EXPECT_EQ(frames[1].number, 10u);
}

TEST(ProtocolTest, MalformedFramesAreRefused) {
  using enum FrameReader::From;
  EXPECT_FALSE(read(kOwner, header(0, 0, 0, 1)));
  EXPECT_FALSE(read(kOwner, header(0, 256, 0, 1)));        // of the other side
  EXPECT_FALSE(read(kKernelProcess, header(0, 1, 0, 1)));  // the same
  EXPECT_FALSE(read(kOwner, header(kMostFrameBytes + 1, 1, 0, 1)));
  EXPECT_FALSE(read(kOwner, header(0, 1, 1, 1)));            // without its file
  EXPECT_FALSE(read(kKernelProcess, header(0, 256, 1, 1)));  // files come from owners alone
}

TEST(ProtocolTest, FilesComeWithTheirFrame) {
  Sockets sockets = make_sockets();
  const HostFile null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int number = null.number();
  ASSERT_TRUE(sockets.owner->send(FrameKind::kUsage, 1));
  ASSERT_TRUE(sockets.owner->send(FrameKind::kKeep, 2, "x", std::span(&number, 1)));
  EXPECT_EQ(sockets.kernel->receive()->files.size(), 0u);
  EXPECT_EQ(sockets.kernel->receive()->files.size(), 1u);
}

TEST(ProtocolTest, LongFramesAreSentWhole) {
  Sockets sockets = make_sockets();
  const std::string bytes(kMostFrameBytes, 'x');
  std::thread sender([&] { EXPECT_TRUE(sockets.owner->send(FrameKind::kWritePiece, 1, bytes)); });
  EXPECT_EQ(sockets.kernel->receive()->bytes, bytes);
  sender.join();
  EXPECT_FALSE(sockets.owner->send(FrameKind::kWritePiece, 1, bytes + "x"));
}

TEST(ProtocolTest, TheEndIsReported) {
  Sockets sockets = make_sockets();
  sockets.kernel.reset();
  EXPECT_EQ(sockets.owner->receive().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(sockets.owner->send(FrameKind::kUsage, 1).error().code, ErrorCode::kUnavailable);
}

TEST(ProtocolTest, OrdersComeBackAsTheyWere) {
  BeginOrder order = {.host_name = "name",
                      .platform = "trap",
                      .image_name = {},
                      .limits = {},
                      .deterministic = Determinism{5, 6},
                      .directories = {{"/a", true}}};
  order.has_image = order.kept_files_only = true;
  order.limits.most_tasks = 3;
  const auto begun = unpack_begin(pack(order));
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->host_name, "name");
  EXPECT_EQ(begun->deterministic, (Determinism{5, 6}));
  EXPECT_EQ(begun->files(), 2u);
  EXPECT_TRUE(begun->kept_files_only);
  EXPECT_EQ(begun->directories[0].path, "/a");
  EXPECT_EQ(begun->limits.most_tasks, 3);

  CommandSpec spec;
  spec.arguments = {"a", "", "c"};
  spec.environment = {"A=b"};
  spec.user = UINT32_MAX;
  spec.terminal = {.columns = 1, .rows = 2};
  const auto start = unpack_start(pack(spec, true, false));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->spec.arguments, spec.arguments);
  EXPECT_EQ(start->spec.user, UINT32_MAX);
  EXPECT_EQ(start->spec.terminal->rows, 2);
  EXPECT_TRUE(start->wants_output);
  EXPECT_FALSE(start->wants_errors);
}

TEST(ProtocolTest, CountsThatLieTakeNoMemory) {
  EXPECT_FALSE(unpack_facts(Packer().number(UINT64_MAX).bytes()));
  EXPECT_FALSE(unpack_start(Packer().number(1ull << 40).bytes()));
  EXPECT_FALSE(unpack_start(Packer().number(1).number(1ull << 63).bytes()));
}

TEST(ProtocolTest, CutOrdersAreRefused) {
  CommandSpec spec;
  spec.arguments = {"a"};
  const std::string whole = pack(spec, true, true);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(unpack_start(std::string_view(whole).substr(0, size)));
  EXPECT_FALSE(unpack_start(whole + "x"));
}

TEST(ProtocolTest, AnAnswerIsBytesOrAnError) {
  EXPECT_EQ(unpack_answer(pack_answer(std::string("bytes"))), "bytes");
  const auto failed = unpack_answer(pack_answer(fail(ErrorCode::kDenied, "what", "how")));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kDenied);
  EXPECT_EQ(failed.error().message, "what");
  EXPECT_EQ(failed.error().hint, "how");
  EXPECT_FALSE(unpack_answer("short"));
}

}  // namespace

}  // namespace membrane::linux
