#include "host/egress/http_client.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/curl.h"
#include "base/environment.h"
#include "base/text.h"

namespace membrane::host {
namespace {

using policy::Address;
using policy::Resource;

constexpr char kUserAgent[] = "membrane/0.1";

// Shared state of one exchange's callbacks. The first error is stored in `error`; libcurl only knows that a callback
// aborted.
struct Progress {
  const Exchange& exchange;
  const CurlApi& api;
  CURL* easy;
  RawResponse response = {};
  uint64_t body_bytes = 0;
  uint64_t header_bytes = 0;
  uint64_t unpacked_bytes = 0;  // headers, and the stored body
  uint64_t wire_bytes = 0;      // as transferred, before dechunking and decompression
  uint64_t paid_bytes = 0;
  bool body_begun = false;
  int packings = 0;      // number of compressions of the body, according to its headers
  bool guarded = false;  // a socket to an unchecked address was requested
  HostError error{Errno::kOk, "", ""};

  bool stop(Errno code, std::string reason) {
    if (error.code == Errno::kOk) error = {code, std::move(reason), ""};
    return false;
  }
  // Pays for the bytes since the last payment.
  bool pay() {
    const uint64_t due = std::max(unpacked_bytes, wire_bytes);
    if (due == paid_bytes) return true;
    if (!exchange.budget.take(Resource::kBytesIn, due - paid_bytes))
      return stop(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)));
    paid_bytes = due;
    return true;
  }
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "gzip, chunked" is one compression. With several, each may expand the output of the next by a thousand within one
// read, without a byte of the body being counted or the clock being checked; no server needs more than one.
bool take_packings(Progress& progress, std::string_view codings) {
  while (!codings.empty()) {
    const size_t comma = std::min(codings.find(','), codings.size());
    std::string coding(trim(codings.substr(0, comma)));
    codings.remove_prefix(std::min(comma + 1, codings.size()));
    std::transform(coding.begin(), coding.end(), coding.begin(), lower);
    if (!coding.empty() && coding != "identity" && coding != "chunked") ++progress.packings;
  }
  return progress.packings <= 1 ||
         progress.stop(Errno::kProtocol, "The server's answer is compressed more than once.");
}

// A line of the response's head. Folded lines, invalid names and stray control characters are used to smuggle
// responses past filters, so they end the exchange.
bool take_header_line(Progress& progress, std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || progress.body_begun) return true;  // the end of the head; trailers are dropped
  if (line.starts_with("HTTP/")) {                       // after a 1xx the real head follows
    progress.response.headers.clear();
    progress.packings = 0;
    // The bytes after it would not be HTTP, and have no defined end.
    return !line.substr(line.find(' ') + 1).starts_with("101") ||
           progress.stop(Errno::kProtocol,
                         "The server changes the protocol (101), which no request asks for.");
  }
  const size_t colon = line.find(':');
  const bool token = colon != std::string_view::npos && colon > 0 &&
                     std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon),
                                 [](char c) { return c > 0x20 && c < 0x7f; });
  if (!token) return progress.stop(Errno::kProtocol, "The server's answer has a malformed header line.");
  const std::string_view value = trim(line.substr(colon + 1));
  const bool clean = std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
  if (!clean)
    return progress.stop(Errno::kProtocol, "The server's answer has a control character in a header.");
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  const bool packs = name == "content-encoding" || name == "transfer-encoding";
  progress.response.headers.emplace_back(std::move(name), value);
  return !packs || take_packings(progress, value);
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& progress = *static_cast<Progress*>(user);
  const size_t bytes = size * count;
  progress.header_bytes += bytes;
  if (progress.header_bytes > HttpClient::kMaxHeaderBytes) {
    progress.stop(Errno::kTooBig, "The server's answer has more than " +
                                      std::to_string(HttpClient::kMaxHeaderBytes) + " bytes of headers.");
    return 0;
  }
  progress.unpacked_bytes += bytes;
  return progress.pay() && take_header_line(progress, {data, bytes}) ? bytes : 0;
}

bool take_room(std::atomic<uint64_t>* room, uint64_t bytes) {
  if (room == nullptr) return true;
  uint64_t left = room->load();
  while (left >= bytes)
    if (room->compare_exchange_weak(left, left - bytes)) return true;
  return false;
}

