#include "policy/http_names.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

TEST(HttpNames, AreComparedAsTheMostLenientServerDoes) {
  for (const char* name : {"X-Role", "x-role", "X_Role", "X_ROLE", "x.role", "X~Role", "X|role"})
    EXPECT_TRUE(same_header("X-Role", name)) << name;
  for (const char* name : {"XRole", "X-Roles", "X--Role", "-X-Role", ""})
    EXPECT_FALSE(same_header("X-Role", name)) << name;
}

TEST(HttpNames, TheFrameIsTheEgresss) {
  for (const char* name :
       {"Host", "Content-Length", "content_length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE",
        "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy_Connection", "Accept-Encoding",
        "HTTP2-Settings", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"})
    EXPECT_EQ(owner_of_header(name), HeaderOwner::kEgress) << name;
}

TEST(HttpNames, ServersRouteByTheGrantedName) {
  for (const char* name : {"X-Original-URL",
                           "X-Original-Uri",
                           "x_original_host",
                           "X-Rewrite-URL",
                           "X-Forwarded-For",
                           "X-Forwarded-Host",
                           "X-Forwarded-Proto",
                           "X-Forwarded",
                           "X-Forward-For",
                           "Forwarded",
                           "Via",
                           "X-Real-IP",
                           "X-Host",
                           "True-Client-IP",
                           "CF-Connecting-IP",
                           "X-Envoy-Original-Path",
                           "X-Accel-Redirect",
                           "X-HTTP-Host-Override",
                           "Front-End-Https",
                           "Destination"})
    EXPECT_EQ(owner_of_header(name), HeaderOwner::kGrant) << name;
}

TEST(HttpNames, TheRestIsTheProgramsOwn) {
  for (const char* name : {"Accept", "Authorization", "Content-Type", "Cookie", "Range", "User-Agent",
                           "X-Role", "X-Request-Id", "If-None-Match", "Hostname", "Viator", "X-Originals"})
    EXPECT_EQ(owner_of_header(name), HeaderOwner::kProgram) << name;
}

}  // namespace
}  // namespace membrane::policy
