#include "lang/wat/host_testing.h"

namespace membrane::lang {

const HostTable& test_host() {
  using enum wasm::ValType;
  static const HostTable kHost({
      {"http", "get", {{kI32}, {kI32, kI32}}, true, 0b1, "http.get(url) -> body, errno"},
      {"http",
       "post",
       {{kI32, kI32, kI32}, {kI32, kI32}},
       true,
       0b111,
       "http.post(url, content_type, body) -> body, errno"},
      {"io", "print", {{kI32}, {}}, false, 0b1, "io.print(text)"},
      {"io", "print_i32", {{kI32}, {}}, false, 0, "io.print_i32(value)"},
      {"io", "print_f64", {{kF64}, {}}, false, 0, "io.print_f64(value)"},
      {"io", "input", {{}, {kI32}}, false, 0, "io.input() -> text"},
      {"kv", "get", {{kI32}, {kI32, kI32}}, true, 0b1, "kv.get(key) -> value, errno"},
      {"kv", "set", {{kI32, kI32}, {kI32}}, true, 0b11, "kv.set(key, value) -> errno"},
      {"list", "count", {{kI32}, {kI32}}, false, 0b1, "list.count(list) -> count"},
      {"list", "items", {{kI32}, {kI32, kI32}}, true, 0b1, "list.items(json) -> list, errno"},
      {"list", "lines", {{kI32}, {kI32}}, false, 0b1, "list.lines(text) -> list"},
      {"list", "split", {{kI32, kI32}, {kI32}}, false, 0b11, "list.split(text, separator) -> list"},
      {"str", "concat", {{kI32, kI32}, {kI32, kI32}}, true, 0b11, "str.concat(a, b) -> text, errno"},
      {"str", "from_i32", {{kI32}, {kI32}}, false, 0, "str.from_i32(value) -> text"},
      {"str", "length", {{kI32}, {kI32}}, false, 0b1, "str.length(text) -> length"},
      {"str", "zeros", {{kI32}, {kI32}}, false, 0, "str.zeros(count) -> bytes"},
      {"time", "now_ms", {{}, {kI64, kI32}}, true, 0, "time.now_ms() -> ms, errno"},
  });
  return kHost;
}

}  // namespace membrane::lang
