import { writeFileAtomically } from '../files/write-files.js';
import type { TokenizerJson } from '../tokenizers/check-tokenizer-json.js';

/** Writes a tokenizer.json (atomically) that Hugging Face's libraries and `HuggingFaceTokenizer` load. */
export function writeTokenizerJson(path: string, tokenizer: TokenizerJson): void {
  writeFileAtomically(path, [`${JSON.stringify(tokenizer, null, 2)}\n`]);
}
