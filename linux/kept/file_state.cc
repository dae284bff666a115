#include "linux/kept/file_state.h"

#include <fcntl.h>

#include <algorithm>
#include <set>

#include "linux/files/anonymous_node.h"
#include "linux/files/datagram_socket.h"
#include "linux/files/epoll.h"
#include "linux/files/event_file.h"
#include "linux/files/inotify.h"
#include "linux/files/netlink_socket.h"
#include "linux/files/own_caller.h"
#include "linux/files/path_file.h"
#include "linux/files/regular_file.h"
#include "linux/files/sealed_node.h"
#include "linux/files/signal_file.h"
#include "linux/files/stream_socket.h"
#include "linux/files/timer_file.h"
#include "linux/kept/shared_memory_state.h"
#include "linux/kept/tree_state.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {
namespace {

enum class Kind : uint8_t {
  kOther = 1,  // reopened by its node: devices, /proc
  kRegular,
  kDirectory,
  kPath,
  kPipe,
  kEvent,
  kTimer,
  kSignals,
  kEpoll,
  kInotify,
  kProcess,
  kStream,
  kDatagram,
  kInput,
  kOutput,
  kMaster,
  kSlave,
  kControlling,
  kMemory,
  kSharedMemory,
  kNetlink,
};

constexpr uint64_t kLastNodeNumber = uint64_t{1} << 62;
constexpr size_t kMostPacketBytes = 1u << 20, kMostTargets = 1u << 16;

// A file that could not be opened again.
class LostFile final : public File {
 public:
  explicit LostFile(NodeRef node) : node_(std::move(node)) {}
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_of(location, *node_); }
  Try<size_t> read(Caller&, Buffer&) override { return err(EIO); }
  Try<size_t> write(Caller&, Buffer&) override { return err(EIO); }

 private:
  const NodeRef node_;
};

Kind kind_of(const File& file) {
  if (dynamic_cast<const RegularFile*>(&file) != nullptr) return Kind::kRegular;
  if (dynamic_cast<const DirectoryFile*>(&file) != nullptr) return Kind::kDirectory;
  if (dynamic_cast<const PathFile*>(&file) != nullptr) return Kind::kPath;
  if (dynamic_cast<const PipeEnd*>(&file) != nullptr) return Kind::kPipe;
  if (dynamic_cast<const EventFile*>(&file) != nullptr) return Kind::kEvent;
  if (dynamic_cast<const TimerFile*>(&file) != nullptr) return Kind::kTimer;
  if (dynamic_cast<const SignalFile*>(&file) != nullptr) return Kind::kSignals;
  if (dynamic_cast<const EpollFile*>(&file) != nullptr) return Kind::kEpoll;
  if (dynamic_cast<const InotifyFile*>(&file) != nullptr) return Kind::kInotify;
  if (dynamic_cast<const ProcessFile*>(&file) != nullptr) return Kind::kProcess;
  if (dynamic_cast<const StreamSocket*>(&file) != nullptr) return Kind::kStream;
  if (dynamic_cast<const DatagramSocket*>(&file) != nullptr) return Kind::kDatagram;
  if (dynamic_cast<const NetlinkSocket*>(&file) != nullptr) return Kind::kNetlink;
  if (OutsideInput::of(file) != nullptr) return Kind::kInput;
  if (OutsideOutput::of(file) != nullptr) return Kind::kOutput;
  if (dynamic_cast<const PtyMaster*>(&file) != nullptr) return Kind::kMaster;
  if (dynamic_cast<const PtySlave*>(&file) != nullptr) return Kind::kSlave;
  if (dynamic_cast<const ControllingTerminal*>(&file) != nullptr) return Kind::kControlling;
  if (dynamic_cast<const SharedMemory*>(&file) != nullptr) return Kind::kSharedMemory;
  if (dynamic_cast<const SealedNode*>(file.node().get()) != nullptr) return Kind::kMemory;
  return Kind::kOther;
}

void write_bytes(StateWriter& state, const ByteQueue& bytes) { state.blob(bytes.bytes()); }

