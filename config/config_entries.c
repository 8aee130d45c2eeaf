/* The user's entries, not yet parsed: a block for each source and one for all other keys. */
#include "config_internal.h"
#include <stdlib.h>
#include <string.h>

void config_entries_close(config_entries *all) {
  for (int i = 0; i < all->count; i++) {
    for (int key = 0; key < config_key_count; key++) free(all->blocks[i]->entries[key].text);
    free(all->blocks[i]);
  }
  free(all->blocks);
  *all = (config_entries){0};
}

int config_entries_copy(config_entries *copy, const config_entries *all, error *e) {
  copy->file = all->file;
  for (int i = 0; i < all->count; i++) {
    const config_block *from = all->blocks[i];
    config_block *to;
    TRY(config_block_of(copy, from->number, from->line, &to, e));
    for (int key = 0; key < config_key_count; key++) {
      to->entries[key] = from->entries[key];
      const char *text = from->entries[key].text;
      if (text && !(to->entries[key].text = strdup(text)))
        return FAIL(e, OUT_OF_MEMORY, strlen(text), "the configuration");
    }
  }
  return 0;
}

int config_block_of(config_entries *all, int number, int line, config_block **block, error *e) {
  int at = all->count; /* the new block's place: behind all blocks of lower numbers */
  while (at > 0 && all->blocks[at - 1]->number > number) at--;
  if (at > 0 && all->blocks[at - 1]->number == number) {
    *block = all->blocks[at - 1];
    return 0;
  }
  const size_t bytes = sizeof **block + (size_t)config_key_count * sizeof(config_entry);
  TRY(GROW(e, all->blocks, all->count + 1, "the configuration"));
  if (!(*block = calloc(1, bytes))) return FAIL(e, OUT_OF_MEMORY, bytes, "the configuration");
  (*block)->number = number;
  (*block)->line = line;
  memmove(&all->blocks[at + 1], &all->blocks[at], (size_t)(all->count - at) * sizeof *all->blocks);
  all->blocks[at] = *block;
  all->count++;
  return 0;
}

void config_drop_cleared(config_entries *all) {
  int kept = 1; /* the first block is no source */
  for (int i = 1; i < all->count; i++) {
    config_block *block = all->blocks[i];
    bool given = false, named = false;
    for (const config_entry *k = block->entries; k < block->entries + config_key_count; k++)
      given = given || k->text, named = named || k->line;
    if (given || !named)
      all->blocks[kept++] = block;
    else
      free(block);
  }
  all->count = kept;
}

const config_entry *config_entry_of(const config_block *given, const char *section, const char *name) {
  int key = 0;
  while (strcmp(config_keys[key].section, section) != 0 || strcmp(config_keys[key].name, name) != 0) key++;
  return &given->entries[key];
}

void config_place(char place[PLACE_TEXT], const char *file, int line) {
  if (line == ENTRY_OVERRIDE)
    snprintf(place, PLACE_TEXT, "command line");
  else if (line == 0)
    snprintf(place, PLACE_TEXT, "%s", file);
  else
    snprintf(place, PLACE_TEXT, "%s:%d", file, line);
}

void config_place_of(char place[PLACE_TEXT], const config *c, int line) {
  const bool of_shot = line < ENTRY_OVERRIDE;
  config_place(place, of_shot ? c->survey_file : c->file, of_shot ? ENTRY_OVERRIDE - line : line);
}

void config_section(char section[SECTION_TEXT], const config_key *key, int number) {
  if (key->of_source)
    snprintf(section, SECTION_TEXT, "source.%d", number);
  else
    snprintf(section, SECTION_TEXT, "%s", key->section);
}
