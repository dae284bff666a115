#include "linux/files/certificate_files.h"

#include <gtest/gtest.h>

#include "linux/fs/tree.h"

namespace membrane::linux {
namespace {

constexpr std::string_view kOwn = "-----BEGIN CERTIFICATE-----\n";

std::string text_of(Node& node) {
  std::string text(node.attributes().size, '\0');
  EXPECT_EQ(node.read(0, std::as_writable_bytes(std::span(text))).value_or(0), text.size());
  return text;
}

class CertificateFilesTest : public ::testing::Test {
 protected:
  // A file that was reached by this path.
  LocationRef file(std::string_view path, std::string_view text = "") {
    auto at = std::make_shared<const Location>(Location{root_, nullptr, ""});
    for (path.remove_prefix(1);;) {
      const size_t end = path.find('/');
      const bool is_last = end == path.npos;
      const std::string name(path.substr(0, end));
      auto node = at->node->look_up(name);
      if (!node)
        node = at->node->create(name, {.mode = is_last ? S_IFREG | 0640u : S_IFDIR | 0755u, .uid = 7});
      at = std::make_shared<const Location>(Location{*node, at, name});
      if (is_last) break;
      path.remove_prefix(end + 1);
    }
    if (!text.empty()) {
      EXPECT_TRUE(at->node->write(0, std::as_bytes(std::span(text))));
    }
    return at;
  }

  NodeRef root_ = make_tree({.most_bytes = 8u << 20});
};

TEST_F(CertificateFilesTest, AreKnownByWhereTheyStand) {
  for (const char* const path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/chroot/etc/ssl/certs/ca-certificates.crt", "/usr/lib/python3/site-packages/certifi/cacert.pem",
        "/root/v/lib/python3.11/site-packages/pip/_vendor/certifi/cacert.pem"})
    EXPECT_TRUE(is_certificate_file(*file(path))) << path;
  for (const char* const path :
       {"/ca-certificates.crt", "/certs/ca-certificates.crt", "/etc/ssl/certs/other.pem", "/root/cacert.pem",
        "/etc/ssl/certs/ca-certificates.crt.bak"})
    EXPECT_FALSE(is_certificate_file(*file(path))) << path;
}

TEST_F(CertificateFilesTest, AreReadWithTheCertificateAndStayAsTheyAre) {
  const LocationRef location = file("/etc/ssl/certs/ca-certificates.crt", "mine");
  const auto copy = with_certificate(location->node, *location->parent->node, kOwn);
  ASSERT_TRUE(copy);
  EXPECT_EQ(text_of(**copy), "mine\n" + std::string(kOwn));
  EXPECT_EQ(text_of(*location->node), "mine");
  const Attributes facts = (*copy)->attributes();
  EXPECT_EQ(facts.mode, S_IFREG | 0640u);
  EXPECT_EQ(facts.uid, 7u);
  const Attributes own = location->node->attributes();
  EXPECT_EQ(facts.links, 1u);
  EXPECT_EQ(facts.number, own.number) << "what copies a file sees that it is the one it looked at";
  EXPECT_EQ(facts.device, own.device);
  EXPECT_EQ(facts.modified.tv_nsec, own.modified.tv_nsec);
  EXPECT_EQ(facts.size, 5 + kOwn.size());
  AttributeChange change;
  change.mode = 0600;
  ASSERT_TRUE((*copy)->change(change));
  EXPECT_EQ(location->node->attributes().mode, S_IFREG | 0600u);
}

TEST_F(CertificateFilesTest, AnEmptyOneHasOnlyTheCertificate) {
  const LocationRef location = file("/etc/ssl/cert.pem");
  EXPECT_EQ(text_of(**with_certificate(location->node, *location->parent->node, kOwn)), kOwn);
}

TEST_F(CertificateFilesTest, CopiesAreChargedAndBounded) {
  const LocationRef location = file("/etc/ssl/cert.pem", std::string(3u << 20, 'x'));
  const auto first = with_certificate(location->node, *location->parent->node, kOwn);
  ASSERT_TRUE(first);
  EXPECT_EQ(with_certificate(location->node, *location->parent->node, kOwn).error(), ENOSPC);
  ASSERT_TRUE(location->node->resize((4u << 20) + 1));
  EXPECT_EQ(with_certificate(location->node, *location->parent->node, kOwn).error(), EFBIG);
}

TEST_F(CertificateFilesTest, RoomThatIsNotUsedIsReturned) {
  const LocationRef location = file("/etc/ssl/cert.pem", "mine");
  const uint64_t used = usage_of(*location->node)->used_bytes;
  static_cast<void>(with_certificate(location->node, *location->parent->node, kOwn));
  EXPECT_EQ(usage_of(*location->node)->used_bytes, used);
}

}  // namespace
}  // namespace membrane::linux