void read_bytes(StateReader& state, ByteQueue& bytes, size_t most) {
  std::vector<std::byte> read;
  state.blob(read, most);
  bytes.clear();
  bytes.append(read);
}

template <typename State>
void transfer_sender(State& state, Sender& sender) {
  state(sender.process);
  state(sender.uid);
  state(sender.gid);
}

template <typename State>
void transfer_inet(State& state, InetAddress& address) {
  state.raw(address.ip);
  state(address.port);
}

template <typename State>
void transfer_attributes(State& state, Attributes& facts) {
  state(facts.device);
  state(facts.number);
  state(facts.mode);
  state(facts.links);
  state(facts.uid);
  state(facts.gid);
  for (timespec* const time : {&facts.accessed, &facts.modified, &facts.changed, &facts.created})
    state(*time);
}

void write_address(SandboxWriter& to, StateWriter& state, const SocketAddress& address) {
  state(address.bytes);
  state(to.node(address.node));
}

SocketAddress read_address(SandboxReader& from) {
  SocketAddress address;
  from.state(address.bytes);
  from.state.require(address.bytes.size() <= SocketAddress::kMostBytes);
  address.node = from.take(from.nodes);
  return address;
}

// The file's position, as lseek() reports it. A file that cannot seek is at 0.
uint64_t offset_of(File& file) { return file.seek(0, SEEK_CUR).value_or(0); }

void set_offset(File& file, uint64_t offset) {
  if (offset != 0) static_cast<void>(file.seek(static_cast<int64_t>(offset), SEEK_SET));
}

}  // namespace

// -- nodes, pipes, streams of the outside -----------------------------------------------------------------------------

void FileState::write_anonymous(SandboxWriter& to, AnonymousNode& node) {
  transfer_attributes(to.place_section, node.attributes_);
}

NodeRef FileState::read_anonymous(SandboxReader& from) {
  Attributes facts;
  transfer_attributes(from.state, facts);
  from.state.require(facts.number > 0 && facts.number < kLastNodeNumber);
  if (!from.state.is_good()) return nullptr;
  auto node = make_anonymous_node(AnonymousDevice::kOthers, facts.mode);
  node->attributes_ = facts;
  take_node_numbers(facts.number);
  return node;
}

void FileState::write_pipe(SandboxWriter& to, Pipe& pipe, uint32_t node) {
  StateWriter& state = to.thing_section;
  state(node);
  write_bytes(state, pipe.bytes);
  state(uint64_t{pipe.capacity()});
  state(pipe.readers_so_far);
  state(pipe.writers_so_far);
}

std::shared_ptr<Pipe> FileState::read_pipe(SandboxReader& from) {
  const NodeRef node = from.take_one(from.nodes);
  ByteQueue bytes;
  read_bytes(from.state, bytes, Pipe::kMostCapacity);
  const auto capacity = from.state.get<uint64_t>();
  auto pipe = std::make_shared<Pipe>(std::min<uint64_t>(capacity, Pipe::kMostCapacity));
  pipe->bytes = std::move(bytes);
  auto& openings = from.pipe_openings.emplace_back();
  from.state(openings.readers);
  from.state(openings.writers);
  from.state.require(capacity > 0 && capacity <= Pipe::kMostCapacity && pipe->bytes.size() <= capacity);
  if (!from.state.is_good()) return pipe;
  if (auto* const nameless = dynamic_cast<AnonymousNode*>(node.get())) open_as_pipe(*nameless, pipe);
  else if (auto* const of_node = TreeState::pipe_of(*node)) *of_node = pipe;
  else from.state.refuse();
  return pipe;
}

void FileState::write_input(SandboxWriter& to, OutsideInput& input) {
  const std::scoped_lock lock(input.mutex_);
  write_bytes(to.thing_section, input.bytes_);
  to.thing_section(input.has_ended_);
}

std::shared_ptr<OutsideInput> FileState::read_input(SandboxReader& from) {
  auto input = std::make_shared<OutsideInput>(nullptr);
  read_bytes(from.state, input->bytes_, input->capacity_);
  from.state(input->has_ended_);
  return input;
}

