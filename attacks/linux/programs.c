// Executed files that are not programs, or programs that no linker creates.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

struct Image {
  Elf64_Ehdr head;
  Elf64_Phdr parts[8];
  char rest[4096];
};

// A program of one segment, which exits with 7.
static void make(struct Image* image) {
  static const unsigned char code[] = {0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05};
  memset(image, 0, sizeof *image);
  memcpy(image->head.e_ident, ELFMAG "\2\1\1", 7);
  image->head.e_type = ET_EXEC;
  image->head.e_machine = EM_X86_64;
  image->head.e_version = 1;
  image->head.e_ehsize = sizeof image->head;
  image->head.e_phoff = offsetof(struct Image, parts);
  image->head.e_phentsize = sizeof(Elf64_Phdr);
  image->head.e_phnum = 1;
  image->head.e_entry = 0x400000 + offsetof(struct Image, rest);
  image->parts[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_flags = PF_R | PF_X,
                                 .p_vaddr = 0x400000,
                                 .p_filesz = sizeof *image,
                                 .p_memsz = sizeof *image,
                                 .p_align = 4096};
  memcpy(image->rest, code, sizeof code);
}

static void store(const char* path, const void* bytes, size_t length) {
  unlink(path);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  if (write(file, bytes, length) != (ssize_t)length) _exit(0);
  close(file);
}

// Executes it in a process of its own.
static int execute(const char* path) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(2);
    char* const words[] = {(char*)path, NULL};
    execve(path, words, words + 1);
    _exit(126);
  }
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

static int bad_elf(long which) {
  struct Image image;
  make(&image);
  size_t length = sizeof image;
  Elf64_Phdr* const part = image.parts;
  const Elf64_Phdr second = part[0];
  switch (which) {
    case 0: length = 10; break;
    case 1: length = sizeof image.head; break;
    case 2: image.head.e_phnum = 0xffff; break;
    case 3: image.head.e_phnum = 0; break;
    case 4: image.head.e_phoff = ~0ul - 8; break;
    case 5: image.head.e_phoff = 1; break;
    case 6: image.head.e_phentsize = 1; break;
    case 7: image.head.e_entry = 0xffff800000000000; break;
    case 8: image.head.e_entry = 0x7ffe00000000; break;
    case 9: image.head.e_entry = 1; break;
    case 10: part->p_vaddr = 0xffff800000000000; break;
    case 11: part->p_vaddr = 0x7ffe00000000; break;
    case 12: part->p_vaddr = 0x7ffe10000000; break;
    case 13: part->p_vaddr = 0; break;
    case 14:
      part->p_vaddr = 0x7ffdfffff000;
      part->p_memsz = 1ul << 40;
      break;
    case 15: part->p_vaddr = ~0ul - 4096; break;
    case 16: part->p_memsz = ~0ul; break;
    case 17: part->p_filesz = ~0ul; break;
    case 18:
      part->p_filesz = 1ul << 40;
      part->p_memsz = 1ul << 40;
      break;
    case 19: part->p_memsz = 1; break;
    case 20: part->p_memsz = 1ul << 46; break;
    case 21: part->p_offset = ~0ul - 100; break;
    case 22: part->p_offset = 1; break;
    case 23: part->p_offset = 1ul << 50; break;
    case 24: part->p_align = 3; break;
    case 25: part->p_align = 1ul << 62; break;
    case 26: part->p_flags = PF_R | PF_W | PF_X; break;
    case 27: part->p_flags = 0; break;
    case 28:
      image.head.e_phnum = 8;
      for (int i = 1; i < 8; ++i) part[i] = second;
      break;
    case 29:
      image.head.e_phnum = 2;
      part[1] = second;
      part[1].p_vaddr += 100;
      break;
    case 30:
      image.head.e_type = ET_DYN;
      part->p_vaddr = 0x7fffffff0000;
      break;
    case 31: image.head.e_type = ET_REL; break;
    case 32: image.head.e_type = ET_CORE; break;
    case 33: image.head.e_ident[EI_CLASS] = ELFCLASS32; break;
    case 34: image.head.e_ident[EI_DATA] = ELFDATA2MSB; break;
    case 35: image.head.e_machine = EM_386; break;
    case 36:
      image.head.e_phnum = 2;
      part[1] =
          (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(struct Image, rest) + 100, .p_filesz = 10};
      strcpy(image.rest + 100, "/tmp/bad");  // itself
      break;
    case 37:
      image.head.e_phnum = 2;
      part[1] =
          (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(struct Image, rest) + 100, .p_filesz = ~0ul};
      break;
    case 38:
      image.head.e_phnum = 2;
      part[1] =
          (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(struct Image, rest) + 100, .p_filesz = 4};
      memcpy(image.rest + 100, "abcd", 4);  // no zero at its end
      break;
    case 39:
      image.head.e_phnum = 2;
      part[1] =
          (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(struct Image, rest) + 100, .p_filesz = 5};
      strcpy(image.rest + 100, "/tmp");
      break;
    case 40:
      image.head.e_phnum = 2;
      part[1] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W | PF_X, .p_memsz = ~0ul};
      break;
    case 41:
      image.head.e_phnum = 2;
      part[1] = (Elf64_Phdr){.p_type = PT_TLS, .p_memsz = ~0ul, .p_align = ~0ul};
      break;
    case 42: part->p_filesz = 0; break;
    case 43: part->p_vaddr = 0x400123; break;
    default: break;
  }
  store("/tmp/bad", &image, length);
  execute("/tmp/bad");
  return kHeld;
}

