#include "sandbox/receipts/receipt_content.h"

#include <algorithm>

#include "base/file_mapping.h"
#include "base/json.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "host/journal/journal_json.h"

namespace membrane::sandbox {
namespace {

using host::JsonReader;
using host::JsonWriter;

void write_texts(JsonWriter& out, const std::vector<std::string>& texts) {
  out.list(texts, [&](const std::string& text) { out.bytes(text); });
}
bool read_texts(JsonReader& in, std::vector<std::string>& texts) {
  return in.list([&] { return in.bytes(texts.emplace_back()); });
}

void write_pairs(JsonWriter& out, const std::vector<std::pair<std::string, std::string>>& pairs) {
  out.list(pairs, [&](const auto& pair) { write_texts(out, {pair.first, pair.second}); });
}
bool read_pairs(JsonReader& in, std::vector<std::pair<std::string, std::string>>& pairs) {
  return in.list([&] {
    auto& [first, second] = pairs.emplace_back();
    return in.skip("[") && in.bytes(first) && in.skip(",") && in.bytes(second) && in.skip("]");
  });
}

void write_value(JsonWriter& out, const RichValue& value) {
  out.list(value, [&](const MimePart& part) {
    out.raw("[");
    out.bytes(part.type);
    out.raw(part.is_base64 ? ",true," : ",false,");
    out.bytes(part.data);
    out.raw("]");
  });
}

Result<std::string> hash_of(const lang::PackageFile& file) {
  if (!file.sha256.empty()) return file.sha256;
  const OpenedFile opened(file.path);
  if (!opened.usable()) return fail(ErrorCode::kUnavailable, "cannot read " + file.path);
  const FileMapping mapping(opened.number(), 0, opened.bytes());
  return sha256_hex(
      std::string_view(reinterpret_cast<const char*>(mapping.bytes().data()), mapping.bytes().size()));
}

}  // namespace

std::string json_of_bytes(std::string_view bytes) {
  return host::json_of([&](JsonWriter& out) { out.bytes(bytes); });
}

std::optional<std::string> read_bytes(std::string_view json) {
  JsonReader in(json);
  std::string bytes;
  return in.bytes(bytes) && in.is_at_end() ? std::optional(std::move(bytes)) : std::nullopt;
}

std::string json_of_pieces(const std::vector<std::string>& pieces) {
  return host::json_of([&](JsonWriter& out) { write_texts(out, pieces); });
}

std::optional<std::vector<std::string>> read_pieces(std::string_view json) {
  JsonReader in(json);
  std::vector<std::string> pieces;
  return read_texts(in, pieces) && in.is_at_end() ? std::optional(std::move(pieces)) : std::nullopt;
}

std::string json_of_acts(const std::vector<OwnerAct>& acts) {
  return host::json_of(
      [&](JsonWriter& out) { out.list(acts, [&](const OwnerAct& act) { write_texts(out, act); }); });
}

std::optional<std::vector<OwnerAct>> read_acts(std::string_view json) {
  JsonReader in(json);
  std::vector<OwnerAct> acts;
  const bool is_whole = in.list([&] { return read_texts(in, acts.emplace_back()); }) && in.is_at_end();
  return is_whole ? std::optional(std::move(acts)) : std::nullopt;
}

std::string Invocation::to_json() const {
  return host::json_of([&](JsonWriter& out) {
    out.raw("{\"name\":");
    out.bytes(name);
    out.raw(",\"entry\":");
    out.bytes(entry);
    out.raw(",\"script\":");
    out.flag(is_script);
    out.raw(",\"input_is_ambient\":");
    out.flag(input_is_ambient);
    out.raw(",\"has_input\":");
    out.flag(has_input);
    if (input_is_live) out.raw(",\"input_is_live\":true");
    out.raw(",\"given_input\":");
    out.bytes(given_input);
    out.raw(",\"arguments\":");
    write_texts(out, arguments);
    out.raw(",\"environment\":");
    write_pairs(out, environment);
    out.raw("}");
  });
}

std::optional<Invocation> Invocation::read(std::string_view json) {
  JsonReader in(json);
  Invocation read;
  const bool is_whole =
      in.skip("{\"name\":") && in.bytes(read.name) && in.skip(",\"entry\":") && in.bytes(read.entry) &&
      in.skip(",\"script\":") && in.flag(read.is_script) && in.skip(",\"input_is_ambient\":") &&
      in.flag(read.input_is_ambient) && in.skip(",\"has_input\":") && in.flag(read.has_input) &&
      ((read.input_is_live = in.skip(",\"input_is_live\":true")) || true) && in.skip(",\"given_input\":") &&
      in.bytes(read.given_input) && in.skip(",\"arguments\":") && read_texts(in, read.arguments) &&
      in.skip(",\"environment\":") && read_pairs(in, read.environment) && in.skip("}") && in.is_at_end();
  return is_whole ? std::optional(std::move(read)) : std::nullopt;
}

std::string json_of_call(std::string_view line, const std::vector<std::string>& decided_by) {
  return host::json_of([&](JsonWriter& out) {
    out.raw("{\"decided_by\":");
    write_texts(out, decided_by);
    out.raw(",\"journal\":");
    out.raw(line);
    out.raw("}");
  });
}

std::optional<SealedCall> read_sealed_call(std::string_view json) {
  JsonReader in(json);
  SealedCall call;
  if (!in.skip("{\"decided_by\":") || !read_texts(in, call.decided_by) || !in.skip(",\"journal\":") ||
      !in.left().ends_with('}'))
    return std::nullopt;
  call.line = in.left().substr(0, in.left().size() - 1);
  auto entry = host::read_unchained_line(call.line);
  if (!entry) return std::nullopt;
  call.entry = *std::move(entry);
  JsonReader result(call.entry.result);
  int64_t status = 0;
  if (call.entry.function == "http.request" && result.skip("{\"status\":") && result.number(status) &&
      result.skip(",\"final_url\":"))
    (void)result.bytes(call.final_url);
  std::string().swap(call.entry.result);
  return call;
}

std::vector<std::pair<std::string, std::string>> output_of(const Report& report,
                                                           const std::vector<MadeFile>& files) {
  std::vector<std::pair<std::string, std::string>> items;
  items.emplace_back("stdout", json_of_bytes(report.stdout_text));
  items.emplace_back("stderr", json_of_bytes(report.stderr_text));
  items.emplace_back("result", host::json_of([&](JsonWriter& out) {
                       out.raw("{\"results\":");
                       out.list(report.results, [&](const ReportValue& value) {
                         write_texts(out, {value.type, value.value});
                       });
                       out.raw(",\"result\":");
                       out.bytes(report.result);
                       out.raw(",\"value\":");
                       write_value(out, report.value);
                       out.raw("}");
                     }));
  items.emplace_back("displays", host::json_of([&](JsonWriter& out) {
                       out.list(report.displays, [&](const RichValue& value) { write_value(out, value); });
                     }));
  items.emplace_back("answer", report.submitted ? json_of_bytes(report.answer) : "null");
  items.emplace_back("errors", host::json_of([&](JsonWriter& out) {
                       out.list(report.errors, [&](const ReportError& error) {
                         write_texts(out, {error.code, error.message, error.traceback});
                       });
                     }));
  items.emplace_back("files", host::json_of([&](JsonWriter& out) {
                       out.list(files, [&](const MadeFile& file) {
                         out.raw("[");
                         out.bytes(file.path);
                         out.raw(",");
                         out.number(file.size_bytes);
                         out.raw(",");
                         out.text(file.sha256);
                         out.raw("]");
                       });
                     }));
  return items;
}

std::string sealed_policy(const policy::Policy& policy) {
  policy::Policy sealed = policy;
  for (policy::HttpGrant& grant : sealed.http)
    for (auto& [name, value] : grant.headers)
      if (!value.text.empty()) value.text = "not-kept";
  return policy::to_json(sealed);
}

Result<std::string> describe_template(const Template* of) {
  if (of == nullptr) return std::string("{\"language\":\"wasm\"}");
  const lang::Package& package = of->package();
  std::vector<std::pair<std::string, std::string>> files;
  MEMBRANE_ASSIGN(const std::string module, hash_of(package.module));
  for (const lang::PackageFile& file : package.files) {
    MEMBRANE_ASSIGN(std::string hash, hash_of(file));
    files.emplace_back(file.guest, std::move(hash));
  }
  std::string packages;
  if (!of->layers().empty()) {
    MEMBRANE_ASSIGN(packages, sha256_hex(of->layers()));
  }
  return host::json_of([&](JsonWriter& out) {
    const auto text = [&](const char* name, std::string_view value) {
      out.raw(std::string(",\"") + name + "\":");
      out.bytes(value);
    };
    out.raw("{\"language\":");
    out.bytes(package.name);
    text("version", package.version);
    text("driver", lang::name_of(package.driver));
    text("module", module);
    out.raw(",\"files\":");
    write_pairs(out, files);
    out.raw(",\"environment\":");
    write_pairs(out, package.environment);
    out.raw(",\"arguments\":");
    write_texts(out, package.arguments);
    text("init", package.init);
    text("frame", lang::name_of(package.frame));
    text("end", package.end);
    out.raw(",\"warm\":");
    write_texts(out, of->modules());
    text("packages", packages);
    out.raw("}");
  });
}

std::string describe_computer(const ComputerDescription& computer) {
  nlohmann::ordered_json out = {{"image_sha256", computer.image_sha256},
                                {"image_bytes", computer.image_bytes},
                                {"platform", computer.platform},
                                {"directory", computer.directory}};
  if (computer.deterministic)
    out["deterministic"] = {{"start_ms", computer.deterministic->first},
                            {"seed", computer.deterministic->second}};
  return json_text(out);
}

std::optional<ComputerDescription> read_computer(std::string_view text) {
  const auto json = read_json(text, "the sandbox");
  if (!json || !json->is_object()) return std::nullopt;
  ComputerDescription computer;
  const auto read_text = [&](const char* name, std::string& into) {
    const auto at = json->find(name);
    if (at == json->end() || !at->is_string()) return false;
    into = at->get<std::string>();
    return true;
  };
  if (!read_text("image_sha256", computer.image_sha256) || !read_text("platform", computer.platform) ||
      !read_text("directory", computer.directory))
    return std::nullopt;
  const auto bytes = json->find("image_bytes");
  if (bytes == json->end() || !bytes->is_number_unsigned()) return std::nullopt;
  computer.image_bytes = bytes->get<uint64_t>();
  const auto same = json->find("deterministic");
  if (same == json->end()) return computer;
  if (!same->is_object() || !same->contains("start_ms") || !same->contains("seed")) return std::nullopt;
  const auto &start = (*same)["start_ms"], &seed = (*same)["seed"];
  if (!start.is_number_integer() || !seed.is_number_unsigned()) return std::nullopt;
  computer.deterministic = {start.get<int64_t>(), seed.get<uint64_t>()};
  return computer;
}

}  // namespace membrane::sandbox