// -- terminals --------------------------------------------------------------------------------------------------------

template <typename State>
void FileState::transfer_line(State& state, LineDiscipline& line) {
  state.raw(line.modes_);
  state(line.dropped_);
  state(line.edited_from_);
  state(line.next_is_literal_);
  state(line.column_);
  state(line.line_column_);
}

template <typename State>
void FileState::transfer_job(State& state, Terminal& terminal) {
  state.raw(terminal.size);
  state(terminal.is_locked);
  state(terminal.had_slaves);
  state(terminal.has_master);
  state(terminal.has_packets);
  state(terminal.packet_status);
  state(terminal.hang_ups);
  state(terminal.session_);
  state(terminal.foreground_);
  state.raw(terminal.speeds_);
}

void FileState::write_terminal(SandboxWriter& to, Terminal& terminal) {
  StateWriter& state = to.terminal_section;
  state(terminal.number);
  transfer_job(state, terminal);
  const Attributes facts = terminal.node->attributes();
  state(facts.mode);
  state(facts.uid);
  state(facts.gid);
  LineDiscipline& line = terminal.line;
  transfer_line(state, line);
  write_bytes(state, line.input_);
  write_bytes(state, line.output);
  state(static_cast<uint32_t>(line.lines_.size()));
  for (const auto& each : line.lines_) {
    state(each.end);
    state(each.is_marker);
  }
}

std::shared_ptr<Terminal> FileState::read_terminal(SandboxReader& from) {
  StateReader& state = from.state;
  const auto number = state.get<int>();
  const bool has_terminals = from.kernel.system != nullptr;
  state.require(has_terminals && number >= 0 && number < Terminals::kMost);
  if (!state.is_good()) return nullptr;
  Terminals& all = *from.kernel.system->terminals;
  const auto of_its_number = all.find(number);
  auto terminal = all.make_terminal(number, {});
  transfer_job(state, *terminal);
  // A terminal whose master is closed has no name: another terminal may have its number now.
  state.require(of_its_number == nullptr || !terminal->has_master);
  if (of_its_number != nullptr) all.terminals_[number] = of_its_number;
  else if (!terminal->has_master) all.terminals_.erase(number);
  const auto mode = state.get<uint32_t>(), user = state.get<uint32_t>(), group = state.get<uint32_t>();
  static_cast<void>(terminal->node->change(
      {.mode = mode & 07777, .uid = user, .gid = group, .accessed = {}, .modified = {}}));
  LineDiscipline& line = terminal->line;
  transfer_line(state, line);
  read_bytes(state, line.input_, LineDiscipline::kMostInput);
  read_bytes(state, line.output, LineDiscipline::kMostOutput);
  state.require(line.dropped_ < kLastNodeNumber && line.edited_from_ >= line.dropped_ &&
                line.edited_from_ <= line.input_end());
  uint64_t last = line.dropped_;
  for (size_t left = state.count(9); left > 0 && state.is_good(); --left) {
    auto& each = line.lines_.emplace_back();
    state(each.end);
    state(each.is_marker);
    state.require(each.end > last && each.end <= line.edited_from_);
    last = each.end;
  }
  return terminal;
}

// -- sockets ----------------------------------------------------------------------------------------------------------

template <typename State>
void FileState::transfer_options(State& state, SocketFile& socket) {
  int64_t receive_us = socket.receive_limit_.count(), send_us = socket.send_limit_.count();
  state(receive_us);
  state(send_us);
  socket.receive_limit_ = std::chrono::microseconds(receive_us);
  socket.send_limit_ = std::chrono::microseconds(send_us);
  state.raw(socket.linger_);
}

