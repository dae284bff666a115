// The single entry of every call: price, function, errno.
#include <algorithm>
#include <exception>
#include <new>

#include "wasi/host_files.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

uint64_t bytes_before(const Function& function, const Call& call) {
  uint64_t bytes = 0;
  switch (function.before.kind) {
    case Before::Kind::kNothing: break;
    case Before::Kind::kLength: bytes = call.u32(function.before.argument); break;
    case Before::Kind::kIovecs:
      if (const auto pieces =
              call.memory.pieces(call.u32(function.before.argument), call.u32(function.before.count)))
        bytes = total_bytes(*pieces);
      break;
  }
  // At most what a call can have without being refused for its pointers.
  return std::min(bytes, call.memory.size());
}

Done perform(FunctionId id, Call& call) {
  switch (id) {
#define WASI(name, params, before)                        \
  case FunctionId::name: return functions_of::name(call);
#include "wasi/preview1.def"
#undef WASI
  }
  return fail(Errno::kNosys);
}

// Running out of memory is ENOMEM; other exceptions from the World's functions propagate.
Done perform_safely(FunctionId id, Call& call) {
  try {
    return perform(id, call);
  } catch (const std::bad_alloc&) {
    return fail(Errno::kNomem);
  } catch (const std::exception&) {
    return fail(Errno::kIo);
  }
}

}  // namespace

Outcome System::call(const Function& function, host::Guest& guest, std::span<const uint64_t> arguments,
                     std::span<uint64_t> results) {
  return call_over(guest.memory(), function, guest, arguments, results);
}

Outcome System::call_over(std::span<uint8_t> memory, const Function& function, host::Guest& guest,
                          std::span<const uint64_t> arguments, std::span<uint64_t> results) {
  Call call{*state_, guest, Memory(memory), arguments, function.abi};
  if (would_wait(function.id, call)) return {End::kWait};
  if (!guest.charge(kCallFuel + bytes_before(function, call) / kBytesPerFuel)) return {End::kOutOfFuel};
  state_->files->hold_to(state_->files->held_bytes() + guest.host_memory().left_to_keep());
  const Done done = perform_safely(function.id, call);
  (void)guest.host_memory().keep_what_is_there(host::HostMemory::Holder::kFiles, state_->files->held_bytes());
  guest.owe(call.given_bytes / kBytesPerFuel);
  if (!results.empty()) results[0] = static_cast<uint64_t>(done ? Errno::kSuccess : done.error());
  return std::move(call.outcome);
}

bool System::account_to(host::Guest& guest) const {
  using enum host::HostMemory::Holder;
  host::HostMemory& memory = guest.host_memory();
  const bool files_fit = memory.keep_what_is_there(kFiles, state_->files->held_bytes());
  const bool listings_fit = memory.keep_what_is_there(kListings, state_->descriptors.listing_bytes());
  const bool answers_fit = memory.keep_what_is_there(kAnswer, state_->descriptors.answer_bytes());
  return files_fit && listings_fit && answers_fit;
}

Answer<Descriptor*> Call::descriptor(size_t index, Rights needed) const {
  Descriptor* found = state.descriptors.find(u32(index));
  if (found == nullptr) return fail(Errno::kBadf);
  if ((found->rights & needed) != needed) return fail(Errno::kNotcapable);
  return found;
}

Answer<Call::At> Call::at(size_t directory, size_t path, Rights needed) const {
  Descriptor* found = state.descriptors.find(u32(directory));
  if (found == nullptr) return fail(Errno::kBadf);
  const auto* open = std::get_if<OpenDirectory>(&found->is);
  if (open == nullptr) return fail(Errno::kNotdir);
  if ((found->rights & needed) != needed) return fail(Errno::kNotcapable);
  const auto text = memory.text(u32(path), std::min(u32(path + 1), kMaxPathBytes + 1));
  if (!text) return fail(text.error());
  return At{found, open->place, std::string(*text)};
}

Answer<Walked> Call::walk_to(const At& at, LastLink last) {
  const HostPaths host{
      .has_directory = [this](const std::string& path) -> Done {
        const auto found = host_files::stat(*this, path);
        if (!found) return fail(found.error());
        return found->type == FileType::kDirectory ? Done() : fail(Errno::kNotdir);
      },
      .find_link = [this](const std::string& path) { return host_files::find_link(*this, path); },
      .grant_root = [this](const std::string& path) { return host_files::grant_root(state, path); }};
  uint64_t steps = 0;
  auto walked = walk(*state.files, at.place, at.path, last, host, steps);
  guest.owe(steps * kStepFuel);
  const bool is_missing = walked ? !walked->found : walked.error() == Errno::kNoent;
  if (is_missing && at.place.inode == FileTree::kRoot) {
    // Below an existing directory, it is just a missing file.
    const std::string_view first = std::string_view(at.path).substr(0, at.path.find('/'));
    const bool is_known = first == "." || first == ".." || state.files->child(FileTree::kRoot, first) != 0;
    const bool is_made_in_memory = walked && at.to_write;
    if (!is_known && !is_made_in_memory) host_files::note_ungranted(state, at.path, at.to_write);
  }
  return walked;
}

Done write_stat(const Call& call, uint32_t at, const FileStat& stat) {
  // In the older structure the number of links has 32 bits, which shifts the later fields.
  const bool is_unstable = call.abi == Abi::kUnstable;
  const auto to = call.memory.bytes(at, is_unstable ? FileStat::kUnstableBytes : FileStat::kBytes);
  if (!to) return fail(to.error());
  StructWriter out(*to);
  out.put(0, stat.device);
  out.put(8, stat.inode);
  out.put(16, stat.type);
  if (is_unstable) out.put(20, static_cast<uint32_t>(std::min<uint64_t>(stat.links, UINT32_MAX)));
  else out.put(24, stat.links);
  const size_t rest = is_unstable ? 24 : 32;
  out.put(rest, stat.size);
  out.put(rest + 8, stat.accessed_ns);
  out.put(rest + 16, stat.modified_ns);
  out.put(rest + 24, stat.changed_ns);
  return {};
}

void release_if_unused(State& state, Inode inode) {
  if (inode != 0 && !state.descriptors.has_open(inode)) state.files->release(inode);
}

uint64_t new_file_time_ns(Call& call) {
  State& state = call.state;
  if (state.grants.time.real && state.world.broker != nullptr) {
    call.guest.owe(kWorldFuel);
    (void)state.read_real_clock();  // on failure the clock stays as it was
  }
  return state.file_time_ns();
}

Answer<NewTimes> new_times(Call& call, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags) {
  const auto both = [&](uint32_t a, uint32_t b) { return (flags & a) != 0 && (flags & b) != 0; };
  if ((flags & ~uint32_t{fstflag::kAll}) != 0 || both(fstflag::kAtim, fstflag::kAtimNow) ||
      both(fstflag::kMtim, fstflag::kMtimNow))
    return fail(Errno::kInval);
  NewTimes times;
  const bool is_now = (flags & (fstflag::kAtimNow | fstflag::kMtimNow)) != 0;
  const uint64_t now = is_now ? new_file_time_ns(call) : 0;
  if (flags & fstflag::kAtim) times.accessed_ns = accessed_ns;
  if (flags & fstflag::kAtimNow) times.accessed_ns = now;
  if (flags & fstflag::kMtim) times.modified_ns = modified_ns;
  if (flags & fstflag::kMtimNow) times.modified_ns = now;
  return times;
}

}  // namespace membrane::wasi
