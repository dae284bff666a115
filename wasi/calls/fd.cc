// The fd_* functions: operations on an open descriptor.
#include <algorithm>
#include <limits>

#include "wasi/system/host_files.h"
#include "wasi/system/state.h"

namespace membrane::wasi {
namespace {

using Pieces = std::vector<std::span<uint8_t>>;

// -- reading ---------------------------------------------------------------------------

// Fills the pieces in order, until one is not filled completely.
template <typename Source>
Answer<uint64_t> fill(const Pieces& pieces, Source source) {
  uint64_t done = 0;
  for (const auto piece : pieces) {
    const Answer<size_t> got = source(piece, done);
    if (!got) return done > 0 ? Answer<uint64_t>(done) : fail(got.error());
    done += *got;
    if (*got < piece.size()) break;
  }
  return done;
}

// Also frees the string's memory, which an assignment would keep.
void forget(std::string& text) { std::string().swap(text); }

size_t take_from(std::string& text, size_t& at, std::span<uint8_t> to) {
  const size_t count = std::min(to.size(), text.size() - at);
  if (count > 0) std::memcpy(to.data(), text.data() + at, count);
  at += count;
  if (at == text.size()) {
    forget(text);
    at = 0;
  }
  return count;
}

// Accounts for all answers as memory held by the host. False: there is no room.
bool account_answers(Call& call) {
  return call.guest.host_memory().keep(host::HostMemory::Holder::kAnswer,
                                       call.state.descriptors.answer_bytes());
}

// False: there is no room for this answer, and it is dropped.
bool keep_answer(Call& call, OpenDevice& device) {
  if (account_answers(call)) return true;
  forget(device.answer);
  (void)account_answers(call);
  return false;
}

Answer<size_t> read_device(Call& call, OpenDevice& device, std::span<uint8_t> to) {
  switch (device.device) {
    case Device::kNull: return size_t{0};
    case Device::kZero: std::ranges::fill(to, uint8_t{0}); return to.size();
    case Device::kRandom: {
      const Done filled = fill_random(call, to);
      return filled ? Answer<size_t>(to.size()) : fail(filled.error());
    }
    case Device::kMembrane: {
      const size_t count = take_from(device.answer, device.answer_at, to);
      if (count > 0 && device.answer.empty()) (void)account_answers(call);
      return count;
    }
  }
  return fail(Errno::kIo);
}

Answer<uint64_t> read_at(Call& call, Descriptor& from, uint64_t offset, const Pieces& pieces) {
  if (auto* standard = std::get_if<Standard>(&from.is)) {
    if (*standard != Standard::kIn) return fail(Errno::kBadf);
    State& state = call.state;
    if (state.stdin_waits && state.stdin_at == state.stdin_text.size() && total_bytes(pieces) > 0)
      return fail(Errno::kAgain);  // for non-blocking reads only: others wait before the call
    return fill(pieces, [&](auto to, uint64_t) -> Answer<size_t> {
      return take_from(state.stdin_text, state.stdin_at, to);
    });
  }
  if (const auto* file = std::get_if<OpenFile>(&from.is))
    return fill(pieces, [&](auto to, uint64_t done) -> Answer<size_t> {
      return call.state.files->read(file->inode, offset + done, to);
    });
  if (auto* file = std::get_if<OpenHostFile>(&from.is))
    return fill(pieces,
                [&](auto to, uint64_t done) { return host_files::read(call, *file, offset + done, to); });
  if (auto* device = std::get_if<OpenDevice>(&from.is))
    return fill(pieces, [&](auto to, uint64_t) { return read_device(call, *device, to); });
  return fail(Errno::kIsdir);
}

// -- writing ---------------------------------------------------------------------------

std::string gathered(const Pieces& pieces) {
  std::string bytes;
  bytes.reserve(total_bytes(pieces));
  for (const auto piece : pieces) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

// False when the output limit is reached.
bool say(Call& call, Standard standard, std::string_view bytes) {
  const bool is_out = standard == Standard::kOut;
  const std::string text = (is_out ? call.state.out : call.state.err).add(bytes);
  return write_text(call.state, call.guest, is_out ? host::Stream::kStdout : host::Stream::kStderr, bytes,
                    text);
}

Answer<uint64_t> print(Call& call, Standard standard, const Pieces& pieces) {
  if (standard == Standard::kIn) return fail(Errno::kBadf);
  // Writes piecewise: a write may be as large as the program's memory.
  constexpr size_t kMostBytes = 64 << 10;
  std::string bytes;
  bool fits = true;
  const auto flush = [&] {
    if (fits && !bytes.empty()) fits = say(call, standard, bytes);
    bytes.clear();
  };
  for (auto piece : pieces)
    while (fits && !piece.empty()) {
      const auto part = piece.first(std::min(piece.size(), kMostBytes - bytes.size()));
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      piece = piece.subspan(part.size());
      if (bytes.size() == kMostBytes) flush();
    }
  flush();
  if (!fits) call.outcome = {End::kOutOfOutput, "the output limit is reached"};
  return total_bytes(pieces);
}

// Each write is one request; the unread rest of the previous answer is dropped.
Answer<uint64_t> request(Call& call, OpenDevice& device, const Pieces& pieces) {
  if (!call.state.world.device) return fail(Errno::kNxio);
  if (total_bytes(pieces) > call.guest.host_memory().left_for_call()) return fail(Errno::kNomem);
  const std::string bytes = gathered(pieces);
  forget(device.answer);
  device.answer_at = 0;
  device.answer = call.state.world.device(bytes);
  call.given_bytes += device.answer.size();
  if (!keep_answer(call, device)) return fail(Errno::kNomem);
  return bytes.size();
}

// Writes the pieces in order, until one is refused.
template <typename Sink>
Answer<uint64_t> drain(const Pieces& pieces, Sink sink) {
  uint64_t done = 0;
  for (const auto piece : pieces) {
    const Done written = sink(piece, done);
    if (!written) return done > 0 ? Answer<uint64_t>(done) : fail(written.error());
    done += piece.size();
  }
  return done;
}

Answer<uint64_t> write_at(Call& call, Descriptor& to, uint64_t offset, const Pieces& pieces) {
  if (const auto* standard = std::get_if<Standard>(&to.is)) return print(call, *standard, pieces);
  if (const auto* file = std::get_if<OpenFile>(&to.is))
    return drain(pieces, [&](auto piece, uint64_t done) {
      return call.state.files->write(file->inode, offset + done, piece, call.state.file_time_ns());
    });
  if (auto* file = std::get_if<OpenHostFile>(&to.is))
    return drain(pieces, [&](auto piece, uint64_t done) {
      return host_files::write(call, *file, offset + done, piece);
    });
  if (auto* device = std::get_if<OpenDevice>(&to.is)) {
    if (device->device == Device::kMembrane) return request(call, *device, pieces);
    return total_bytes(pieces);
  }
  return fail(Errno::kIsdir);
}

// -- offsets -----------------------------------------------------------------------------

bool has_offset(const Descriptor& descriptor) {
  return std::holds_alternative<OpenFile>(descriptor.is) ||
         std::holds_alternative<OpenHostFile>(descriptor.is);
}

Answer<FileStat> stat_of(Call& call, Descriptor& descriptor) {
  if (const Inode inode = descriptor.inode(); inode != 0) return call.state.files->stat(inode);
  if (auto* file = std::get_if<OpenHostFile>(&descriptor.is)) return host_files::stat(call, *file);
  if (const auto* directory = std::get_if<OpenDirectory>(&descriptor.is))
    return host_files::stat(call, directory->place.host);
  return FileStat{.type = descriptor.type()};
}

Answer<uint64_t> size_of(Call& call, Descriptor& descriptor) {
  const auto stat = stat_of(call, descriptor);
  return stat ? Answer<uint64_t>(stat->size) : fail(stat.error());
}

constexpr uint64_t kMostOffset = std::numeric_limits<int64_t>::max();

// A transfer at a given offset, or at the descriptor's, which then advances.
struct Transfer {
  Descriptor* descriptor;
  Pieces pieces;
  uint32_t count_at;  // where to store the number of bytes
};

Answer<Transfer> transfer(Call& call, Rights needed, size_t count_argument) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  if (std::holds_alternative<OpenDirectory>((*descriptor)->is)) return fail(Errno::kIsdir);
  if (((*descriptor)->rights & needed) != needed) return fail(Errno::kNotcapable);
  auto pieces = call.memory.pieces(call.u32(1), call.u32(2));
  if (!pieces) return fail(pieces.error());
  if (const auto to = call.memory.bytes(call.u32(count_argument), 4); !to) return fail(to.error());
  return Transfer{*descriptor, std::move(*pieces), call.u32(count_argument)};
}

Answer<Whence> whence_of(const Call& call) {
  static constexpr Whence kPreview1[] = {Whence::kSet, Whence::kCur, Whence::kEnd};
  static constexpr Whence kUnstable[] = {Whence::kCur, Whence::kEnd, Whence::kSet};
  const uint32_t number = call.u32(2);
  if (number >= std::size(kPreview1)) return fail(Errno::kInval);
  return call.abi == Abi::kUnstable ? kUnstable[number] : kPreview1[number];
}

Answer<uint64_t> own_offset(const Call& call, const Descriptor& descriptor) {
  if (std::holds_alternative<Standard>(descriptor.is)) return fail(Errno::kSpipe);
  return call.u64(3) <= kMostOffset ? Answer<uint64_t>(call.u64(3)) : fail(Errno::kInval);
}

// The program's own files are in memory: there is nothing to wait for.
Done sync(Call& call, Rights needed) {
  const auto descriptor = call.descriptor(0, needed);
  if (!descriptor) return fail(descriptor.error());
  auto* file = std::get_if<OpenHostFile>(&(*descriptor)->is);
  return file == nullptr ? Done() : host_files::sync(call, *file);
}

// -- directories -------------------------------------------------------------------------

bool has_name(const Listing& listing, std::string_view name) {
  return std::ranges::any_of(listing, [&](const ListedName& entry) { return entry.name == name; });
}

// The names of a mount at the root, and the root's own names. Those of the image, such as /usr, are not listed, so
// that a program which walks the directory that it was granted finds what is in it.
Answer<std::shared_ptr<const Listing>> list_root_mount(Call& call, Listing own) {
  const auto mounted = host_files::list(call, "/");
  if (!mounted) return fail(mounted.error());
  const FileTree& files = *call.state.files;
  std::erase_if(own, [&](const ListedName& entry) {
    return entry.name != "." && entry.name != ".." && files.is_of_image(entry.inode) &&
           !has_name(**mounted, entry.name);
  });
  for (const ListedName& entry : **mounted) {
    const bool is_own =
        entry.name == "." || entry.name == ".." || files.child(FileTree::kRoot, entry.name) != 0;
    if (!is_own) own.push_back(entry);
  }
  own.shrink_to_fit();
  return std::make_shared<const Listing>(std::move(own));
}

// Reports the size of the listings of all open directories to the guest's account. False: there is no room.
bool account_listings(Call& call) {
  return call.guest.host_memory().keep(host::HostMemory::Holder::kListings,
                                       call.state.descriptors.listing_bytes());
}

void forget_listing(OpenDirectory& directory) {
  directory.listing.reset();
  directory.listing_bytes = 0;
}

Answer<std::shared_ptr<const Listing>> list(Call& call, const OpenDirectory& directory) {
  if (directory.place.is_host()) return host_files::list(call, directory.place.host);
  const FileTree& files = *call.state.files;
  const Directory* in = files.directory(directory.place.inode);
  if (in == nullptr) return fail(Errno::kNotdir);
  Listing listing;
  listing.reserve(in->entries.size() + 2);
  listing.push_back({".", directory.place.inode, FileType::kDirectory});
  listing.push_back({"..", in->parent, FileType::kDirectory});
  for (const auto& [name, inode] : in->entries) listing.push_back({name, inode, files.find(inode)->type()});
  if (directory.place.inode == FileTree::kRoot && files.has_root_mount())
    return list_root_mount(call, std::move(listing));
  return std::make_shared<const Listing>(std::move(listing));
}

// Writes as much of the entry as fits; a truncated entry makes the program retry with more room.
size_t put_entry(std::span<uint8_t> to, const ListedName& entry, uint64_t next) {
  std::array<uint8_t, kDirentBytes> head{};
  StructWriter out(head);
  out.put(0, next);
  out.put(8, entry.inode);
  out.put(16, static_cast<uint32_t>(entry.name.size()));
  out.put(20, entry.type);
  const size_t head_bytes = std::min(to.size(), head.size());
  std::memcpy(to.data(), head.data(), head_bytes);
  const size_t name_bytes = std::min(to.size() - head_bytes, entry.name.size());
  std::memcpy(to.data() + head_bytes, entry.name.data(), name_bytes);
  return head_bytes + name_bytes;
}

}  // namespace

namespace functions_of {

Done fd_read(Call& call) {
  auto asked = transfer(call, right::kFdRead, 3);
  if (!asked) return fail(asked.error());
  const auto done = read_at(call, *asked->descriptor, asked->descriptor->offset, asked->pieces);
  if (!done) return fail(done.error());
  if (has_offset(*asked->descriptor)) asked->descriptor->offset += *done;
  call.given_bytes += *done;
  return call.memory.write(asked->count_at, static_cast<uint32_t>(*done));
}

Done fd_pread(Call& call) {
  auto asked = transfer(call, right::kFdRead | right::kFdSeek, 4);
  if (!asked) return fail(asked.error());
  const auto offset = own_offset(call, *asked->descriptor);
  if (!offset) return fail(offset.error());
  const auto done = read_at(call, *asked->descriptor, *offset, asked->pieces);
  if (!done) return fail(done.error());
  call.given_bytes += *done;
  return call.memory.write(asked->count_at, static_cast<uint32_t>(*done));
}

Done fd_write(Call& call) {
  auto asked = transfer(call, right::kFdWrite, 3);
  if (!asked) return fail(asked.error());
  Descriptor& to = *asked->descriptor;
  if (has_offset(to) && (to.flags & fdflag::kAppend) != 0) {
    const auto size = size_of(call, to);
    if (!size) return fail(size.error());
    to.offset = *size;
  }
  const auto done = write_at(call, to, to.offset, asked->pieces);
  if (!done) return fail(done.error());
  if (has_offset(to)) to.offset += *done;
  return call.memory.write(asked->count_at, static_cast<uint32_t>(*done));
}

Done fd_pwrite(Call& call) {
  auto asked = transfer(call, right::kFdWrite | right::kFdSeek, 4);
  if (!asked) return fail(asked.error());
  auto offset = own_offset(call, *asked->descriptor);
  if (offset && (asked->descriptor->flags & fdflag::kAppend) != 0) offset = size_of(call, *asked->descriptor);
  if (!offset) return fail(offset.error());
  const auto done = write_at(call, *asked->descriptor, *offset, asked->pieces);
  if (!done) return fail(done.error());
  return call.memory.write(asked->count_at, static_cast<uint32_t>(*done));
}

Done fd_seek(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  Descriptor& at = **descriptor;
  if (std::holds_alternative<Standard>(at.is)) return fail(Errno::kSpipe);
  const auto by = static_cast<int64_t>(call.u64(1));
  const auto whence = whence_of(call);
  if (!whence) return fail(whence.error());
  // Asking for the current offset is fd_tell, and needs no other right.
  const bool only_tells = *whence == Whence::kCur && by == 0;
  if ((at.rights & (only_tells ? right::kFdTell | right::kFdSeek : right::kFdSeek)) == 0)
    return fail(Errno::kNotcapable);
  uint64_t from = 0;
  switch (*whence) {
    case Whence::kSet: break;
    case Whence::kCur: from = at.offset; break;
    case Whence::kEnd: {
      const auto size = size_of(call, at);
      if (!size) return fail(size.error());
      from = *size;
      break;
    }
  }
  // `from` is at most kMostOffset, so neither wraps around.
  const uint64_t target = from + static_cast<uint64_t>(by);
  if (by < 0 ? static_cast<uint64_t>(-(by + 1)) + 1 > from : target > kMostOffset) return fail(Errno::kInval);
  if (const auto to = call.memory.bytes(call.u32(3), 8); !to) return fail(to.error());
  if (has_offset(at)) at.offset = target;
  return call.memory.write(call.u32(3), at.offset);
}

Done fd_tell(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  if (std::holds_alternative<Standard>((*descriptor)->is)) return fail(Errno::kSpipe);
  if (((*descriptor)->rights & right::kFdTell) == 0) return fail(Errno::kNotcapable);
  return call.memory.write(call.u32(1), (*descriptor)->offset);
}

Done fd_close(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  close(call, call.u32(0));
  return {};
}

Done fd_renumber(Call& call) {
  const uint32_t from = call.u32(0), to = call.u32(1);
  if (!call.descriptor(0) || !call.descriptor(1)) return fail(Errno::kBadf);
  if (from == to) return {};
  close(call, to);
  call.state.descriptors.put(to, call.state.descriptors.take(from));
  return {};
}

Done fd_advise(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdAdvise);
  if (!descriptor) return fail(descriptor.error());
  return call.u32(3) < kAdviceCount ? Done() : fail(Errno::kInval);
}

Done fd_allocate(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdAllocate);
  if (!descriptor) return fail(descriptor.error());
  const uint64_t offset = call.u64(1), size = call.u64(2);
  if (size == 0 || offset > kMostOffset) return fail(Errno::kInval);
  if (size > kMostOffset - offset) return fail(Errno::kFbig);
  const auto had = size_of(call, **descriptor);
  if (!had) return fail(had.error());
  return offset + size > *had ? resize(call, **descriptor, offset + size) : Done();
}