void FileState::write_socket(SandboxWriter& to, SocketFile& socket) {
  const uint32_t end = to.end(socket.end_), node = to.node(socket.node_);
  std::shared_ptr<SocketEnd> peer, full;
  bool sends_no_more = false, other = false;
  if (auto* const stream = dynamic_cast<StreamSocket*>(&socket)) {
    peer = stream->peer_;
    full = stream->full_listener_.lock();
    sends_no_more = stream->sends_no_more_;
    other = stream->has_been_reset_;
  } else if (auto* const datagram = dynamic_cast<DatagramSocket*>(&socket)) {
    peer = datagram->peer_.lock();
    full = datagram->full_.lock();
    sends_no_more = datagram->sends_no_more_;
    other = datagram->is_connected_;
  }
  const uint32_t peer_number = to.end(peer), full_number = to.end(full);
  StateWriter& state = to.file_section;
  state(end);
  state(node);
  state(peer_number);
  state(full_number);
  state(sends_no_more);
  state(other);
  if (const auto* const netlink = dynamic_cast<NetlinkSocket*>(&socket)) state(int{netlink->protocol_});
  transfer_options(state, socket);
  state(static_cast<uint32_t>(socket.options_.size()));
  for (const auto& [name, value] : socket.options_) {
    state(name.first);
    state(name.second);
    state(value);
  }
}

FileRef FileState::read_socket(SandboxReader& from) {
  StateReader& state = from.state;
  const auto kind = static_cast<Kind>(from.kind);
  const bool is_stream = kind == Kind::kStream, is_netlink = kind == Kind::kNetlink;
  const auto end = from.take_one(from.ends);
  const NodeRef node = from.take_one(from.nodes);
  const auto peer = from.take(from.ends), full = from.take(from.ends);
  const bool sends_no_more = state.get<bool>(), other = state.get<bool>();
  const int protocol = is_netlink ? state.get<int>() : 0;
  state.require(end == nullptr || (end->domain == AF_NETLINK) == is_netlink);
  state.require(end == nullptr || is_netlink || (end->type == SOCK_DGRAM) != is_stream);
  state.require(end == nullptr || !is_netlink || NetlinkSocket::check(end->type, protocol).has_value());
  if (!state.is_good()) return nullptr;
  std::shared_ptr<SocketFile> socket;
  if (is_stream) {
    auto made = std::make_shared<StreamSocket>(end, peer, Credentials());
    made->full_listener_ = full;
    made->sends_no_more_ = sends_no_more;
    made->has_been_reset_ = other;
    socket = std::move(made);
  } else if (is_netlink) {
    socket = std::make_shared<NetlinkSocket>(end, Credentials(), protocol);
  } else {
    auto made = std::make_shared<DatagramSocket>(end, Credentials());
    made->peer_ = peer;
    made->full_ = full;
    made->sends_no_more_ = sends_no_more;
    made->is_connected_ = other;
    socket = std::move(made);
  }
  socket->node_ = node;
  transfer_options(state, *socket);
  for (size_t left = state.count(12); left > 0 && state.is_good(); --left) {
    const auto level = state.get<int>(), name = state.get<int>();
    socket->options_[{level, name}] = state.get<int>();
  }
  return socket;
}

void FileState::write_end(SandboxWriter& to, SocketEnd& end) {
  StateWriter& state = to.body_section;
  write_address(to, state, end.name);
  transfer_inet(state, end.local);
  transfer_inet(state, end.remote);
  transfer_sender(state, end.owner);
  // Connections to the world outside are not kept: they have ended.
  for (const bool flag :
       {end.reuses_address, end.reuses_port, end.only_v6, end.passes_credentials,
        end.is_closed || end.is_outside, end.receives_no_more || end.has_peer_outside, end.is_listening})
    state(flag);
  state(uint64_t{end.capacity});
  state(uint64_t{end.backlog});
  state(end.error);
  state(to.end(end.connected_by.lock()));
  state(static_cast<uint32_t>(end.pending.size()));
  for (const auto& each : end.pending) state(to.end(each));
  state(static_cast<uint32_t>(end.packets.size()));
  for (Packet& packet : end.packets) {
    state.blob(std::span(packet.bytes).subspan(packet.begin));
    transfer_sender(state, packet.sender);
    write_address(to, state, packet.from);
    state(static_cast<uint32_t>(packet.files.files.size()));
    for (const FileRef& file : packet.files.files) state(to.file(file));
  }
}

