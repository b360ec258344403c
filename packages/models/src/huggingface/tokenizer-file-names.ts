/** Files of a tokenizer in a Hugging Face directory, chat templates among them. */
export const tokenizerFileNames = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'vocab.txt',
  'tokenizer.model',
  'tekken.json',
  'chat_template.jinja',
  'chat_template.json',
] as const;