Done fd_filestat_set_size(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdFilestatSetSize);
  if (!descriptor) return fail(descriptor.error());
  if (call.u64(1) > kMostOffset) return fail(Errno::kInval);
  return resize(call, **descriptor, call.u64(1));
}

Done fd_sync(Call& call) { return sync(call, right::kFdSync); }
Done fd_datasync(Call& call) { return sync(call, right::kFdDatasync); }

Done fd_fdstat_get(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  const auto to = call.memory.bytes(call.u32(1), kFdStatBytes);
  if (!to) return fail(to.error());
  StructWriter out(*to);
  out.put(0, (*descriptor)->type());
  out.put(2, (*descriptor)->flags);
  out.put(8, (*descriptor)->rights);
  out.put(16, (*descriptor)->inheriting);
  return {};
}

Done fd_fdstat_set_flags(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdFdstatSetFlags);
  if (!descriptor) return fail(descriptor.error());
  const uint32_t flags = call.u32(1);
  if ((flags & ~uint32_t{fdflag::kAll}) != 0) return fail(Errno::kInval);
  (*descriptor)->flags = static_cast<uint16_t>(flags);
  return {};
}

Done fd_fdstat_set_rights(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  Descriptor& of = **descriptor;
  if ((call.u64(1) & ~of.rights) != 0 || (call.u64(2) & ~of.inheriting) != 0) return fail(Errno::kNotcapable);
  of.rights = call.u64(1);
  of.inheriting = call.u64(2);
  return {};
}

