#include "linux/proc/process_directory.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <array>

#include "linux/proc/process_texts.h"

namespace membrane::linux {
namespace {

// A process, by the id of one of its tasks: the process's own or, in task/, another.
Try<ProcessView> view_of(Kernel& kernel, int id) {
  if (Task* const task = kernel.task_of(id)) return ProcessView{kernel, *task->process, task};
  Process* const process = kernel.process_of(id);
  if (process == nullptr) return err(ENOENT);
  return ProcessView{kernel, *process, process->tasks.empty() ? nullptr : process->tasks.front().get()};
}

// The result of reads and writes when the process has ended by then.
Try<ProcessView> live_view_of(Kernel& kernel, int id) {
  auto view = view_of(kernel, id);
  if (!view) return err(ESRCH);
  return view;
}

// -- links to where a process is

using Places = Try<LocationRef> (*)(const ProcessView&);

Try<LocationRef> directory_of(const ProcessView& of) {
  if (of.process.place == nullptr) return err(ENOENT);
  return of.process.place->directory;
}
Try<LocationRef> root_of(const ProcessView& of) {
  if (of.process.place == nullptr) return err(ENOENT);
  return of.process.place->root;
}
Try<LocationRef> executable_of(const ProcessView& of) {
  if (of.process.executable_at == nullptr || of.process.is_zombie) return err(ENOENT);
  return of.process.executable_at;
}

Try<std::string> target_of(const ProcessView& of, Places place) {
  MEMBRANE_ASSIGN(const LocationRef at, place(of));
  const Task* const reader = of.kernel.current();
  const Place& seen_from =
      reader != nullptr && reader->process->place != nullptr ? *reader->process->place : *of.process.place;
  return path_of(seen_from, *at);
}

MadeDirectory::Child place_link(Kernel& kernel, int id, Places place) {
  return made_link(
      [&kernel, id, place]() -> Try<std::string> {
        MEMBRANE_ASSIGN(const ProcessView view, live_view_of(kernel, id));
        return target_of(view, place);
      },
      [&kernel, id, place]() -> Try<std::shared_ptr<const Location>> {
        MEMBRANE_ASSIGN(const ProcessView view, live_view_of(kernel, id));
        return place(view);
      });
}

// -- descriptors

Try<FileRef> file_of(Kernel& kernel, int id, int descriptor) {
  MEMBRANE_ASSIGN(const ProcessView view, view_of(kernel, id));
  if (view.process.descriptors == nullptr) return err(ENOENT);
  auto file = view.process.descriptors->get(descriptor);
  if (!file) return err(ENOENT);
  return file;
}

MadeDirectory::Child descriptor_link(Kernel& kernel, int id, int descriptor) {
  return made_link(
      [&kernel, id, descriptor]() -> Try<std::string> {
        MEMBRANE_ASSIGN(const FileRef file, file_of(kernel, id, descriptor));
        return file->description();
      },
      [&kernel, id, descriptor]() -> Try<std::shared_ptr<const Location>> {
        MEMBRANE_ASSIGN(const FileRef file, file_of(kernel, id, descriptor));
        if (file->location != nullptr) return file->location;
        return std::make_shared<const Location>(Location{file->node(), nullptr, ""});
      });
}

// fd/ and fdinfo/.
class DescriptorDirectory final : public MadeDirectory {
 public:
  DescriptorDirectory(const MadeWith& with, const NodeRef& above, Kernel& kernel, int id, bool is_info)
      : MadeDirectory(with, above), kernel_(kernel), id_(id), is_info_(is_info) {}

