#include "linux/kernel/elf.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "linux/kernel/memory.h"

namespace membrane::linux {

namespace {

constexpr size_t kMostHeaders = 128, kMostInterpreter = 4096;
constexpr uint64_t kMostAddress = uint64_t{1} << 47;

int protection_of(uint32_t flags) {
  return ((flags & PF_R) != 0 ? PROT_READ : 0) | ((flags & PF_W) != 0 ? PROT_WRITE : 0) |
         ((flags & PF_X) != 0 ? PROT_EXEC : 0);
}

bool reads(Node& node, uint64_t offset, void* to, size_t size) {
  const auto got = node.read(offset, std::span(static_cast<std::byte*>(to), size));
  return got && *got == size;
}

Try<ElfSegment> segment_of(const Elf64_Phdr& header) {
  if (header.p_memsz < header.p_filesz || header.p_vaddr >= kMostAddress || header.p_memsz >= kMostAddress ||
      header.p_offset >= kMostAddress || (header.p_vaddr - header.p_offset) % kPage != 0)
    return err(ENOEXEC);
  return ElfSegment{.address = header.p_vaddr,
                    .memory_size = header.p_memsz,
                    .offset = header.p_offset,
                    .file_size = header.p_filesz,
                    .protection = protection_of(header.p_flags)};
}

Try<std::string> interpreter_of(Node& node, const Elf64_Phdr& header) {
  if (header.p_filesz < 2 || header.p_filesz > kMostInterpreter) return err(ENOEXEC);
  std::string name(header.p_filesz, '\0');
  if (!reads(node, header.p_offset, name.data(), name.size()) || name.back() != '\0') return err(ENOEXEC);
  name.resize(std::strlen(name.c_str()));
  return name;
}

// Checks the order and bounds of segments, in whole pages.
Done arrange(ElfProgram& program) {
  if (program.segments.empty()) return err(ENOEXEC);
  uint64_t end = 0;
  for (const ElfSegment& each : program.segments) {
    if (page_down(each.address) < end) return err(ENOEXEC);
    end = page_up(each.address + each.memory_size);
  }
  program.lowest = page_down(program.segments.front().address);
  program.end = end;
  return {};
}

}  // namespace

Try<ElfProgram> read_elf(Node& node) {
  Elf64_Ehdr header;
  if (!reads(node, 0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      (header.e_type != ET_EXEC && header.e_type != ET_DYN) || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum == 0 || header.e_phnum > kMostHeaders)
    return err(ENOEXEC);
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  if (!reads(node, header.e_phoff, headers.data(), headers.size() * sizeof headers[0])) return err(ENOEXEC);

  ElfProgram program;
  program.moves = header.e_type == ET_DYN;
  program.entry = header.e_entry;
  program.headers = header.e_phnum;
  for (const Elf64_Phdr& each : headers) {
    if (each.p_type == PT_LOAD && each.p_memsz > 0) {
      MEMBRANE_ASSIGN(const ElfSegment segment, segment_of(each));
      if (each.p_offset <= header.e_phoff && header.e_phoff - each.p_offset < each.p_filesz)
        program.headers_address = each.p_vaddr + (header.e_phoff - each.p_offset);
      if (each.p_align > program.alignment && each.p_align <= (1u << 30) &&
          (each.p_align & (each.p_align - 1)) == 0)
        program.alignment = each.p_align;
      program.segments.push_back(segment);
    } else if (each.p_type == PT_INTERP && program.interpreter.empty()) {
      MEMBRANE_ASSIGN(program.interpreter, interpreter_of(node, each));
    } else if (each.p_type == PT_GNU_STACK) {
      program.has_executable_stack = (each.p_flags & PF_X) != 0;
    }
  }
  MEMBRANE_TRY(arrange(program));
  return program;
}

}  // namespace membrane::linux