Done fd_filestat_get(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdFilestatGet);
  if (!descriptor) return fail(descriptor.error());
  const auto stat = stat_of(call, **descriptor);
  return stat ? write_stat(call, call.u32(1), *stat) : fail(stat.error());
}

Done fd_filestat_set_times(Call& call) {
  const auto descriptor = call.descriptor(0, right::kFdFilestatSetTimes);
  if (!descriptor) return fail(descriptor.error());
  const auto times = new_times(call, call.u64(1), call.u64(2), call.u32(3));
  if (!times) return fail(times.error());
  if (const auto* file = std::get_if<OpenHostFile>(&(*descriptor)->is))
    return set_times(call, {0, file->path}, *times);
  if (const auto* directory = std::get_if<OpenDirectory>(&(*descriptor)->is))
    return set_times(call, directory->place, *times);
  return set_times(call, {(*descriptor)->inode(), {}}, *times);
}

Done fd_prestat_get(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor || !(*descriptor)->is_preopened) return fail(Errno::kBadf);
  const auto to = call.memory.bytes(call.u32(1), kPrestatBytes);
  if (!to) return fail(to.error());
  StructWriter out(*to);
  out.put(4, static_cast<uint32_t>(kPreopenedName.size()));
  return {};
}

Done fd_prestat_dir_name(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor || !(*descriptor)->is_preopened) return fail(Errno::kBadf);
  if (call.u32(2) < kPreopenedName.size()) return fail(Errno::kNametoolong);
  const auto to = call.memory.bytes(call.u32(1), static_cast<uint32_t>(kPreopenedName.size()));
  if (!to) return fail(to.error());
  std::memcpy(to->data(), kPreopenedName.data(), kPreopenedName.size());
  return {};
}

