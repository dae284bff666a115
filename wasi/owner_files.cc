#include "wasi/owner_files.h"

#include <algorithm>
#include <utility>

#include "wasi/path_walk.h"
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

using Facts = host::HostResult<std::vector<FileFact>>;

host::Errno code_of(Errno code) {
  switch (code) {
    case Errno::kNoent: return host::Errno::kNotFound;
    case Errno::kNotdir: return host::Errno::kNotDir;
    case Errno::kIsdir: return host::Errno::kIsDir;
    case Errno::kNotempty: return host::Errno::kNotEmpty;
    case Errno::kExist: return host::Errno::kExists;
    case Errno::kNospc:
    case Errno::kFbig: return host::Errno::kQuota;
    case Errno::kBusy:
    case Errno::kAcces:
    case Errno::kPerm: return host::Errno::kAccess;
    default: return host::Errno::kInvalid;
  }
}

class Acts {
 public:
  Acts(State& state, const FileRequest& request) : state_(state), tree_(*state.files), request_(request) {}

  Facts act() {
    switch (request_.act) {
      case FileAct::kStat: return stat();
      case FileAct::kList: return list();
      case FileAct::kMakeDirectory: return make_directory();
      case FileAct::kRemove: return remove();
      case FileAct::kMove: return move();
      case FileAct::kTellTime: state_.real_now_ns = request_.time_ns; return std::vector<FileFact>();
    }
    return refused(request_.path, host::Errno::kInvalid, "requests an unknown operation");
  }

 private:
  static std::unexpected<host::HostError> refused(std::string_view path, host::Errno code,
                                                  std::string_view what) {
    return host::refuse(code, std::string(path) + " " + std::string(what) + ".");
  }
  static std::unexpected<host::HostError> refused(std::string_view path, Errno code) {
    const host::Errno error = code_of(code);
    const std::string_view what =
        error == host::Errno::kNotFound   ? "does not exist"
        : error == host::Errno::kNotDir   ? "is, or leads through, something that is not a directory"
        : error == host::Errno::kIsDir    ? "is a directory"
        : error == host::Errno::kNotEmpty ? "is a directory that is not empty"
        : error == host::Errno::kQuota    ? "does not fit: the program has too many files"
        : error == host::Errno::kAccess   ? "cannot be changed"
                                          : "is not a valid path here";
    return refused(path, error, what);
  }

  host::HostResult<Walked> find(std::string_view path, LastLink last) const {
    if (!path.starts_with('/')) return refused(path, host::Errno::kInvalid, "is not absolute");
    if (const Done checked = check_path(path); !checked) return refused(path, checked.error());
    const size_t first = path.find_first_not_of('/');
    uint64_t steps = 0;
    auto walked = walk(tree_, {FileTree::kRoot, {}}, first == path.npos ? "." : path.substr(first), last,
                       HostPaths{.has_directory = [](const std::string&) { return Done(); },
                                 .find_link = [](const std::string&) { return Answer<host::LinkOnPath>(); },
                                 .grant_root = [](const std::string&) { return std::string(); }},
                       steps);
    if (!walked) return refused(path, walked.error());
    if ((walked->found && walked->found->is_host()) || (!walked->name.empty() && walked->directory.is_host()))
      return refused(path, host::Errno::kUnsupported, "is a file of the host");
    return *std::move(walked);
  }
  host::HostResult<Inode> find_inode() const {
    const auto walked = find(request_.path, LastLink::kFollow);
    if (!walked) return std::unexpected(walked.error());
    if (!walked->found) return refused(request_.path, Errno::kNoent);
    return walked->found->inode;
  }
  [[nodiscard]] FileFact fact(std::string path, Inode inode) const {
    const FileStat stat = tree_.stat(inode);
    return {std::move(path), stat.type, stat.size, stat.modified_ns};
  }

  Facts stat() const {
    const auto inode = find_inode();
    if (!inode) return std::unexpected(inode.error());
    return std::vector{fact(request_.path, *inode)};
  }

