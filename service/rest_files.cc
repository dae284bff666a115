// Handlers of files.
#include "service/archive.h"
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

using OrderedJson = nlohmann::ordered_json;
using wasi::FileAct;

OrderedJson to_json(const wasi::FileFact& fact) {
  return {{"path", fact.path},
          {"type", name_of_type(fact.type)},
          {"size_bytes", fact.size_bytes},
          {"modified_at", iso_time(static_cast<int64_t>(fact.modified_ns / 1'000'000))}};
}

// Adds the details that files of Linux sandboxes have. A file that was removed in the meantime has none.
OrderedJson to_json(const wasi::FileFact& fact, Guest& guest, bool follows_links) {
  OrderedJson json = to_json(fact);
  if (guest.kind() != Kind::kLinux) return json;
  const auto facts = guest.stat_file(fact.path, follows_links);
  if (!facts) return json;
  std::string octal(1, '0');
  for (int shift = 6; shift >= 0; shift -= 3) octal += static_cast<char>('0' + (facts->mode >> shift & 7));
  octal[0] = static_cast<char>('0' + (facts->mode >> 9 & 7));
  json["mode"] = octal;
  if (!facts->target.empty()) json["target"] = facts->target;
  return json;
}

ApiError no_modes() {
  return {ApiCode::kUnsupported, "only files of Linux sandboxes have permissions and links",
          "Remove mode and link_to, or create the sandbox from the template linux."};
}

class Files {
 public:
  explicit Files(Sandboxes& sandboxes) : sandboxes_(sandboxes) {}

  void read(const SharedCall& call) const {
    sandboxes_.read_file(call->actor(), id_of(call), call->query("context"), call->query("path"),
                         [call](Answer<std::string> bytes) {
                           if (!bytes) return call->refuse(bytes.error());
                           call->reply({.status = 200,
                                        .headers = {{"Content-Type", "application/octet-stream"}},
                                        .body = *std::move(bytes)});
                         });
  }
  void write(const SharedCall& call) const {
    if (!call->query("link_to").empty())
      return change(
          call, [call](Guest& guest) { return guest.make_link(call->query("path"), call->query("link_to")); },
          {"link.made", {{"path", call->query("path")}, {"to", call->query("link_to")}}});
    if (!call->query("mode").empty()) return write_with_mode(call);
    sandboxes_.write_file(call->actor(), id_of(call), call->query("context"), call->query("path"),
                          call->request.body, [call](const Answer<void>& done) { answer_done(call, done); });
  }
  void remove(const SharedCall& call) const {
    act(call, {FileAct::kRemove, call->query("path"), "", call->query("recursive") == "true"},
        [call](const std::vector<wasi::FileFact>&) { call->answer_nothing(); });
  }
  void stat(const SharedCall& call) const { tell(call, {FileAct::kStat, call->query("path"), "", false}); }
  void make_directory(const SharedCall& call) const {
    act(call, {FileAct::kMakeDirectory, call->body["path"], "", false}, answer_first(call, 200));
  }
  void move(const SharedCall& call) const {
    act(call, {FileAct::kMove, call->body["from"], call->body["to"], false}, answer_first(call, 200));
  }
  // With a path, the contents of that directory; without one, the files that the sandbox has created.
  void list(const SharedCall& call) const {
    if (!call->request.query_value("path")) return list_made(call);
    tell(call, {FileAct::kList, call->query("path"), "", call->query("recursive") == "true"});
  }
  void get_archive(const SharedCall& call) const {
    sandboxes_.with_files(
        call->actor(), id_of(call),
        [call](Guest& guest) { return pack_files(guest, call->query("context"), call->query("path")); },
        [call](Answer<std::string> bytes) {
          if (!bytes) return call->refuse(bytes.error());
          call->reply(
              {.status = 200, .headers = {{"Content-Type", "application/x-tar"}}, .body = *std::move(bytes)});
        });
  }
  void put_archive(const SharedCall& call) const {
    sandboxes_.with_files(
        call->actor(), id_of(call),
        [call](Guest& guest) -> Answer<std::string> {
          const auto done =
              unpack_files(guest, call->query("context"), call->query("path"), call->request.body);
          if (!done) return std::unexpected(done.error());
          return std::string();
        },
        [call](const Answer<std::string>& done) {
          if (done) call->answer_nothing();
          else call->refuse(done.error());
        },
        FileChange{"archive.unpacked",
                   {{"path", call->query("path")}, {"bytes", std::to_string(call->request.body.size())}}});
  }
  static std::string directory_of(const SharedCall& call) {
    std::string given = call->query("directory");
    return given.empty() ? "/" : given;
  }
  void get_patch(const SharedCall& call) const {
    sandboxes_.make_patch(
        call->actor(), id_of(call), directory_of(call), call->query("since"),
        [call](Answer<std::string> patch) {
          if (!patch) return call->refuse(patch.error());
          call->reply(
              {.status = 200, .headers = {{"Content-Type", "text/x-patch"}}, .body = *std::move(patch)});
        });
  }
  void apply_patch(const SharedCall& call) const {
    sandboxes_.apply_patch(call->actor(), id_of(call), directory_of(call), call->request.body,
                           [call](const Answer<size_t>& changed) {
                             if (changed) call->answer(200, {{"changed_files", *changed}});
                             else call->refuse(changed.error());
                           });
  }
  void watch(const SharedCall& call) const {
    sandboxes_.watch_files(call->actor(), id_of(call), call->query("context"), call->query("path"),
                           [call](const Answer<std::shared_ptr<BodySource>>& source) {
                             if (!source) return call->refuse(source.error());
                             call->reply(event_stream(*source));
                           });
  }