Done fd_readdir(Call& call) {
  const auto descriptor = call.descriptor(0);
  if (!descriptor) return fail(descriptor.error());
  auto* directory = std::get_if<OpenDirectory>(&(*descriptor)->is);
  if (directory == nullptr) return fail(Errno::kNotdir);
  if (((*descriptor)->rights & right::kFdReaddir) == 0) return fail(Errno::kNotcapable);
  const auto to = call.memory.bytes(call.u32(1), call.u32(2));
  if (!to) return fail(to.error());
  if (const auto count = call.memory.bytes(call.u32(4), 4); !count) return fail(count.error());
  const uint64_t cookie = call.u64(3);
  if (cookie == 0 || directory->listing == nullptr) {
    auto listing = list(call, *directory);
    if (!listing) return fail(listing.error());
    call.guest.owe((*listing)->size() * kListedFuel);
    MEMBRANE_TRY(keep_listing(call, *directory, std::move(*listing)));
  }
  const Listing& listing = *directory->listing;
  size_t used = 0;
  for (uint64_t i = cookie; i < listing.size() && used < to->size(); ++i)
    used += put_entry(to->subspan(used), listing[i], i + 1);
  call.given_bytes += used;
  return call.memory.write(call.u32(4), static_cast<uint32_t>(used));
}

}  // namespace functions_of

