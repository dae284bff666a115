// Servers that send too much, too slowly, or nonsense.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "host/egress/http_egress_testing.h"

namespace membrane::host {
namespace {

using policy::Budget;
using policy::Resource;

TEST_F(Egress, CutsAnAnnouncedOversizeBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    connection.wait_for_close();
  });
  allow(server).max_response_bytes = 1000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, CutsAnEndlessBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    const std::string chunk(4096, 'x');
    while (connection.send(chunk)) {}
  });
  allow(server).max_response_bytes = 100'000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, CutsAnEndlessChunkedBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (connection.send("5\r\nhello\r\n")) {}
  });
  allow(server).max_response_bytes = 10'000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, TakesABodyOfExactlyTheLimit) {
  RawServer server(answer(http_response("200 OK", "", std::string(1000, 'x'))));
  allow(server).max_response_bytes = 1000;
  ASSERT_TRUE(get(server.url("/")));
  grants[0].max_response_bytes = 999;
  egress.reset();
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

// Deflate by hand: a literal zero byte, then matches of 258 at distance 1, 13 bits each.
std::string deflate_zeros(size_t matches) {
  std::string out;
  uint32_t bits = 0, held = 0;
  const auto put = [&](uint32_t value, int count) {  // least significant bit first
    for (int i = 0; i < count; ++i) {
      held |= ((value >> i) & 1) << bits++;
      if (bits == 8) out += static_cast<char>(held), held = bits = 0;
    }
  };
  const auto code = [&](uint32_t value, int count) {  // Huffman codes: most significant bit first
    for (int i = count - 1; i >= 0; --i) put((value >> i) & 1, 1);
  };
  put(1, 1), put(1, 2);                                            // the last block, fixed codes
  code(0x30, 8);                                                   // literal 0
  for (size_t i = 0; i < matches; ++i) code(0xc5, 8), code(0, 5);  // length 258, distance 1
  code(0, 7), put(0, 7);                                           // the end, and padding
  return out;
}

TEST_F(Egress, CutsADecompressionBomb) {
  const std::string bomb = deflate_zeros(400'000);  // 650 kB that would be 103 MB
  ASSERT_LT(bomb.size(), 1u << 20);
  for (const std::string& encoding : {std::string("deflate"), std::string("gzip")}) {
    const std::string head =
        encoding == "gzip" ? std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) : std::string("\x78\x01");
    RawServer server(answer(http_response("200 OK", "Content-Encoding: " + encoding + "\r\n", head + bomb)));
    grants.clear();
    egress.reset();
    budget.set(Resource::kBytesIn, 10 << 20);
    allow(server).max_response_bytes = 1 << 20;
    expect_refused(get(server.url("/")), Errno::kTooBig, "after decompression");
    EXPECT_GE(budget.left(Resource::kBytesIn), (9u << 20) - 4096) << "counted past the limit";
  }
}