bool hand_on(Progress& progress, std::string_view piece) {
  long status = 0;
  progress.api.easy_getinfo(progress.easy, CURLINFO_RESPONSE_CODE, &status);
  progress.response.status = static_cast<int>(status);
  return progress.exchange.take_piece(progress.response, piece) ||
         progress.stop(Errno::kConnection, "The program no longer takes the answer.");
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& progress = *static_cast<Progress*>(user);
  const size_t bytes = size * count;
  progress.body_begun = true;
  if (bytes > progress.exchange.max_response_bytes - progress.body_bytes) {
    progress.stop(Errno::kTooBig, "The server's answer is larger than the grant's " +
                                      count_of(progress.exchange.max_response_bytes, "byte") +
                                      " (max_response, after decompression).");
    return 0;
  }
  if (!progress.exchange.take_piece && !take_room(progress.exchange.room, bytes)) {
    progress.stop(Errno::kTooBig,
                  "The run's memory has no room for the server's answer (limits.memory, --memory).");
    return 0;
  }
  if (!progress.exchange.take_piece && progress.exchange.may_hold && !progress.exchange.may_hold(bytes)) {
    progress.stop(Errno::kTooBig, "Too many bytes of unread responses are held.");
    return 0;
  }
  progress.unpacked_bytes += bytes;
  progress.body_bytes += bytes;
  if (!progress.pay()) return 0;
  if (progress.exchange.take_piece) return hand_on(progress, {data, bytes}) ? bytes : 0;
  progress.response.body.append(data, bytes);
  return bytes;
}

// libcurl shows its debug callback the received bytes before dechunking and decompression: the only place that sees
// chunk extensions, and bytes that decompress to nothing. The callback cannot stop the transfer; on_progress() can.
int on_debug(CURL*, curl_infotype type, char*, size_t size, void* user) {
  if (type == CURLINFO_HEADER_IN || type == CURLINFO_DATA_IN)
    static_cast<Progress*>(user)->wire_bytes += size;
  return 0;
}

// Called after each read. The owner may move the deadline forward meanwhile.
int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& progress = *static_cast<Progress*>(user);
  if (!progress.pay()) return 1;
  if (!progress.exchange.run.passed()) return 0;
  progress.stop(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  return 1;
}

bool is_checked(const Exchange& exchange, const sockaddr& socket_address) {
  Address address;
  uint16_t port = 0;
  if (socket_address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(socket_address);
    std::array<uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &v4.sin_addr, bytes.size());
    address = Address::v4(bytes);
    port = ntohs(v4.sin_port);
  } else if (socket_address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(socket_address);
    std::array<uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    address = Address::v6(bytes);
    port = ntohs(v6.sin6_port);
  } else {
    return false;
  }
  const auto& checked = exchange.addresses;
  return port == exchange.url.port && std::find(checked.begin(), checked.end(), address) != checked.end();
}

curl_socket_t on_socket(void* user, curlsocktype purpose, curl_sockaddr* target) {
  auto& progress = *static_cast<Progress*>(user);
  if (purpose != CURLSOCKTYPE_IPCXN || !is_checked(progress.exchange, target->addr)) {
    progress.guarded = true;
    return CURL_SOCKET_BAD;
  }
  return socket(target->family, target->socktype | SOCK_CLOEXEC, target->protocol);
}

// "example.org:443:192.0.2.1,[2001:db8::1]": libcurl then never asks a resolver.
std::string pin(const Exchange& exchange) {
  std::string out = exchange.url.host + ":" + std::to_string(exchange.url.port) + ":";
  for (const Address& address : exchange.addresses) {
    if (out.back() != ':') out += ',';
    out += address.is_v4() ? address.to_string() : "[" + address.to_string() + "]";
  }
  return out;
}

HostError timed_out(const Exchange& exchange) {
  if (exchange.run.passed()) return {Errno::kBudget, std::string(policy::kTimeIsUsedUp), ""};
  return {Errno::kTimedOut, "The server did not answer in time.", ""};
}