void close(Call& call, uint32_t number) {
  Descriptor closed = call.state.descriptors.take(number);
  if (auto* file = std::get_if<OpenHostFile>(&closed.is)) host_files::close(call.state, *file);
  if (std::holds_alternative<OpenDirectory>(closed.is)) (void)account_listings(call);
  if (std::holds_alternative<OpenDevice>(closed.is)) (void)account_answers(call);
  release_if_unused(call.state, closed.inode());
}

Done resize(Call& call, Descriptor& descriptor, uint64_t size) {
  if (auto* file = std::get_if<OpenHostFile>(&descriptor.is)) return host_files::resize(call, *file, size);
  const auto* file = std::get_if<OpenFile>(&descriptor.is);
  if (file == nullptr) return fail(Errno::kInval);
  return call.state.files->resize(file->inode, size, call.state.file_time_ns());
}

Done set_times(Call& call, const Place& place, const NewTimes& times) {
  if (place.is_host()) return host_files::set_times(call, place.host, times);
  const Node* node = call.state.files->find(place.inode);
  if (node == nullptr) return fail(Errno::kBadf);
  call.state.files->set_times(place.inode, times.accessed_ns.value_or(node->accessed_ns),
                              times.modified_ns.value_or(node->modified_ns), call.state.file_time_ns());
  return {};
}

uint64_t bytes_of(const Listing& listing) {
  constexpr uint64_t kInPlace = 15, kAllocation = 24;  // a std::string: bytes inline, overhead of others
  uint64_t bytes = sizeof(Listing) + listing.size() * sizeof(ListedName);
  for (const ListedName& listed : listing)
    if (listed.name.size() > kInPlace) bytes += listed.name.size() + kAllocation;
  return bytes;
}

Done keep_listing(Call& call, OpenDirectory& directory, std::shared_ptr<const Listing> listing) {
  directory.listing_bytes = bytes_of(*listing);
  directory.listing = std::move(listing);
  if (account_listings(call)) return {};
  for (auto& [number, descriptor] : call.state.descriptors.all()) {
    auto* const open = std::get_if<OpenDirectory>(&descriptor.is);
    if (open == nullptr || open == &directory || open->listing == nullptr) continue;
    forget_listing(*open);
    if (account_listings(call)) return {};
  }
  forget_listing(directory);
  (void)account_listings(call);
  return fail(Errno::kNomem);
}

}  // namespace membrane::wasi
