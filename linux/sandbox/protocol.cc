#include "linux/sandbox/protocol.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace membrane::linux {
namespace {

struct Header {
  uint32_t bytes;
  uint16_t kind;
  uint16_t files;
  uint64_t number;
};
static_assert(sizeof(Header) == 16);

constexpr size_t kReadBytes = 64u << 10;

std::unexpected<Error> gone() {
  return fail(ErrorCode::kUnavailable, "the other side of the sandbox's socket is gone");
}

std::unexpected<Error> wrong(const char* what) {
  return fail(ErrorCode::kInvalidInput,
              std::string("the sandbox's socket received an invalid message: ") + what);
}

bool is_kind(uint16_t kind, FrameReader::From from) {
  const auto within = [kind](FrameKind first, FrameKind last) {
    return kind >= static_cast<uint16_t>(first) && kind <= static_cast<uint16_t>(last);
  };
  return from == FrameReader::From::kOwner ? within(FrameKind::kBegin, FrameKind::kLastOrder)
                                           : within(FrameKind::kAnswer, FrameKind::kLastTold);
}

}  // namespace

// -- frames ---------------------------------------------------------------------------------------------------------

void FrameReader::add(std::span<const std::byte> bytes) {
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  } else if (begin_ >= kReadBytes) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(begin_));
    begin_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameReader::next() {
  if (files_.size() > kMostFrameFiles) return wrong("it has more files than any message may have");
  if (bytes_.size() - begin_ < sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes_.data() + begin_, sizeof header);
  if (!is_kind(header.kind, from_)) return wrong("its kind is unknown");
  if (header.bytes > kMostFrameBytes) return wrong("it is too long");
  const bool takes_files = from_ == From::kOwner;
  if (header.files > (takes_files ? kMostFrameFiles : 0)) return wrong("it has too many files");
  if (bytes_.size() - begin_ - sizeof header < header.bytes) return std::nullopt;
  if (files_.size() < header.files) return wrong("its files are missing");
  Frame frame{.kind = static_cast<FrameKind>(header.kind), .number = header.number, .bytes = {}, .files = {}};
  frame.bytes.assign(reinterpret_cast<const char*>(bytes_.data()) + begin_ + sizeof header, header.bytes);
  for (uint16_t i = 0; i < header.files; ++i) {
    frame.files.push_back(std::move(files_.front()));
    files_.pop_front();
  }
  begin_ += sizeof header + header.bytes;
  return frame;
}

// The descriptors go with the first byte, so that they have arrived when the frame is complete.
Status FrameSocket::send(FrameKind kind, uint64_t number, std::string_view bytes,
                         std::span<const int> files) {
  if (bytes.size() > kMostFrameBytes || files.size() > kMostFrameFiles)
    return fail(ErrorCode::kTooLong, "a message of " + count_of(bytes.size(), "byte") + " is too long");
  Header header = {.bytes = static_cast<uint32_t>(bytes.size()),
                   .kind = static_cast<uint16_t>(kind),
                   .files = static_cast<uint16_t>(files.size()),
                   .number = number};
  const std::scoped_lock lock(mutex_);
  const size_t all = sizeof header + bytes.size();
  for (size_t sent = 0; sent < all;) {
    std::array<iovec, 2> parts = {};
    size_t count = 0;
    if (sent < sizeof header)
      parts[count++] = {reinterpret_cast<char*>(&header) + sent, sizeof header - sent};
    const size_t of_bytes = sent < sizeof header ? 0 : sent - sizeof header;
    if (of_bytes < bytes.size())
      parts[count++] = {const_cast<char*>(bytes.data()) + of_bytes, bytes.size() - of_bytes};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFrameFiles * sizeof(int))> control = {};
    if (sent == 0 && !files.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(files.size_bytes());
      cmsghdr* const with = CMSG_FIRSTHDR(&message);
      with->cmsg_level = SOL_SOCKET;
      with->cmsg_type = SCM_RIGHTS;
      with->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(with), files.data(), files.size_bytes());
    }
    const ssize_t wrote = sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return gone();
    sent += static_cast<size_t>(wrote);
  }
  return {};
}