 protected:
  Try<Child> changing_child(std::string_view name) override {
    const int descriptor = number_of_name(name);
    MEMBRANE_ASSIGN(const FileRef file, file_of(kernel_, id_, descriptor));
    if (is_info_)
      return made_text([&kernel = kernel_, id = id_, descriptor]() -> Try<std::string> {
        MEMBRANE_ASSIGN(const FileRef of, file_of(kernel, id, descriptor));
        MEMBRANE_ASSIGN(const ProcessView view, view_of(kernel, id));
        return fdinfo_text(*of, view.process.descriptors->closes_on_exec(descriptor).value_or(false));
      });
    Child link = descriptor_link(kernel_, id_, descriptor);
    constexpr std::array<uint32_t, 4> kByAccess = {0500, 0300, 0700, 0700};
    link.permissions =
        (file->flags & O_PATH) != 0 ? 0100 : kByAccess[static_cast<size_t>(file->flags & O_ACCMODE)];
    return link;
  }
  Try<std::vector<Listed>> changing_names() override {
    std::vector<Listed> names;
    MEMBRANE_ASSIGN(const ProcessView view, view_of(kernel_, id_));
    if (view.process.descriptors == nullptr) return names;
    const uint8_t type = is_info_ ? DT_REG : DT_LNK;
    for (const int number : view.process.descriptors->numbers())
      names.push_back({std::to_string(number), type, kFirstChangingKey + number});
    return names;
  }

 private:
  Kernel& kernel_;
  const int id_;
  const bool is_info_;
};

// -- the directory itself

Try<std::string> io_text(const ProcessView&) {
  return "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";
}

struct TextRow {
  std::string_view name;
  Try<std::string> (*text)(const ProcessView&);
  uint32_t permissions = 0444;
  Done (*write)(const ProcessView&, std::string_view) = nullptr;
};

Done take_any(const ProcessView&, std::string_view) { return {}; }

constexpr std::array kTexts = std::to_array<TextRow>({
    {"cgroup", [](const ProcessView&) -> Try<std::string> { return "0::/\n"; }},
    {"cmdline", cmdline_text},
    {"comm", comm_text, 0644, set_comm},
    {"environ", environ_text, 0400},
    {"gid_map", [](const ProcessView&) -> Try<std::string> { return "         0          0 4294967295\n"; }},
    {"io", io_text, 0400},
    {"limits", limits_text},
    {"loginuid", [](const ProcessView&) -> Try<std::string> { return "4294967295"; }},
    {"maps", maps_text},
    {"mountinfo", [](const ProcessView&) -> Try<std::string> { return mountinfo_text(); }},
    {"mounts", [](const ProcessView&) -> Try<std::string> { return mounts_text(); }},
    {"oom_score", [](const ProcessView&) -> Try<std::string> { return "0\n"; }},
    {"oom_score_adj", [](const ProcessView&) -> Try<std::string> { return "0\n"; }, 0644, take_any},
    {"schedstat", [](const ProcessView&) -> Try<std::string> { return "0 0 0\n"; }},
    {"sessionid", [](const ProcessView&) -> Try<std::string> { return "4294967295"; }},
    {"setgroups", [](const ProcessView&) -> Try<std::string> { return "allow\n"; }},
    {"stat", stat_text},
    {"statm", statm_text},
    {"status", status_text},
    {"uid_map", [](const ProcessView&) -> Try<std::string> { return "         0          0 4294967295\n"; }},
    {"wchan", [](const ProcessView&) -> Try<std::string> { return "0"; }},
});

struct LinkRow {
  std::string_view name;
  Places place;
};
constexpr std::array<LinkRow, 3> kLinks = {
    {{"cwd", directory_of}, {"exe", executable_of}, {"root", root_of}}};

MadeDirectory::Child text_child(Kernel& kernel, int id, const TextRow& row) {
  MadeText::Write write;
  if (row.write != nullptr)
    write = [&kernel, id, act = row.write](std::string_view text) -> Done {
      MEMBRANE_ASSIGN(const ProcessView view, live_view_of(kernel, id));
      return act(view, text);
    };
  return made_text(
      [&kernel, id, text = row.text]() -> Try<std::string> {
        MEMBRANE_ASSIGN(const ProcessView view, live_view_of(kernel, id));
        return text(view);
      },
      std::move(write), row.permissions);
}

class TaskList;

class ProcessDirectory final : public MadeDirectory {
 public:
  ProcessDirectory(const MadeWith& with, const NodeRef& above, Kernel& kernel, int id, bool is_task)
      : MadeDirectory(with, above), kernel_(kernel), id_(id), is_task_(is_task) {}
  [[nodiscard]] int process() const { return is_task_ ? 0 : id_; }

