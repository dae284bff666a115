// Counts the words of its input, and lists the files of a directory that it makes.
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) printf("argument %d: %s\n", i, argv[i]);
  long words = 0, bytes = 0;
  int inside = 0;
  for (int c; (c = getchar()) != EOF; ++bytes) {
    words += !inside && !isspace(c);
    inside = !isspace(c);
  }
  printf("%ld words, %ld bytes\n", words, bytes);
  if (mkdir("/made", 0777) != 0) return 2;
  FILE* file = fopen("/made/file", "w");
  if (file == NULL) return 3;
  fprintf(file, "%.3f\n", 2.0 / 3);
  fclose(file);
  if (symlink("file", "/made/link") != 0) return 4;
  DIR* made = opendir("/made");
  char* names[64];
  int count = 0;
  for (struct dirent* entry; (entry = readdir(made)) != NULL && count < 64;)
    names[count++] = strdup(entry->d_name);
  qsort(names, (size_t)count, sizeof *names, by_name);
  for (int i = 0; i < count; ++i) {
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "/made/%s", names[i]);
    if (lstat(path, &info) == 0)
      printf("%s %s\n", names[i],
             S_ISDIR(info.st_mode)   ? "directory"
             : S_ISLNK(info.st_mode) ? "link"
                                     : "file");
  }
  return 7;
}
