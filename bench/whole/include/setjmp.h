// wasi-libc has none. Lua's errors end the program instead: the benchmark makes none.
#pragma once
typedef int jmp_buf;