 protected:
  Try<Child> changing_child(std::string_view name) override;
  Try<std::vector<Listed>> changing_names() override {
    std::vector<Listed> names;
    int64_t key = kFirstChangingKey;
    const auto add = [&](std::string_view name, uint8_t type) {
      names.push_back({std::string(name), type, key++});
    };
    add("fd", DT_DIR);
    add("fdinfo", DT_DIR);
    if (!is_task_) add("task", DT_DIR);
    for (const LinkRow& row : kLinks) add(row.name, DT_LNK);
    for (const TextRow& row : kTexts) add(row.name, DT_REG);
    return names;
  }

 private:
  Kernel& kernel_;
  const int id_;
  const bool is_task_;
};

MadeDirectory::Child owned_directory(const ProcessView& view, bool is_task) {
  const Credentials& who = view.process.credentials;
  const int id = is_task && view.task != nullptr ? view.task->id : view.process.id;
  MadeDirectory::Child child = {
      S_IFDIR, 0555,
      [&kernel = view.kernel, id, is_task](const MadeWith& with, const NodeRef& above) -> NodeRef {
        return std::make_shared<ProcessDirectory>(with, above, kernel, id, is_task);
      }};
  child.uid = who.euid;
  child.gid = who.egid;
  return child;
}

// task/.
class TaskList final : public MadeDirectory {
 public:
  TaskList(const MadeWith& with, const NodeRef& above, Kernel& kernel, int id)
      : MadeDirectory(with, above), kernel_(kernel), id_(id) {}

 protected:
  Try<Child> changing_child(std::string_view name) override {
    MEMBRANE_ASSIGN(const ProcessView own, view_of(kernel_, id_));
    Task* const task = kernel_.task_of(number_of_name(name));
    if (task == nullptr || task->process != &own.process) return err(ENOENT);
    return owned_directory({kernel_, own.process, task}, true);
  }
  Try<std::vector<Listed>> changing_names() override {
    MEMBRANE_ASSIGN(const ProcessView own, view_of(kernel_, id_));
    std::vector<Listed> names;
    for (const auto& task : own.process.tasks)
      names.push_back({std::to_string(task->id), DT_DIR, kFirstChangingKey + task->id});
    std::ranges::sort(names, {}, &Listed::key);
    return names;
  }

 private:
  Kernel& kernel_;
  const int id_;
};

Try<MadeDirectory::Child> ProcessDirectory::changing_child(std::string_view name) {
  MEMBRANE_TRY(view_of(kernel_, id_));
  for (const TextRow& row : kTexts)
    if (row.name == name) return text_child(kernel_, id_, row);
  for (const LinkRow& row : kLinks)
    if (row.name == name) return place_link(kernel_, id_, row.place);
  if (name == "fd" || name == "fdinfo")
    return Child{S_IFDIR, 0500,
                 [&kernel = kernel_, id = id_, is_info = name == "fdinfo"](const MadeWith& with,
                                                                           const NodeRef& above) -> NodeRef {
                   return std::make_shared<DescriptorDirectory>(with, above, kernel, id, is_info);
                 }};
  if (name == "task" && !is_task_)
    return Child{S_IFDIR, 0555,
                 [&kernel = kernel_, id = id_](const MadeWith& with, const NodeRef& above) -> NodeRef {
                   return std::make_shared<TaskList>(with, above, kernel, id);
                 }};
  return err(ENOENT);
}

}  // namespace

int process_of_directory(const Node& node) {
  const auto* const directory = dynamic_cast<const ProcessDirectory*>(&node);
  return directory == nullptr ? 0 : directory->process();
}

Try<MadeDirectory::Child> process_child(Kernel& kernel, int id) {
  MEMBRANE_ASSIGN(const ProcessView view, view_of(kernel, id));
  return owned_directory({kernel, view.process, nullptr}, false);
}

}  // namespace membrane::linux
