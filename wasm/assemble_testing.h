// Writes binaries by hand, for tests and benchmarks of the binary format and the validator: well
// and badly formed ones alike, which is why the encoder is of no use here.
//
//   binary({section(1, vec({func_type({}, {I32})})), section(3, vec({{0}})),
//           section(10, vec({body("i32.const 1; end")}))})
#pragma once

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/leb128.h"
#include "wasm/opcode.h"
#include "wasm/type_coding.h"
#include "wasm/types.h"

namespace membrane::wasm::testing {

using Bytes = std::vector<uint8_t>;

inline Bytes cat(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

inline Bytes u32(uint32_t value) {
  Bytes out;
  write_leb128(out, value);
  return out;
}

inline Bytes sized(const Bytes& contents) {
  return cat({u32(static_cast<uint32_t>(contents.size())), contents});
}
inline Bytes name(std::string_view text) { return sized(Bytes(text.begin(), text.end())); }

inline Bytes vec(const std::vector<Bytes>& items) {
  Bytes out = u32(static_cast<uint32_t>(items.size()));
  for (const Bytes& i : items) out.insert(out.end(), i.begin(), i.end());
  return out;
}

inline Bytes section(uint8_t id, const Bytes& contents) { return cat({{id}, sized(contents)}); }
inline Bytes custom(std::string_view label, const Bytes& contents) {
  return section(0, cat({name(label), contents}));
}

inline Bytes binary(std::initializer_list<Bytes> sections) {
  return cat({{0x00, 'a', 's', 'm', 1, 0, 0, 0}, cat(sections)});
}

inline Bytes types(const std::vector<ValType>& list) {
  Bytes out = u32(static_cast<uint32_t>(list.size()));
  for (const ValType t : list) append_val_type(out, t);
  return out;
}
inline Bytes func_type(const std::vector<ValType>& params, const std::vector<ValType>& results) {
  return cat({{0x60}, types(params), types(results)});
}

namespace detail {

inline uint8_t type_byte(const std::string& word) {
  for (const ValType t : {ValType::kI32, ValType::kI64, ValType::kF32, ValType::kF64, ValType::kV128,
                          ValType::kFuncRef, ValType::kExternRef, ValType::kExnRef})
    if (name_of(t) == word) return static_cast<uint8_t>(t);
  throw std::invalid_argument("no type: " + word);
}

// The numbers after a mnemonic, as its immediates are written in the binary format.
inline void append_immediates(Bytes& out, Opcode op, std::istringstream& words) {
  std::string word;
  const auto rest = [&](auto write) {
    while (words >> word) write();
  };
  switch (info(op).immediate) {
    case Immediate::kBlock:
      if (!(words >> word)) return out.push_back(0x40);
      if (word[0] >= '0' && word[0] <= '9') return write_leb128(out, static_cast<int64_t>(std::stoll(word)));
      return out.push_back(type_byte(word));
    case Immediate::kI32: return rest([&] { write_leb128(out, static_cast<int32_t>(std::stoll(word))); });
    case Immediate::kI64: return rest([&] { write_leb128(out, static_cast<int64_t>(std::stoll(word))); });
    case Immediate::kF32:
    case Immediate::kF64: return out.resize(out.size() + (info(op).immediate == Immediate::kF32 ? 4 : 8));
    case Immediate::kV128: return out.resize(out.size() + 16);
    case Immediate::kRefType: return rest([&] { out.push_back(type_byte(word)); });
    case Immediate::kSelectTypes: {
      Bytes list;
      rest([&] { list.push_back(type_byte(word)); });
      const Bytes all = sized(list);
      out.insert(out.end(), all.begin(), all.end());
      return;
    }
    case Immediate::kLabelTable: {
      std::vector<uint32_t> labels;
      rest([&] { labels.push_back(static_cast<uint32_t>(std::stoul(word))); });
      write_leb128(out, static_cast<uint32_t>(labels.size() - 1));
      for (const uint32_t l : labels) write_leb128(out, l);
      return;
    }
    default: return rest([&] { write_leb128(out, static_cast<uint32_t>(std::stoul(word))); });
  }
}

}  // namespace detail

// Instructions separated by ";", immediates as numbers: "block i32; i32.const 1; end; drop; end".
// Memory accesses have alignment (log2) and offset. "select funcref" is the typed one.
inline Bytes code(const std::string& text) {
  Bytes out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string mnemonic;
    if (!(words >> mnemonic)) continue;
    const auto found = find_mnemonic(mnemonic);
    if (!found) throw std::invalid_argument("no instruction: " + mnemonic);
    const bool is_typed = *found == Opcode::kSelect && line.find("select ") != std::string::npos;
    const Opcode op = is_typed ? Opcode::kSelectTyped : *found;
    if (info(op).prefix != 0) out.push_back(info(op).prefix);
    if (info(op).prefix != 0) write_leb128(out, uint32_t{info(op).code});
    else out.push_back(static_cast<uint8_t>(info(op).code));
    detail::append_immediates(out, op, words);
  }
  return out;
}

// One entry of the code section. `runs` are its local declarations: count and type each.
inline Bytes body(const std::string& text, const std::vector<std::pair<uint32_t, ValType>>& runs = {}) {
  Bytes locals = u32(static_cast<uint32_t>(runs.size()));
  for (const auto& [count, type] : runs) locals = cat({locals, u32(count), {static_cast<uint8_t>(type)}});
  return sized(cat({locals, code(text)}));
}

}  // namespace membrane::wasm::testing
