import { type PatternSettings, replaceMatches, textPattern } from './text-pattern.js';

/** What a normalizer of the library looks like to us. */
interface LibraryNormalizer {
  readonly normalizers?: readonly (LibraryNormalizer | null)[];
  tokenize_chinese_chars?: (text: string) => string;
  normalize(text: string): string;
}

/** A normalizer in tokenizer.json. */
interface NormalizerSettings {
  readonly type?: string;
  readonly normalizers?: readonly unknown[];
  readonly lowercase?: boolean;
  readonly strip_left?: boolean;
  readonly strip_right?: boolean;
  /** Of a Replace. */
  readonly pattern?: PatternSettings;
  readonly content?: string;
}

// CJK ideographs as BERT counts them (its tokenization.py): the unified blocks, their extensions,
// compatibility ones.
const ideographs =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b820}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

/**
 * Corrects normalizers of @huggingface/tokenizers 0.2.0, in place, where the tokenizers library gives other
 * texts. BertNormalizer looks for ideographs in UTF-16 units, so those beyond U+FFFF never stand alone as
 * they do in Python. Lower case of a capital sigma depends on its place in the word, where the Rust library
 * lowers each character alone. Strip takes U+FEFF for white space, and U+0085 for none. Replace reads
 * expressions as Oniguruma, and `$` of its content as it is.
 *
 * @param settings the normalizer in tokenizer.json
 */
export function correctNormalizer(normalizer: unknown, settings: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = normalizer as LibraryNormalizer | null | undefined;
  if (found === null || found === undefined) return;
  const config = settings as NormalizerSettings | null | undefined;
  for (const [i, part] of (found.normalizers ?? []).entries()) {
    correctNormalizer(part, config?.normalizers?.[i]);
  }
  const normalize = found.normalize.bind(found);
  if (typeof found.tokenize_chinese_chars === 'function') {
    found.tokenize_chinese_chars = (text) => text.replace(ideographs, ' $& ');
  }
  if (config?.type === 'Lowercase' || config?.lowercase === true) {
    found.normalize = (text) => normalize(text.replaceAll('Σ', 'σ'));
  }
  if (config?.type === 'Replace') {
    const { pattern = {}, content = '' } = config;
    const expression = textPattern(pattern);
    found.normalize = (text) => replaceMatches(text, expression, content);
  }
  if (config?.type === 'Strip') {
    const ends = [
      ...(config.strip_left === true ? ['^\\p{White_Space}+'] : []),
      ...(config.strip_right === true ? ['(?<!\\p{White_Space})\\p{White_Space}+$'] : []),
    ];
    const pattern = new RegExp(ends.join('|'), 'gu');
    found.normalize = (text) => (ends.length === 0 ? text : text.replace(pattern, ''));
  }
}