// Converts libcurl's error. Its own texts are constants, and contain nothing of the exchange.
HostError explain(const CurlApi& api, CURLcode code, const Progress& progress) {
  const std::string words = api.easy_strerror(code);
  if (progress.error.code != Errno::kOk) return progress.error;
  if (progress.guarded)
    return {Errno::kAccess, "The connection would have gone to an address that was not checked.", ""};
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return timed_out(progress.exchange);
    case CURLE_FILESIZE_EXCEEDED:
      return {Errno::kTooBig, "The server announced an answer larger than the grant's max_response.", ""};
    case CURLE_OUT_OF_MEMORY:  // also libcurl's error for a line beyond its limit of 100 KiB
      return {Errno::kTooBig, "The server's answer has a header line that is too long.", ""};
    case CURLE_COULDNT_CONNECT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR: return {Errno::kConnection, "The connection failed: " + words + ".", ""};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return {
          Errno::kConnection,
          "No secure connection: " + words +
              ". The variable SSL_CERT_FILE of Membrane may name a file of certificates to trust, in PEM.",
          ""};
    case CURLE_SSL_CONNECT_ERROR: return {Errno::kConnection, "No secure connection: " + words + ".", ""};
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // a response that is not HTTP at all
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WRITE_ERROR:  // from libcurl's decoders, since errors of the callbacks were returned above
      return {Errno::kProtocol, "The server's answer is malformed: " + words + ".", ""};
    default: return {Errno::kHost, "The exchange failed: " + words + ".", ""};
  }
}

// A curl_slist that frees itself.
class List {
 public:
  explicit List(const CurlApi& api) : api_(api) {}
  ~List() { api_.slist_free_all(head_); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  bool add(const std::string& line) {
    curl_slist* grown = api_.slist_append(head_, line.c_str());
    if (grown != nullptr) head_ = grown;
    return grown != nullptr;
  }
  [[nodiscard]] curl_slist* get() const { return head_; }

 private:
  const CurlApi& api_;
  curl_slist* head_ = nullptr;
};

// The URL as libcurl's own object. It is made from the normal form's text, because libcurl rewrites percent escapes
// in parts that are set individually; it must then have exactly the parts that were decided on, or nothing is sent.
class Target {
 public:
  Target(const CurlApi& api, const policy::Url& url) : api_(api), url_(api.url_new()) {
    good_ = url_ != nullptr &&
            api_.url_set(url_, CURLUPART_URL, url.text().c_str(), CURLU_PATH_AS_IS | CURLU_DISALLOW_USER) ==
                CURLUE_OK &&
            is(CURLUPART_SCHEME, url.scheme) && is(CURLUPART_HOST, url.authority_host()) &&
            is(CURLUPART_PORT, std::to_string(url.port)) && is(CURLUPART_PATH, url.path) &&
            is(CURLUPART_QUERY, url.query);
  }
  ~Target() { api_.url_cleanup(url_); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] CURLU* get() const { return url_; }

 private:
  bool is(CURLUPart part, const std::optional<std::string>& expected) {
    char* text = nullptr;
    const bool there = api_.url_get(url_, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK;
    const bool same = there == expected.has_value() && (!there || *expected == text);
    api_.free_string(text);
    return same;
  }
  const CurlApi& api_;
  CURLU* url_;
  bool good_ = false;
};

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(const CurlApi& api) : api_(api), easy_(api.easy_init()) {}
  ~CurlClient() override { api_.easy_cleanup(easy_); }
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;
  [[nodiscard]] bool good() const { return easy_ != nullptr; }

  HostResult<RawResponse> send(const Exchange& exchange) override;

 private:
  template <typename T>
  void set(CURLoption option, T value) {
    ok_ = ok_ && api_.easy_setopt(easy_, option, value) == CURLE_OK;
  }
  void set_walls();
  void set_bounds(const Exchange& exchange, uint64_t left_ms);
  void set_request(const Exchange& exchange);
  void set_callbacks(Progress& progress);
  static bool fill_headers(const Exchange& exchange, List& list);

  const CurlApi& api_;
  CURL* easy_;
  bool ok_ = true;  // every option was accepted; a rejected one would be a missing wall
};

void CurlClient::set_walls() {
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PROXY, "");  // not even one that the environment names
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  set(CURLOPT_HTTP09_ALLOWED, 0L);
  // HTTP/2 frames and compressed headers would not be seen by the code that counts them.
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // As for the service's clients; libcurl itself only knows its default path.
  const std::string trusted = environment_variable("SSL_CERT_FILE");
  if (!trusted.empty()) set(CURLOPT_CAINFO, trusted.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_MAXCONNECTS, 4L);
  set(CURLOPT_PATH_AS_IS, 1L);
}