void FileState::read_end(SandboxReader& from, SocketEnd& end) {
  StateReader& state = from.state;
  end.name = read_address(from);
  transfer_inet(state, end.local);
  transfer_inet(state, end.remote);
  transfer_sender(state, end.owner);
  for (bool* const flag : {&end.reuses_address, &end.reuses_port, &end.only_v6, &end.passes_credentials,
                           &end.is_closed, &end.receives_no_more, &end.is_listening})
    state(*flag);
  end.capacity = state.get<uint64_t>();
  end.backlog = state.get<uint64_t>();
  state(end.error);
  state.require(end.capacity <= SocketSpace::kMostQueuedBytes && end.backlog <= kMostTargets &&
                end.error >= 0 && end.error < 4096 && end.packets.empty() && end.pending.empty());
  end.connected_by = from.take(from.ends);
  for (size_t left = state.count(4, kMostTargets); left > 0 && state.is_good(); --left)
    if (auto waiting = from.take_one(from.ends)) end.pending.push_back(std::move(waiting));
  for (size_t left = state.count(28); left > 0 && state.is_good(); --left) {
    Packet packet;
    state.blob(packet.bytes, kMostPacketBytes);
    transfer_sender(state, packet.sender);
    packet.from = read_address(from);
    std::vector<FileRef> files;
    for (size_t more = state.count(4, SocketFile::kMostFilesOfMessage); more > 0 && state.is_good(); --more)
      if (FileRef file = from.take_one(from.files)) files.push_back(std::move(file));
    if (!state.is_good()) return;
    auto counted = end.space->count(std::move(files));
    state.require(counted.has_value());
    if (!counted) return;
    packet.files = std::move(*counted);
    state.require(end.add(std::move(packet)).has_value());
  }
}

void FileState::reset_outside(SandboxReader& from) {
  std::set<const SocketEnd*> inside;  // ends that a socket holds, or that wait for accept()
  for (const FileRef& file : from.files)
    if (const auto* const socket = dynamic_cast<const SocketFile*>(file.get())) inside.insert(&socket->end());
  for (const auto& end : from.ends)
    for (const auto& waiting : end->pending) inside.insert(waiting.get());
  for (const FileRef& file : from.files) {
    auto* const stream = dynamic_cast<StreamSocket*>(file.get());
    SocketEnd* const peer = stream == nullptr ? nullptr : stream->peer_.get();
    if (peer == nullptr || peer->is_closed || inside.contains(peer)) continue;
    peer->is_closed = true;
    peer->clear();
    stream->end_->error = ECONNRESET;
    stream->end_->receives_no_more = true;
  }
}

void FileState::write_names(const SandboxWriter& to, const SocketSpace& sockets, StateWriter& state) {
  StateWriter names;
  uint32_t count = 0;
  const auto put = [&](uint8_t kind, const std::weak_ptr<SocketEnd>& end, const auto& name) {
    const auto there = end.lock();
    const uint32_t number = there == nullptr ? 0 : to.ends.find(there.get());
    if (number == 0) return;
    names(kind);
    names(number);
    names(name);
    ++count;
  };
  for (const auto& [name, end] : sockets.abstract_) put(1, end, name);
  for (const auto& [node, bound] : sockets.nodes_)
    if (const uint32_t number = to.nodes.find(node)) put(2, bound.second, number);
  for (const auto& [port, end] : sockets.ports_) put(3, end, port);
  for (const auto& [port, end] : sockets.netlink_ports_) put(4, end, port);
  state(count);
  state.put(names.bytes());
  state(sockets.last_port_);
  state(sockets.last_name_);
}