TEST_F(Egress, RefusesAMalformedEncoding) {
  RawServer server(answer(http_response("200 OK", "Content-Encoding: gzip\r\n", "this is no gzip at all")));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, CutsOversizeHeaders) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n");
    while (connection.send("X-A: " + std::string(1000, 'x') + "\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, CutsEndlessInterimResponses) {
  RawServer server([](RawConnection& connection, const std::string&) {
    while (connection.send("HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, CutsEndlessTrailers) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
    while (connection.send("X-A: " + std::string(1000, 'x') + "\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, TrailersAreNotShown) {
  RawServer server(
      answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Late: y\r\nLocation: "
             "/z\r\n\r\n"));
  allow(server);
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "x");
  EXPECT_TRUE(response->headers.empty());
}

TEST_F(Egress, CutsASlowBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsADrippingBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    connection.drip('x');
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsSlowHeaders) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nX-A: ");
    connection.drip('x');
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsAServerThatNeverAnswers) {
  RawServer server([](RawConnection& connection, const std::string&) { connection.wait_for_close(); });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, TheTimeoutIsOneForAllRedirects) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    if (request.starts_with("GET /a ")) connection.send(http_response("302 x", "Location: /b\r\n", ""));
    else connection.wait_for_close();
  });
  allow(server.url("/a")).timeout_ms = 100;
  allow(server.url("/b")).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/a")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, TheRunsTimeBoundsACall) {
  Budget& shared = budget;
  RawServer server([&shared](RawConnection& connection, const std::string&) {
    // Starts here, so that the request has arrived however slow the machine is.
    shared.set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, TheRunsEndBoundsACallUnderASharedBudget) {
  RawServer server([](RawConnection& connection, const std::string&) { connection.wait_for_close(); });
  allow(server).timeout_ms = 3'600'000;
  run.set_end(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, ACancelledRunEndsItsCall) {
  std::atomic<bool> cancel = false;
  RawServer server([&cancel](RawConnection& connection, const std::string&) {
    cancel = true;
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 3'600'000;
  run.set_cancel(&cancel);
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, TheOwnerCanCutACallShort) {
  Budget& shared = budget;
  RawServer server([&shared](RawConnection& connection, const std::string&) {
    shared.set_deadline(std::chrono::steady_clock::now());
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    connection.drip('x');
  });
  allow(server).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, StopsAtTheBudgetOfBytesIn) {
  RawServer server(answer(http_response("200 OK", "", std::string(100'000, 'x'))));
  allow(server);
  budget.set(Resource::kBytesIn, 50'000);
  expect_refused(get(server.url("/")), Errno::kBudget, "bytes from the world");
}

TEST_F(Egress, RefusesATruncatedBody) {
  RawServer server(answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, RefusesATruncatedChunkedBody) {
  RawServer server(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, RefusesNonsenseChunks) {
  for (const char* body : {"zz\r\nhello\r\n", "-5\r\nhello\r\n", "ffffffffffffffffffff\r\nx",
                           "5\r\nhelloXX0\r\n\r\n", "\r\n\r\n"}) {
    RawServer server(answer(std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") + body));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << body;
    EXPECT_TRUE(result.error().code == Errno::kProtocol || result.error().code == Errno::kConnection)
        << body << result.error().reason;
  }
}

TEST_F(Egress, RefusesOtherProtocols) {
  for (const char* bytes : {"SSH-2.0-OpenSSH_9.2\r\n", "220 mail ESMTP\r\n", "<html>HTTP/0.9</html>", "",
                            "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"}) {
    RawServer server(answer(bytes));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << bytes;
    EXPECT_EQ(result.error().code, Errno::kProtocol) << bytes << ": " << result.error().reason;
  }
}

TEST_F(Egress, RefusesSplitAndMalformedResponseHeaders) {
  for (const std::string& line :
       {std::string("X-A: b\rX-Injected: c"), std::string("no colon here"), std::string("X A: b"),
        std::string(": empty"), std::string("X-A: \x01"), std::string("X-A: a\0b", 8)}) {
    RawServer server(answer("HTTP/1.1 200 OK\r\n" + line + "\r\nContent-Length: 0\r\n\r\n"));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << line;
    EXPECT_EQ(result.error().code, Errno::kProtocol) << line << result.error().reason;
  }
}

TEST_F(Egress, ContradictingLengthsDoNotLetTheNextAnswerBeForged) {
  RawServer server(
      answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nhelloHTTP/1.1 200 "
             "OK\r\nContent-Length: 6\r\n\r\nforged"));
  allow(server);
  for (int i = 0; i < 2; ++i) {
    const auto result = get(server.url("/"));
    if (result) {
      EXPECT_EQ(result->body, "hello");
    }
  }
}

TEST_F(Egress, SurplusBytesAfterAnAnswerAreNotTheNextAnswer) {
  RawServer server(answer(http_response("200 OK", "", "hello") + http_response("200 OK", "", "forged")));
  allow(server);
  for (int i = 0; i < 3; ++i) {
    const auto result = get(server.url("/"));
    ASSERT_TRUE(result) << result.error().reason;
    EXPECT_EQ(result->body, "hello");
  }
}

TEST_F(Egress, AClosedPortIsAConnectionError) {
  std::string url;
  {
    RawServer gone(hello());
    url = gone.url("/");
    allow(gone);
  }
  expect_refused(get(url), Errno::kConnection, "connection failed");
}

TEST_F(Egress, AServerWithoutTlsIsNotSecure) {
  RawServer server(
      [](RawConnection& connection, const std::string&) { connection.send("HTTP/1.1 200 OK\r\n\r\nplain"); });
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  allow(url + "/*").timeout_ms = 2'000;
  const auto result = get(url + "/");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().code == Errno::kConnection || result.error().code == Errno::kTimedOut)
      << result.error().reason;
}

// `openssl s_server` with a certificate that it made itself, on a port of its own choice.
class SelfSignedServer {
 public:
  explicit SelfSignedServer(const std::string& folder) {
    const std::string key = folder + "/key.pem", certificate = folder + "/certificate.pem";
    const std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout " +
        key + " -out " + certificate + " 2>/dev/null";
    if (std::system(make.c_str()) != 0) return;  // NOLINT(cert-env33-c): the command is the test's own
    const std::string serve = "exec openssl s_server -accept 127.0.0.1:0 -www -naccept 1 -key " + key +
                              " -cert " + certificate + " 2>&1";
    pipe_ = popen(serve.c_str(), "r");  // NOLINT(cert-env33-c): these too
    char line[256];
    while (pipe_ != nullptr && port_ == 0 && std::fgets(line, sizeof line, pipe_) != nullptr)
      if (std::string_view(line).starts_with("ACCEPT 127.0.0.1:"))
        port_ = static_cast<int>(std::strtol(line + 17, nullptr, 10));
  }
  ~SelfSignedServer() {
    if (pipe_ != nullptr) pclose(pipe_);  // it ends by itself after the one connection
  }
  SelfSignedServer(const SelfSignedServer&) = delete;
  SelfSignedServer& operator=(const SelfSignedServer&) = delete;
  [[nodiscard]] int port() const { return port_; }

 private:
  FILE* pipe_ = nullptr;
  int port_ = 0;
};

TEST_F(Egress, ACertificateThatNobodyVouchesForIsRefused) {
  char folder[] = "/tmp/membrane_tls_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  {
    const SelfSignedServer server(folder);
    ASSERT_NE(server.port(), 0) << "the openssl command is needed";
    const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
    allow(url + "/*");
    expect_refused(get(url + "/"), Errno::kConnection, "No secure connection");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace membrane::host