// The valid one runs, so the others fail because of what is wrong with them.
static int good_elf(long unused) {
  (void)unused;
  struct Image image;
  make(&image);
  store("/tmp/good", &image, sizeof image);
  const int status = execute("/tmp/good");
  return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? kHeld
                                                       : escaped("a sound program does not run: %d", status);
}

static int script(long which) {
  char text[8192];
  switch (which) {
    case 0: strcpy(text, "#!/tmp/script\n"); break;  // itself
    case 1: strcpy(text, "#!"); break;
    case 2: strcpy(text, "#!\n"); break;
    case 3:
      memset(text, 'a', sizeof text);
      memcpy(text, "#!/", 3);
      text[8000] = 0;
      break;
    case 4: strcpy(text, "#!/tmp\n"); break;
    case 5: strcpy(text, "#! \t \n"); break;
    case 6: strcpy(text, "#!/proc/self/exe\n"); break;
    case 7: strcpy(text, "#!/dev/zero\n"); break;
    default: strcpy(text, "#!/proc/self/mem\n"); break;
  }
  store("/tmp/script", text, strlen(text));
  execute("/tmp/script");
  return kHeld;
}

static int chain(long unused) {
  (void)unused;
  for (int i = 0; i < 100; ++i) {
    char path[40], text[60];
    snprintf(path, sizeof path, "/tmp/chain%d", i);
    snprintf(text, sizeof text, "#!/tmp/chain%d\n", i + 1);
    store(path, text, strlen(text));
  }
  execute("/tmp/chain0");
  return kHeld;
}

static int odd_files(long which) {
  static const char* const kPaths[] = {
      "/",        "/dev/zero",       "/dev/null", "/proc/self/maps", "/proc/self/mem",
      "/dev/tty", "/proc/self/fd/0", "",          "/nowhere"};
  execute(kPaths[which]);
  return kHeld;
}

static int arguments(long which) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(5);
    static char* words[300000];
    static char word[4 << 20];
    memset(word, 'a', sizeof word - 1);
    for (size_t i = 0; i < 299999; ++i) words[i] = which == 0 ? word : word + sizeof word - 20;
    if (which == 2) words[0] = NULL;
    execve("/bin/true", words, words);
    _exit(0);
  }
  waitpid(process, NULL, 0);
  return kHeld;
}

// A program that is written while it runs, and while it is mapped.
static int written_while_run(long unused) {
  (void)unused;
  struct Image image;
  make(&image);
  static const unsigned char forever[] = {0xeb, 0xfe};
  memcpy(image.rest, forever, 2);
  store("/tmp/busy", &image, sizeof image);
  const pid_t process = fork();
  if (process == 0) {
    char* const words[] = {"/tmp/busy", NULL};
    execve(words[0], words, words + 1);
    _exit(0);
  }
  usleep(20000);
  const int file = open("/tmp/busy", O_RDWR);
  if (file >= 0) {
    ftruncate(file, 0);
    ftruncate(file, 1 << 20);
  }
  usleep(20000);
  kill(process, 9);
  waitpid(process, NULL, 0);
  return kHeld;
}

static int exec_loop(long unused) {
  (void)unused;
  for (int round = 0; round < 150; ++round) execute("/bin/true");
  return kHeld;
}

#define ELF(n) {"program.elf." #n, bad_elf, n}
#define SCRIPT(n) {"program.script." #n, script, n}
#define ODD(n) {"program.file." #n, odd_files, n}
const struct Attack kPrograms[] = {{"program.sound", good_elf, 0},
                                   ELF(0),
                                   ELF(1),
                                   ELF(2),
                                   ELF(3),
                                   ELF(4),
                                   ELF(5),
                                   ELF(6),
                                   ELF(7),
                                   ELF(8),
                                   ELF(9),
                                   ELF(10),
                                   ELF(11),
                                   ELF(12),
                                   ELF(13),
                                   ELF(14),
                                   ELF(15),
                                   ELF(16),
                                   ELF(17),
                                   ELF(18),
                                   ELF(19),
                                   ELF(20),
                                   ELF(21),
                                   ELF(22),
                                   ELF(23),
                                   ELF(24),
                                   ELF(25),
                                   ELF(26),
                                   ELF(27),
                                   ELF(28),
                                   ELF(29),
                                   ELF(30),
                                   ELF(31),
                                   ELF(32),
                                   ELF(33),
                                   ELF(34),
                                   ELF(35),
                                   ELF(36),
                                   ELF(37),
                                   ELF(38),
                                   ELF(39),
                                   ELF(40),
                                   ELF(41),
                                   ELF(42),
                                   ELF(43),
                                   SCRIPT(0),
                                   SCRIPT(1),
                                   SCRIPT(2),
                                   SCRIPT(3),
                                   SCRIPT(4),
                                   SCRIPT(5),
                                   SCRIPT(6),
                                   SCRIPT(7),
                                   SCRIPT(8),
                                   ODD(0),
                                   ODD(1),
                                   ODD(2),
                                   ODD(3),
                                   ODD(4),
                                   ODD(5),
                                   ODD(6),
                                   ODD(7),
                                   ODD(8),
                                   {"program.chain", chain, 0},
                                   {"program.arguments.long", arguments, 0},
                                   {"program.arguments.many", arguments, 1},
                                   {"program.arguments.none", arguments, 2},
                                   {"program.written", written_while_run, 0},
                                   {"program.loop", exec_loop, 0},
                                   {NULL, NULL, 0}};