void FileState::read_names(SandboxReader& from) {
  StateReader& state = from.state;
  SocketSpace& sockets = *from.kernel.sockets;
  for (size_t left = state.count(7); left > 0 && state.is_good(); --left) {
    const auto kind = state.get<uint8_t>();
    const auto end = from.take_one(from.ends);
    if (kind == 1) {
      const auto name = state.get<std::string>();
      state.require(state.is_good() && sockets.bind_abstract(name, end).has_value());
    } else if (kind == 2) {
      const NodeRef node = from.take_one(from.nodes);
      state.require(state.is_good() && sockets.bind_node(node, end).has_value());
    } else if (kind == 4) {
      const auto port = state.get<uint32_t>();
      state.require(state.is_good() && port != 0 && sockets.bind_netlink(port, end).has_value());
    } else {
      const auto port = state.get<uint16_t>();
      state.require(kind == 3 && port != 0);
      if (state.is_good()) sockets.ports_.emplace(port, end);
    }
  }
  state(sockets.last_port_);
  state(sockets.last_name_);
}

// -- files ------------------------------------------------------------------------------------------------------------

void FileState::write_file(SandboxWriter& to, const FileRef& file) {
  const Kind kind = kind_of(*file);
  const uint32_t location = to.location(file->location);
  // What it depends on is written first, into other sections.
  const uint32_t node = kind == Kind::kSharedMemory ? 0 : to.node(file->node());
  uint32_t thing = 0;
  if (const auto* const end = dynamic_cast<const PipeEnd*>(file.get()))
    thing = to.pipe(end->pipe_, end->node_);
  if (const auto* const of = dynamic_cast<const ProcessFile*>(file.get())) thing = to.process_end(of->end_);
  if (const auto input = OutsideInput::of(*file)) thing = to.input(input);
  if (const auto output = OutsideOutput::of(*file)) thing = to.output(output);
  if (const auto* const master = dynamic_cast<const PtyMaster*>(file.get()))
    thing = to.terminal(master->terminal());
  if (const auto* const slave = dynamic_cast<const PtySlave*>(file.get()))
    thing = to.terminal(slave->terminal());
  if (const auto* const named = dynamic_cast<const ControllingTerminal*>(file.get()))
    thing = to.terminal(named->terminal());
  StateWriter& state = to.file_section;
  state(kind);
  state(file->flags);
  state(file->owner);
  state(location);
  if (auto* const socket = dynamic_cast<SocketFile*>(file.get())) return write_socket(to, *socket);
  state(node);
  state(thing);
  if (const auto* const end = dynamic_cast<const PipeEnd*>(file.get())) {
    state(end->opened_as_);
    state(end->readers_before_);
    state(end->writers_before_);
  } else if (const auto* const event = dynamic_cast<const EventFile*>(file.get())) {
    state(event->count_);
    state(event->is_semaphore_);
  } else if (auto* const timer = dynamic_cast<TimerFile*>(file.get())) {
    state(timer->clock_);
    int64_t next_ns = timer->next_ ? timer->next_->count() : -1;
    state(next_ns);
    state(int64_t{timer->interval_.count()});
    state(timer->count_);
  } else if (const auto* const signals = dynamic_cast<const SignalFile*>(file.get())) {
    state(signals->set_);
  } else if (const auto* const slave = dynamic_cast<const PtySlave*>(file.get())) {
    state(slave->is_hung_up());
  } else if (auto* const memory = dynamic_cast<SharedMemory*>(file.get())) {
    SharedMemoryState::write(*memory, state, to.pages);
  } else {
    state(offset_of(*file));
  }
}

FileRef FileState::read_file(SandboxReader& from) {
  const auto kind = from.state.get<Kind>();
  const auto flags = from.state.get<int>(), owner = from.state.get<int>();
  LocationRef location = from.take(from.locations);
  if (!from.state.is_good()) return nullptr;
  from.kind = static_cast<uint8_t>(kind);
  from.flags = flags;
  from.location = location;
  const bool is_socket = kind == Kind::kStream || kind == Kind::kDatagram || kind == Kind::kNetlink;
  FileRef file = is_socket ? read_socket(from) : read_kind(from);
  if (file == nullptr || !from.state.is_good()) return nullptr;
  file->flags = flags;
  file->owner = owner;
  file->location = std::move(location);
  return file;
}

