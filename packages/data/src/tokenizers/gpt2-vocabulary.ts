/** The token that ends a document, the last of GPT-2's vocabulary. */
export const endOfText = '<|endoftext|>';

/**
 * GPT-2's 50,256 byte-pair tokens in the order of their ids, which is that of their merges. They are byte
 * strings: a character U+0000 to U+00FF for each byte.
 */
export async function loadGpt2Vocabulary(): Promise<readonly string[]> {
  // Loaded on demand: the vocabulary takes 50 ms to import.
  const { default: tokens } = await import('gpt-tokenizer/bpeRanks/r50k_base');
  return tokens.map((token) => Buffer.from(token as string).toString('latin1'));
}
