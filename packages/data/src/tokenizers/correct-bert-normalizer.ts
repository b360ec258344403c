/** What a normalizer of the library looks like to us. */
interface LibraryNormalizer {
  readonly normalizers?: readonly (LibraryNormalizer | null)[];
  tokenize_chinese_chars?: (text: string) => string;
  readonly config?: { readonly lowercase?: boolean };
  normalize(text: string): string;
}

// CJK ideographs as BERT counts them (its tokenization.py): the unified blocks, their extensions,
// compatibility ones.
const ideographs =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b820}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

/**
 * Mends BertNormalizer of @huggingface/tokenizers 0.2.0, in place: it looks for ideographs in UTF-16 units,
 * so those beyond U+FFFF never stand alone as they do in Python; and its small sigma depends on the place in
 * the word, where the Rust library lowers each character by itself.
 */
export function correctBertNormalizer(normalizer: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = normalizer as LibraryNormalizer | null | undefined;
  if (found === null || found === undefined) return;
  for (const part of found.normalizers ?? []) correctBertNormalizer(part);
  if (typeof found.tokenize_chinese_chars === 'function') {
    found.tokenize_chinese_chars = (text) => text.replace(ideographs, ' $& ');
    const normalize = found.normalize.bind(found);
    if (found.config?.lowercase) found.normalize = (text) => normalize(text.replaceAll('Σ', 'σ'));
  }
}