FileRef FileState::read_timer(SandboxReader& from) {
  StateReader& state = from.state;
  const auto clock = state.get<int>();
  const auto next_ns = state.get<int64_t>(), interval_ns = state.get<int64_t>();
  const auto count = state.get<uint64_t>();
  state.require((clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && interval_ns >= 0);
  if (!state.is_good()) return nullptr;
  std::shared_ptr<TimerFile> timer(new TimerFile(from.kernel, clock, from.node));
  if (next_ns >= 0) timer->next_ = std::chrono::nanoseconds(next_ns);
  timer->interval_ = std::chrono::nanoseconds(interval_ns);
  timer->count_ = count;
  timer->arm();
  return timer;
}

FileRef FileState::read_kind(SandboxReader& from) {
  StateReader& state = from.state;
  const auto kind = static_cast<Kind>(from.kind);
  from.node = from.take(from.nodes);
  const NodeRef& node = from.node;
  state.require(node != nullptr || kind == Kind::kSharedMemory || kind == Kind::kMaster);
  if (!state.is_good()) return nullptr;
  switch (kind) {
    case Kind::kPipe: {
      const auto pipe = from.take_one(from.pipes);
      const auto opened_as = state.get<int>();
      const auto readers = state.get<uint64_t>(), writers = state.get<uint64_t>();
      state.require(opened_as >= 0 && opened_as <= O_RDWR);
      if (!state.is_good()) return nullptr;
      auto end = std::make_shared<PipeEnd>(pipe, node, opened_as);
      end->readers_before_ = readers;
      end->writers_before_ = writers;
      return end;
    }
    case Kind::kProcess: {
      const auto end = from.take_one(from.process_ends);
      state.get<uint64_t>();
      return end == nullptr ? nullptr : std::make_shared<ProcessFile>(end, 0);
    }
    case Kind::kInput: {
      const auto input = from.take_one(from.inputs);
      state.get<uint64_t>();
      return input == nullptr ? nullptr : input->open();
    }
    case Kind::kOutput: {
      const auto output = from.take_one(from.outputs);
      state.get<uint64_t>();
      return output == nullptr ? nullptr : output->open();
    }
    case Kind::kMaster: {
      const auto terminal = from.take_one(from.terminals);
      state.get<uint64_t>();
      state.require(terminal != nullptr && terminal->has_master);
      if (!state.is_good()) return nullptr;
      return std::make_shared<PtyMaster>(from.kernel.system->terminals, terminal, node);
    }
    case Kind::kSlave: {
      const auto terminal = from.take_one(from.terminals);
      const bool is_hung_up = state.get<bool>();
      if (!state.is_good()) return nullptr;
      // A hung-up description was opened before the last hang-up.
      if (is_hung_up) --terminal->hang_ups;
      auto slave = std::make_shared<PtySlave>(terminal);
      if (is_hung_up) ++terminal->hang_ups;
      return slave;
    }
    case Kind::kControlling: {
      const auto terminal = from.take_one(from.terminals);
      state.get<uint64_t>();
      return terminal == nullptr ? nullptr : std::make_shared<ControllingTerminal>(terminal);
    }
    default: break;
  }
  state.require(state.get<uint32_t>() == 0);  // no thing
  switch (kind) {
    case Kind::kEvent: {
      const auto count = state.get<uint64_t>();
      const bool is_semaphore = state.get<bool>();
      std::shared_ptr<EventFile> event(new EventFile(0, is_semaphore, node));
      event->count_ = count;
      return event;
    }
    case Kind::kTimer: return read_timer(from);
    case Kind::kSignals: {
      const auto set = state.get<uint64_t>();
      return FileRef(new SignalFile(from.kernel, set, node));
    }
    case Kind::kSharedMemory: return SharedMemoryState::read(from);
    default: break;
  }
  const auto offset = state.get<uint64_t>();
  state.require(offset <= INT64_MAX);
  if (!state.is_good()) return nullptr;
  FileRef file;
  switch (kind) {
    case Kind::kRegular: file = std::make_shared<RegularFile>(node, from.flags); break;
    case Kind::kDirectory: file = std::make_shared<DirectoryFile>(node, from.flags); break;
    case Kind::kPath:
      state.require(from.location != nullptr);
      return from.location == nullptr ? nullptr : std::make_shared<PathFile>(from.location);
    case Kind::kMemory: {
      auto sealed = std::dynamic_pointer_cast<SealedNode>(node);
      state.require(sealed != nullptr);
      if (sealed == nullptr) return nullptr;
      file = open_memory_file(std::move(sealed), from.flags);
      break;
    }
    case Kind::kEpoll: return std::make_shared<EpollFile>(node);
    case Kind::kInotify: {
      if (from.kernel.watches == nullptr) from.kernel.watches = std::make_shared<Watches>();
      state.require(from.kernel.watches->files_ < Watches::kMostFiles);
      return state.is_good() ? FileRef(new InotifyFile(from.kernel.watches, node)) : nullptr;
    }
    case Kind::kOther: {
      OwnCaller nobody;
      auto opened = open_node(nobody, node, from.flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOCTTY));
      file = opened ? *opened : std::make_shared<LostFile>(node);
      break;
    }
    default: state.refuse(); return nullptr;
  }
  set_offset(*file, offset);
  return file;
}