void CurlClient::set_bounds(const Exchange& exchange, uint64_t left_ms) {
  // One more: libcurl may end up to a millisecond early, when the time is not up yet.
  const long timeout = static_cast<long>(std::min<uint64_t>(left_ms, 3'600'000)) + 1;
  set(CURLOPT_CONNECTTIMEOUT_MS, timeout);
  if (exchange.take_piece) {
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, (timeout + 999) / 1000);
  } else {
    set(CURLOPT_TIMEOUT_MS, timeout);
  }
  // Bound on the announced length; 0 would mean no limit. A HEAD request may ask about any size.
  if (exchange.method != "HEAD")
    set(CURLOPT_MAXFILESIZE_LARGE,
        static_cast<curl_off_t>(std::max<uint64_t>(exchange.max_response_bytes, 1)));
  set(CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
}

void CurlClient::set_request(const Exchange& exchange) {
  const std::string& method = exchange.method;
  const bool with_body = !exchange.body.empty() || method == "POST" || method == "PUT" || method == "PATCH";
  set(CURLOPT_USERAGENT, kUserAgent);
  if (method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
    return;
  }
  if (with_body) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
    set(CURLOPT_POSTFIELDS, exchange.body.data());
  } else {
    set(CURLOPT_HTTPGET, 1L);
  }
  set(CURLOPT_CUSTOMREQUEST, method.c_str());
}

void CurlClient::set_callbacks(Progress& progress) {
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&progress));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&progress));
  set(CURLOPT_XFERINFOFUNCTION, &on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&progress));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_DEBUGFUNCTION, &on_debug);
  set(CURLOPT_DEBUGDATA, static_cast<void*>(&progress));
  set(CURLOPT_VERBOSE, 1L);
  set(CURLOPT_OPENSOCKETFUNCTION, &on_socket);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&progress));
}

bool CurlClient::fill_headers(const Exchange& exchange, List& list) {
  bool typed = false;
  // "Expect:" and "Content-Type:" without a value keep libcurl from adding its own.
  bool good = list.add("Expect:");
  for (const auto& [name, value] : exchange.headers) {
    std::string small = name;
    std::transform(small.begin(), small.end(), small.begin(), lower);
    typed = typed || small == "content-type";
    good = good &&
           list.add(trim(value).empty() ? name + ";" : name + ": " + value);  // ";": libcurl's empty value
  }
  return good && (typed || list.add("Content-Type:"));
}

HostResult<RawResponse> CurlClient::send(const Exchange& exchange) {
  const uint64_t left_ms = exchange.deadline.left_ms();
  if (left_ms == 0) return std::unexpected(timed_out(exchange));
  Progress progress{.exchange = exchange, .api = api_, .easy = easy_};
  const Target target(api_, exchange.url);
  List headers(api_), pins(api_);
  api_.easy_reset(easy_);  // options are reset, connections stay
  if (!target.good()) return refuse(Errno::kHost, "libcurl reads the URL in another way than the grant did.");
  ok_ = fill_headers(exchange, headers);
  set(CURLOPT_CURLU, target.get());
  set_walls();
  set_bounds(exchange, left_ms);
  set_request(exchange);
  set_callbacks(progress);
  set(CURLOPT_HTTPHEADER, headers.get());
  if (!exchange.url.address) {
    ok_ = ok_ && pins.add(pin(exchange));
    set(CURLOPT_RESOLVE, pins.get());
  }
  if (!ok_) return refuse(Errno::kHost, "libcurl did not accept an option that the egress depends on.");
  CURLcode code = api_.easy_perform(easy_);
  if (code == CURLE_OK && !progress.pay()) code = CURLE_ABORTED_BY_CALLBACK;
  long status = 0;
  api_.easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  api_.easy_reset(easy_);  // it must not point to what is destroyed here
  if (code != CURLE_OK) {
    HostError why = explain(api_, code, progress);
    why.acted = code != CURLE_COULDNT_CONNECT;
    return std::unexpected(std::move(why));
  }
  progress.response.status = static_cast<int>(status);
  return std::move(progress.response);
}

}  // namespace

HostResult<std::unique_ptr<HttpClient>> HttpClient::create() {
  const auto api = curl();
  if (!api) return refuse(Errno::kHost, api.error().to_string());
  auto client = std::make_unique<CurlClient>(**api);
  if (!client->good()) return refuse(Errno::kHost, "libcurl could not be initialised.");
  return client;
}

}  // namespace membrane::host