Result<Frame> FrameSocket::receive() {
  for (;;) {
    MEMBRANE_ASSIGN(auto frame, reader_.next());
    if (frame) return std::move(*frame);
    MEMBRANE_TRY(read_some());
  }
}

Result<size_t> FrameSocket::read_some() {
  std::array<std::byte, kReadBytes> piece;
  iovec part = {piece.data(), piece.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFrameFiles * sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (other_ == FrameReader::From::kOwner) {  // descriptors from the kernel process are closed on arrival
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  ssize_t got = -1;
  do got = recvmsg(socket_.number(), &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return gone();
  for (cmsghdr* with = CMSG_FIRSTHDR(&message); with != nullptr; with = CMSG_NXTHDR(&message, with)) {
    if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (with->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(with) + i * sizeof number, sizeof number);
      reader_.add_file(HostFile(number));
    }
  }
  if (got == 0) return gone();
  reader_.add(std::span(piece).first(static_cast<size_t>(got)));
  return static_cast<size_t>(got);
}

void FrameSocket::shut() { shutdown(socket_.number(), SHUT_RDWR); }

// -- numbers and texts ------------------------------------------------------------------------------------------------

Packer& Packer::number(uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Packer& Packer::text(std::string_view text) {
  number(text.size());
  bytes_ += text;
  return *this;
}

Packer& Packer::texts(const std::vector<std::string>& all) {
  number(all.size());
  for (const std::string& each : all) text(each);
  return *this;
}

uint64_t Unpacker::number(uint64_t most) {
  uint64_t value = 0;
  if (rest_.size() < sizeof value) is_sound_ = false;
  if (!is_sound_) return 0;
  std::memcpy(&value, rest_.data(), sizeof value);
  rest_.remove_prefix(sizeof value);
  if (value > most) is_sound_ = false;
  return is_sound_ ? value : 0;
}

std::string Unpacker::text() {
  const uint64_t size = number();
  if (size > rest_.size()) is_sound_ = false;
  if (!is_sound_) return {};
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

size_t Unpacker::count(size_t bytes) {
  const uint64_t count = number();
  if (count > rest_.size() / bytes) is_sound_ = false;
  return is_sound_ ? count : 0;
}

std::vector<std::string> Unpacker::texts() {
  std::vector<std::string> all(count(sizeof(uint64_t)));
  for (std::string& each : all) each = text();
  return all;
}

// -- orders -----------------------------------------------------------------------------------------------------------

constexpr uint64_t kMostCpuMs = uint64_t{1} << 40;

std::string pack(const BeginOrder& order) {
  Packer packer;
  packer.text(order.host_name).text(order.platform).text(order.image_name);
  packer.number(order.limits.memory_bytes).number(order.limits.disk_bytes);
  packer.number(static_cast<uint64_t>(order.limits.most_tasks));
  packer.number(order.limits.cpu.has_value());
  if (order.limits.cpu) packer.number(static_cast<uint64_t>(order.limits.cpu->count()));
  packer.number(order.deterministic.has_value());
  if (order.deterministic)
    packer.number(static_cast<uint64_t>(order.deterministic->start_ms)).number(order.deterministic->seed);
  packer.number(order.stands_still);
  packer.number(order.has_image).number(order.has_kept).number(order.has_network);
  packer.number(order.kept_files_only);
  packer.number(order.directories.size());
  for (const BeginOrder::Directory& each : order.directories) packer.text(each.path).number(each.is_writable);
  return packer.bytes();
}

Result<BeginOrder> unpack_begin(std::string_view bytes) {
  Unpacker from(bytes);
  BeginOrder order;
  order.host_name = from.text();
  order.platform = from.text();
  order.image_name = from.text();
  order.limits.memory_bytes = from.number();
  order.limits.disk_bytes = from.number();
  order.limits.most_tasks = static_cast<int>(from.number(1u << 22));
  if (from.flag()) order.limits.cpu = std::chrono::milliseconds(from.number(kMostCpuMs));
  if (from.flag()) {
    const auto start_ms = static_cast<int64_t>(from.number());
    order.deterministic = {.start_ms = start_ms, .seed = from.number()};
  }
  order.stands_still = from.flag();
  order.has_image = from.flag();
  order.has_kept = from.flag();
  order.has_network = from.flag();
  order.kept_files_only = from.flag();
  order.directories.resize(from.count(2 * sizeof(uint64_t)));
  for (BeginOrder::Directory& each : order.directories) {
    each.path = from.text();
    each.is_writable = from.flag();
  }
  if (!from.is_whole() || order.directories.size() > kMostDirectories) return wrong("the beginning");
  return order;
}

std::string pack(const CommandSpec& spec, bool wants_output, bool wants_errors) {
  Packer packer;
  packer.texts(spec.arguments).texts(spec.environment).text(spec.directory);
  packer.number(spec.user).number(spec.group).number(wants_output).number(wants_errors);
  packer.number(spec.terminal.has_value());
  if (spec.terminal) packer.number(spec.terminal->columns).number(spec.terminal->rows);
  return packer.bytes();
}

Result<StartOrder> unpack_start(std::string_view bytes) {
  Unpacker from(bytes);
  StartOrder order;
  CommandSpec& spec = order.spec;
  spec.arguments = from.texts();
  spec.environment = from.texts();
  spec.directory = from.text();
  spec.user = static_cast<uint32_t>(from.number(UINT32_MAX));
  spec.group = static_cast<uint32_t>(from.number(UINT32_MAX));
  order.wants_output = from.flag();
  order.wants_errors = from.flag();
  if (from.flag()) {
    const auto columns = static_cast<uint16_t>(from.number(UINT16_MAX));
    spec.terminal = {.columns = columns, .rows = static_cast<uint16_t>(from.number(UINT16_MAX))};
  }
  if (!from.is_whole() || spec.arguments.empty()) return wrong("a command");
  return order;
}

// -- answers ----------------------------------------------------------------------------------------------------------

std::string pack(const BeginAnswer& answer) {
  return Packer().text(answer.platform).texts(answer.missing_walls).bytes();
}

Result<BeginAnswer> unpack_begun(std::string_view bytes) {
  Unpacker from(bytes);
  BeginAnswer answer;
  answer.platform = from.text();
  answer.missing_walls = from.texts();
  if (!from.is_whole()) return wrong("the walls");
  return answer;
}

std::string pack(const CommandEnd& end) {
  Packer packer;
  packer.number(end.was_signalled).number(static_cast<uint64_t>(end.status)).number(end.was_out_of_memory);
  packer.number(end.user_us).number(end.system_us);
  packer.number(end.reached.memory)
      .number(end.reached.tasks)
      .number(end.reached.disk)
      .number(end.reached.cpu);
  return packer.bytes();
}

Result<CommandEnd> unpack_end(std::string_view bytes) {
  Unpacker from(bytes);
  CommandEnd end;
  end.was_signalled = from.flag();
  end.status = static_cast<int>(from.number(255));
  end.was_out_of_memory = from.flag();
  end.user_us = from.number();
  end.system_us = from.number();
  for (uint64_t* const each : {&end.reached.memory, &end.reached.tasks, &end.reached.disk, &end.reached.cpu})
    *each = from.number();
  if (!from.is_whole()) return wrong("the end of a command");
  return end;
}

std::string pack(const std::vector<FileFacts>& facts) {
  Packer packer;
  packer.number(facts.size());
  for (const FileFacts& each : facts) {
    packer.text(each.path).number(each.mode).number(each.user).number(each.group).number(each.size);
    packer.number(each.links).number(static_cast<uint64_t>(each.modified_ns)).text(each.target);
  }
  return packer.bytes();
}

Result<std::vector<FileFacts>> unpack_facts(std::string_view bytes) {
  Unpacker from(bytes);
  std::vector<FileFacts> facts(from.count(8 * sizeof(uint64_t)));
  for (FileFacts& each : facts) {
    each.path = from.text();
    each.mode = static_cast<uint32_t>(from.number(UINT32_MAX));
    each.user = static_cast<uint32_t>(from.number(UINT32_MAX));
    each.group = static_cast<uint32_t>(from.number(UINT32_MAX));
    each.size = from.number();
    each.links = from.number();
    each.modified_ns = static_cast<int64_t>(from.number());
    each.target = from.text();
  }
  if (!from.is_whole()) return wrong("facts of files");
  return facts;
}

std::string pack(const std::vector<ChangedPath>& changes) {
  Packer packer;
  packer.number(changes.size());
  for (const ChangedPath& each : changes)
    packer.text(each.path).number(static_cast<uint64_t>(each.change)).number(each.mode);
  return packer.bytes();
}

Result<std::vector<ChangedPath>> unpack_changes(std::string_view bytes) {
  Unpacker from(bytes);
  std::vector<ChangedPath> changes(from.count(3 * sizeof(uint64_t)));
  for (ChangedPath& each : changes) {
    each.path = from.text();
    each.change = static_cast<Change>(from.number(static_cast<uint64_t>(Change::kRemoved)));
    each.mode = static_cast<uint32_t>(from.number(UINT32_MAX));
  }
  if (!from.is_whole()) return wrong("changes");
  return changes;
}

std::string pack(const ComputerUsage& usage) {
  Packer packer;
  packer.number(usage.memory_bytes).number(usage.memory_peak_bytes).number(usage.disk_bytes);
  packer.number(static_cast<uint64_t>(usage.tasks)).number(usage.preemptions);
  packer.number(usage.absent_calls.size());
  for (const auto& [name, count] : usage.absent_calls) packer.text(name).number(count);
  return packer.bytes();
}

Result<ComputerUsage> unpack_usage(std::string_view bytes) {
  Unpacker from(bytes);
  ComputerUsage usage;
  usage.memory_bytes = from.number();
  usage.memory_peak_bytes = from.number();
  usage.disk_bytes = from.number();
  usage.tasks = static_cast<int>(from.number(INT32_MAX));
  usage.preemptions = from.number();
  for (size_t left = from.count(2 * sizeof(uint64_t)); left > 0; --left) {
    const std::string name = from.text();
    usage.absent_calls[name] = from.number();
  }
  if (!from.is_whole()) return wrong("what is used");
  return usage;
}

std::string pack_answer(const Result<std::string>& answer) {
  Packer packer;
  packer.number(answer.has_value());
  if (answer) return packer.bytes() + *answer;
  packer.number(static_cast<uint64_t>(answer.error().code)).text(answer.error().message);
  return packer.text(answer.error().hint).bytes();
}

Result<std::string> unpack_answer(std::string_view bytes) {
  Unpacker from(bytes.substr(0, sizeof(uint64_t)));
  const bool is_good = from.flag();
  if (!from.is_whole()) return wrong("an answer");
  bytes.remove_prefix(sizeof(uint64_t));
  if (is_good) return std::string(bytes);
  Unpacker rest(bytes);
  const auto code = static_cast<ErrorCode>(rest.number(static_cast<uint64_t>(ErrorCode::kInternal)));
  std::string message = rest.text();
  std::string hint = rest.text();
  if (!rest.is_whole()) return wrong("an error");
  return fail(code, std::move(message), std::move(hint));
}

}  // namespace membrane::linux
