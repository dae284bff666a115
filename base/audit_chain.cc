#include "base/audit_chain.h"

#include "base/json.h"
#include "base/sha256.h"

namespace membrane {

std::string AuditChain::line_of(nlohmann::ordered_json record) const {
  nlohmann::ordered_json line = {{"number", count_ + 1}};
  for (const auto& [name, value] : record.items()) line[name] = value;
  line["before"] = head_;
  return json_text(line) + "\n";
}

Status AuditChain::take(std::string_view line, bool is_first) {
  const std::string where = "line " + std::to_string(count_ + 1) + " ";
  if (line.size() > kMostAuditLineBytes)
    return fail(ErrorCode::kInvalidInput, where + "is longer than a line of an audit log can be");
  const auto json = read_json(line, "the line", {.bytes = kMostAuditLineBytes, .depth = 8, .values = 1'000});
  if (!json) return fail(ErrorCode::kInvalidInput, where + "is no JSON: " + json.error().message);
  const auto number = json->find("number"), before = json->find("before");
  if (!json->is_object() || number == json->end() || !number->is_number_unsigned() || before == json->end() ||
      !before->is_string())
    return fail(ErrorCode::kInvalidInput, where + "is not a record of an audit log");
  if (!is_first && number->get<uint64_t>() != count_ + 1)
    return fail(ErrorCode::kInvalidInput, where + "has the number " +
                                              std::to_string(number->get<uint64_t>()) +
                                              ": lines were left out or put in");
  if (!is_first && before->get_ref<const std::string&>() != head_)
    return fail(ErrorCode::kInvalidInput,
                where + "does not follow the line before it: one of both was changed");
  MEMBRANE_ASSIGN(std::string head, sha256_hex(line));
  head_ = std::move(head);
  count_ = number->get<uint64_t>();
  return {};
}

Status AuditChain::follow(std::string_view line) { return take(line, false); }
Status AuditChain::begin_after(std::string_view line) { return take(line, true); }

}  // namespace membrane
