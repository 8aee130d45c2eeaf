/* Hands the files of folders to an entry point: what libFuzzer's own main does with `-runs=0`, for any compiler.
 *   fuzz_NAME FOLDER... */
#include <dirent.h>
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int replay_file(const char *folder, const char *name) {
  char path[4096], *bytes = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *from = fopen(path, "rb"), *to = open_memstream(&bytes, &size);
  demand(from && to, "cannot read", path);
  for (int c; (c = getc(from)) != EOF;) putc(c, to);
  fclose(from);
  fclose(to);
  LLVMFuzzerTestOneInput((const uint8_t *)bytes, size);
  free(bytes);
  return 1;
}

int main(int argc, char **argv) {
  int files = 0;
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    demand(folder != NULL, "cannot open", argv[i]);
    for (struct dirent *entry; (entry = readdir(folder));)
      if (entry->d_type == DT_REG) files += replay_file(argv[i], entry->d_name);
    closedir(folder);
  }
  printf("%d files\n", files);
  return files == 0;
}