// -- bodies -----------------------------------------------------------------------------------------------------------

bool FileState::write_body(SandboxWriter& to, File& file) {
  StateWriter& state = to.body_section;
  if (auto* const epoll = dynamic_cast<EpollFile*>(&file)) {
    const auto watched = epoll->watched();
    state(static_cast<uint32_t>(watched.size()));
    for (const EpollFile::Watched& each : watched) {
      state(each.descriptor);
      state(to.file(each.file));
      state(uint32_t{each.event.events});
      state(uint64_t{each.event.data.u64});
      state(each.is_disabled);
    }
    return true;
  }
  auto* const inotify = dynamic_cast<InotifyFile*>(&file);
  if (inotify == nullptr) return false;
  state(inotify->last_);
  state(static_cast<uint32_t>(inotify->watches_.size()));
  for (const auto& [number, watch] : inotify->watches_) {
    state(number);
    state(to.node(watch.node));
    state(watch.mask);
  }
  state(static_cast<uint32_t>(inotify->events_.size()));
  for (const auto& event : inotify->events_) {
    state(event.watch);
    state(event.mask);
    state(event.cookie);
    state(event.name);
  }
  return true;
}

void FileState::read_inotify_body(SandboxReader& from, InotifyFile& file) {
  StateReader& state = from.state;
  const auto last = state.get<int>();
  Watches& all = *file.all_;
  for (size_t left = state.count(12); left > 0 && state.is_good(); --left) {
    const auto number = state.get<int>();
    const NodeRef node = from.take_one(from.nodes);
    const auto mask = state.get<uint32_t>();
    state.require(number > 0 && number <= last && node != nullptr && !file.watches_.contains(number) &&
                  !file.numbers_.contains(node.get()) && all.watches_ < Watches::kMostWatches);
    if (!state.is_good()) return;
    file.watches_[number] = {.node = node, .mask = mask};
    file.numbers_[node.get()] = number;
    all.by_node_[node.get()].push_back(&file);
    ++all.watches_;
  }
  for (size_t left = state.count(16, InotifyFile::kMostEvents + 1); left > 0 && state.is_good(); --left) {
    auto& event = file.events_.emplace_back();
    state(event.watch);
    state(event.mask);
    state(event.cookie);
    state(event.name);
  }
  file.last_ = last;
}

void FileState::read_body(SandboxReader& from, File& file) {
  StateReader& state = from.state;
  if (auto* const inotify = dynamic_cast<InotifyFile*>(&file)) return read_inotify_body(from, *inotify);
  auto* const epoll = dynamic_cast<EpollFile*>(&file);
  state.require(epoll != nullptr);
  for (size_t left = state.count(21); left > 0 && state.is_good(); --left) {
    EpollFile::Watched watched;
    state(watched.descriptor);
    watched.file = from.take_one(from.files);
    watched.event.events = state.get<uint32_t>();
    watched.event.data.u64 = state.get<uint64_t>();
    state(watched.is_disabled);
    if (state.is_good()) state.require(epoll->watch_again(watched).has_value());
  }
}

}  // namespace membrane::linux