 private:
  using Then = std::function<void(const std::vector<wasi::FileFact>&)>;

  static const std::string& id_of(const SharedCall& call) { return call->parameter("sandbox"); }
  static std::string context_of(const SharedCall& call) {
    return call->body.is_object() ? call->body.value("context", "") : call->query("context");
  }
  static Then answer_first(const SharedCall& call, int status) {
    return [call, status](const std::vector<wasi::FileFact>& facts) {
      call->answer(status, to_json(facts.front()));
    };
  }

  // The answer of stat and list.
  void tell(const SharedCall& call, wasi::FileRequest request) const {
    sandboxes_.with_files(
        call->actor(), id_of(call),
        [call, request = std::move(request)](Guest& guest) -> Answer<std::string> {
          const auto facts = guest.act_on_files(context_of(call), request);
          if (!facts) return std::unexpected(facts.error());
          if (request.act == FileAct::kStat) return json_text(to_json(facts->front(), guest, true));
          OrderedJson list = OrderedJson::array();
          for (const wasi::FileFact& fact : *facts) list.push_back(to_json(fact, guest, false));
          return json_text(OrderedJson{{"files", list}});
        },
        [call](Answer<std::string> text) {
          if (text) call->reply(json_response(200, *std::move(text)));
          else call->refuse(text.error());
        });
  }
  void change(const SharedCall& call, std::function<Answer<void>(Guest&)> how, FileChange noted) const {
    sandboxes_.with_files(
        call->actor(), id_of(call),
        [how = std::move(how)](Guest& guest) -> Answer<std::string> {
          if (guest.kind() != Kind::kLinux) return std::unexpected(no_modes());
          if (const auto done = how(guest); !done) return std::unexpected(done.error());
          return std::string();
        },
        [call](const Answer<std::string>& done) {
          if (done) call->answer_nothing();
          else call->refuse(done.error());
        },
        std::move(noted));
  }
  void write_with_mode(const SharedCall& call) const {
    const std::string digits = call->query("mode");  // four at most
    if (digits.find_first_not_of("01234567") != std::string::npos)
      return call->refuse({ApiCode::kInvalidValue, "mode must be permissions in octal digits",
                           "Write it as 755, or as 644 for a file that is not run."});
    const auto mode = static_cast<uint32_t>(std::stoul(digits, nullptr, 8));
    sandboxes_.write_file(
        call->actor(), id_of(call), call->query("context"), call->query("path"), call->request.body,
        [*this, call, mode](const Answer<void>& done) {
          if (!done) return call->refuse(done.error());
          change(call, [call, mode](Guest& guest) { return guest.set_mode(call->query("path"), mode); },
                 {"mode.changed", {{"path", call->query("path")}, {"mode", call->query("mode")}}});
        });
  }
  void act(const SharedCall& call, wasi::FileRequest request, Then then) const {
    sandboxes_.act_on_files(call->actor(), id_of(call), context_of(call), std::move(request),
                            [call, then = std::move(then)](const Answer<std::vector<wasi::FileFact>>& facts) {
                              if (facts) then(*facts);
                              else call->refuse(facts.error());
                            });
  }
  void list_made(const SharedCall& call) const {
    sandboxes_.list_files(
        call->actor(), id_of(call), call->query("context"),
        [call](const Answer<std::vector<sandbox::ReportFile>>& files) {
          if (!files) return call->refuse(files.error());
          OrderedJson list = OrderedJson::array();
          for (const auto& file : *files)
            list.push_back({{"path", file.path}, {"type", "file"}, {"size_bytes", file.size_bytes}});
          call->answer(200, {{"files", list}});
        });
  }

  Sandboxes& sandboxes_;
};

}  // namespace

void add_file_handlers(Handlers& handlers, Sandboxes& sandboxes) {
  using Method = void (Files::*)(const SharedCall&) const;
  constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"readFile", &Files::read},          {"writeFile", &Files::write},
      {"deleteFile", &Files::remove},      {"statFile", &Files::stat},
      {"moveFile", &Files::move},          {"makeDirectory", &Files::make_directory},
      {"listFiles", &Files::list},         {"watchFiles", &Files::watch},
      {"getArchive", &Files::get_archive}, {"putArchive", &Files::put_archive},
      {"getPatch", &Files::get_patch},     {"applyPatch", &Files::apply_patch}};
  for (const auto& [id, method] : kMethods)
    handlers.emplace(id,
                     [files = Files(sandboxes), of = method](const SharedCall& call) { (files.*of)(call); });
}

}  // namespace membrane::service