  // An entry of the tree, with the directory and the name that lead to it.
  struct Entry {
    std::string path;
    Inode directory = 0;
    std::string name;
    Inode inode = 0;
  };
  host::HostResult<std::vector<Entry>> entries_below(std::string path, Inode top, bool is_deep) const {
    while (path.ends_with('/')) path.pop_back();
    std::vector<Entry> found;
    std::vector<Entry> waiting = {{std::move(path), 0, {}, top}};  // the next one is last
    uint64_t path_bytes = 0;
    while (!waiting.empty()) {
      const Entry at = std::move(waiting.back());
      waiting.pop_back();
      if (at.directory != 0) found.push_back(at);
      const Directory* directory = tree_.directory(at.inode);
      if (directory == nullptr || (at.directory != 0 && !is_deep)) continue;
      for (auto each = directory->entries.rbegin(); each != directory->entries.rend(); ++each) {
        waiting.push_back({at.path + "/" + each->first, at.inode, each->first, each->second});
        path_bytes += waiting.back().path.size();
        if (path_bytes > System::kMaxListedPathBytes)
          return refused(request_.path, host::Errno::kTooBig, "has more names than can be listed");
      }
    }
    return found;
  }

  Facts list() const {
    const auto inode = find_inode();
    if (!inode) return std::unexpected(inode.error());
    if (tree_.directory(*inode) == nullptr) return refused(request_.path, Errno::kNotdir);
    const auto entries = entries_below(request_.path, *inode, request_.is_deep);
    if (!entries) return std::unexpected(entries.error());
    std::vector<FileFact> facts;
    facts.reserve(entries->size());
    for (const Entry& entry : *entries) facts.push_back(fact(entry.path, entry.inode));
    return facts;
  }

  Facts make_directory() {
    const std::string& path = request_.path;
    if (const auto there = find(path, LastLink::kFollow);
        !there && there.error().code != host::Errno::kNotFound)
      return std::unexpected(there.error());
    size_t end = path.find_first_not_of('/');
    while (end != path.npos) {
      end = std::min(path.find('/', end), path.size());
      const auto walked = find(path.substr(0, end), LastLink::kFollow);
      if (!walked) return std::unexpected(walked.error());
      if (!walked->found) {
        const auto made = tree_.make_directory(walked->directory.inode, walked->name, state_.file_time_ns());
        if (!made) return refused(path, made.error());
      } else if (tree_.directory(walked->found->inode) == nullptr) {
        return refused(path, Errno::kNotdir);
      }
      end = path.find_first_not_of('/', end);
    }
    return stat();
  }

  Done remove_entry(Inode directory, const std::string& name, Inode inode) {
    const uint64_t now = state_.file_time_ns();
    const Done removed = tree_.directory(inode) != nullptr ? tree_.remove_directory(directory, name, now)
                                                           : tree_.unlink(directory, name, now);
    if (removed) release_if_unused(state_, inode);
    return removed;
  }

  Facts remove() {
    const auto walked = find(request_.path, LastLink::kNever);
    if (!walked) return std::unexpected(walked.error());
    if (!walked->found) return refused(request_.path, Errno::kNoent);
    if (walked->name.empty()) return refused(request_.path, Errno::kInval);
    const Inode inode = walked->found->inode;
    if (request_.is_deep && tree_.directory(inode) != nullptr) {
      const auto entries = entries_below(request_.path, inode, true);
      if (!entries) return std::unexpected(entries.error());
      for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry)
        if (const Done removed = remove_entry(entry->directory, entry->name, entry->inode); !removed)
          return refused(entry->path, removed.error());
    }
    if (const Done removed = remove_entry(walked->directory.inode, walked->name, inode); !removed)
      return refused(request_.path, removed.error());
    return std::vector<FileFact>();
  }

  Facts move() {
    const auto from = find(request_.path, LastLink::kNever);
    if (!from) return std::unexpected(from.error());
    if (!from->found) return refused(request_.path, Errno::kNoent);
    const auto to = find(request_.to, LastLink::kNever);
    if (!to) return std::unexpected(to.error());
    if (from->name.empty()) return refused(request_.path, Errno::kInval);
    if (to->name.empty()) return refused(request_.to, Errno::kInval);
    const Done moved =
        tree_.rename(from->directory.inode, from->name, to->directory.inode, to->name, state_.file_time_ns());
    if (!moved) return refused(request_.to, moved.error());
    if (to->found && *to->found != *from->found) release_if_unused(state_, to->found->inode);
    return std::vector{fact(request_.to, from->found->inode)};
  }

  State& state_;
  FileTree& tree_;
  const FileRequest& request_;
};

}  // namespace

Facts act_on_files(System& system, const FileRequest& request) { return Acts(system.state(), request).act(); }

}  // namespace membrane::wasi
