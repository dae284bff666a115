// The files of sandboxes.
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "service/sandbox_record.h"

namespace membrane::service {

std::optional<FileChange> FileChange::of(const wasi::FileRequest& request) {
  switch (request.act) {
    case wasi::FileAct::kRemove: return FileChange{"file.removed", {{"path", request.path}}};
    case wasi::FileAct::kMove: return FileChange{"file.moved", {{"path", request.path}, {"to", request.to}}};
    case wasi::FileAct::kMakeDirectory: return FileChange{"directory.made", {{"path", request.path}}};
    default: return std::nullopt;
  }
}

void Sandboxes::read_file(const Actor& actor, const std::string& id, std::string context, std::string path,
                          Then<std::string> then) {
  with_guest<std::string>(actor, id, std::move(then),
                          [context = std::move(context), path = std::move(path)](Guest& guest) {
                            return guest.read_file(context, path);
                          });
}

void Sandboxes::write_file(const Actor& actor, const std::string& id, std::string context, std::string path,
                           std::string bytes, Then<void> then) {
  auto held = hold(actor.tenant, bytes.size());
  if (!held) return then(std::unexpected(held.error()));
  FileChange change{"file.written", {{"path", path}, {"bytes", std::to_string(bytes.size())}}};
  with_guest<void>(
      actor, id, std::move(then),
      [context = std::move(context), path = std::move(path), bytes = std::move(bytes),
       kept = std::make_shared<HeldBytes::Hold>(*std::move(held))](Guest& guest) {
        return guest.write_file(context, path, bytes);
      },
      std::move(change));
}

void Sandboxes::list_files(const Actor& actor, const std::string& id, std::string context,
                           Then<std::vector<sandbox::ReportFile>> then) {
  with_guest<std::vector<sandbox::ReportFile>>(
      actor, id, std::move(then),
      [context = std::move(context)](Guest& guest) { return guest.files(context); });
}

void Sandboxes::act_on_files(const Actor& actor, const std::string& id, std::string context,
                             wasi::FileRequest request, Then<std::vector<wasi::FileFact>> then) {
  auto change = FileChange::of(request);
  with_guest<std::vector<wasi::FileFact>>(
      actor, id, std::move(then),
      [context = std::move(context), request = std::move(request)](Guest& guest) {
        return guest.act_on_files(context, request);
      },
      std::move(change));
}

void Sandboxes::with_files(const Actor& actor, const std::string& id,
                           std::function<Answer<std::string>(Guest&)> act, Then<std::string> then,
                           std::optional<FileChange> change) {
  with_guest<std::string>(actor, id, std::move(then), std::move(act), std::move(change));
}

template <typename T>
Answer<T> Sandboxes::with_patch_memory(const std::string& tenant,
                                       const std::function<Answer<T>(const computers::PatchMemory&)>& act) {
  HeldBytes::Hold held(held_, tenant);
  std::optional<ApiError> refusal;
  const auto take = [&](uint64_t bytes) -> Status {
    const auto grown = grow(held, tenant, bytes);
    if (grown) return {};
    refusal = grown.error();
    return fail(ErrorCode::kExhausted, refusal->message, refusal->hint);
  };
  auto answer = act({.take = take, .give = [&held](uint64_t bytes) { held.shrink(bytes); }});
  if (refusal) return std::unexpected(*std::move(refusal));
  return answer;
}

void Sandboxes::make_patch(const Actor& actor, const std::string& id, std::string directory,
                           std::string since, Then<std::string> then) {
  with_guest<std::string>(actor, id, std::move(then),
                          [this, tenant = actor.tenant, directory = std::move(directory),
                           since = std::move(since)](Guest& guest) {
                            return with_patch_memory<std::string>(
                                tenant, [&](const computers::PatchMemory& memory) {
                                  return make_patch_of(guest, tenant, directory, since, memory);
                                });
                          });
}

Answer<std::string> Sandboxes::make_patch_of(Guest& guest, const std::string& tenant,
                                             const std::string& directory, const std::string& since,
                                             const computers::PatchMemory& memory) {
  if (since.empty()) return guest.make_patch(directory, nullptr, memory);
  const auto snapshot = snapshots_.find(tenant, since);
  if (!snapshot)  // it is the sandbox that the request is of, and that exists
    return refuse(ApiCode::kInvalidValue, snapshot.error().message, snapshot.error().hint);
  if (kind_of_template(snapshot->guest.spec.template_name) != guest.kind())
    return refuse(ApiCode::kConflict, "the snapshot is of the template " + snapshot->guest.spec.template_name,
                  "Use a snapshot of this sandbox, or of one with the same image.");
  const auto contexts = get_images(images_, snapshot->guest);
  if (!contexts) return std::unexpected(contexts.error());
  const auto first = std::ranges::find(*contexts, "", &KeptContext::id);
  if (first == contexts->end()) return refuse(ApiCode::kConflict, "the snapshot has no files", "");
  return guest.make_patch(directory, &*first, memory);
}

void Sandboxes::apply_patch(const Actor& actor, const std::string& id, std::string directory,
                            std::string_view patch, Then<size_t> then) {
  FileChange change{"patch.applied", {{"path", directory}, {"bytes", std::to_string(patch.size())}}};
  with_guest<size_t>(
      actor, id, std::move(then),
      [this, tenant = actor.tenant, directory = std::move(directory), patch](Guest& guest) {
        return with_patch_memory<size_t>(tenant, [&](const computers::PatchMemory& memory) -> Answer<size_t> {
          const auto changed = guest.apply_patch(directory, patch, memory);
          if (!changed) return std::unexpected(changed.error());
          return changed->size();
        });
      },
      std::move(change));
}

void Sandboxes::watch_files(const Actor& actor, const std::string& id, std::string context, std::string path,
                            Then<std::shared_ptr<BodySource>> then) {
  const auto watch =
      std::make_shared<FileWatch>(std::move(context), std::move(path), HeldBytes::Hold(held_, actor.tenant));
  with_sandbox<std::shared_ptr<BodySource>>(
      actor, id, std::move(then), [this, watch](Sandbox& in) -> Answer<std::shared_ptr<BodySource>> {
        const auto guest = wake(in);
        if (!guest) return std::unexpected(guest.error());
        const auto facts = (*guest)->act_on_files(
            watch->context, {.act = wasi::FileAct::kList, .path = watch->path, .to = {}, .is_deep = true});
        if (!facts) return std::unexpected(facts.error());
        watch->look(*facts);
        const std::lock_guard lock(in.mutex);
        std::erase_if(in.watches, [](const auto& each) { return each->is_over(); });
        if (in.watches.size() >= options_.most_watches)
          return refuse(ApiCode::kQuotaExceeded,
                        "the sandbox has " + count_of(in.watches.size(), "watch") + ", which is the limit",
                        "Close streams that are not needed.");
        in.watches.push_back(watch);
        return watch;
      });
}

// Runs after each task, on its thread.
void Sandboxes::look_for_watches(Sandbox& sandbox) {
  std::vector<std::shared_ptr<FileWatch>> watches;
  {
    const std::lock_guard lock(sandbox.mutex);
    std::erase_if(sandbox.watches, [](const auto& each) { return each->is_over(); });
    if (sandbox.is_dead || sandbox.guest == nullptr) return;
    watches = sandbox.watches;
  }
  for (const auto& watch : watches) {
    const auto facts = sandbox.guest->act_on_files(
        watch->context, {.act = wasi::FileAct::kList, .path = watch->path, .to = {}, .is_deep = true});
    if (facts) watch->look(*facts);
    else if (facts.error().code == ApiCode::kNotFound) watch->look({});  // the directory is gone
    else watch->end();
  }
}

}  // namespace membrane::service
