/** Files of a tokenizer in a Hugging Face directory. */
export const tokenizerFileNames = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'vocab.txt',
] as const;
